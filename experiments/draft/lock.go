package draft

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// policy is the lock's, with what nobody knows assumed.
func (l *Lock) policy() lockcore.Policy {
	if l.Profile != "" {
		if p, err := experiments.Profile(l.Profile); err == nil {
			return p.Policy
		}
	}
	ttl := cmp.Or(l.TTL, time.Minute)
	call := min(2*time.Second, max(10*time.Millisecond, (ttl/5).Round(10*time.Millisecond)))
	p := lockcore.Policy{TTL: ttl, RenewEvery: l.RenewEvery, Class: lockcore.Standard, OpTimeout: call,
		Release: lockcore.Release{Mode: lockcore.ReleaseNone}, Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: call}}
	if l.Mode == lockcore.LoopExplicit || l.Job() {
		p.Release = lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: call}
	}
	if !l.Job() {
		p.Loop = &lockcore.Loop{Poll: l.Poll, Mode: l.Mode}
		if p.Loop.Poll == 0 {
			p.Loop.Poll = ttl / 2
		}
		if p.Loop.Mode == "" {
			p.Loop.Mode = lockcore.LoopTTLHold
			if l.RenewEvery > 0 {
				p.Loop.Mode = lockcore.LoopRenewed
			}
		}
	}
	return p
}

// takeover is what a crash of the holder may cost: the lease, one poll, and three calls. When jobs are tried again nobody has said: within
// a lease's time, it is assumed.
func (l *Lock) takeover() time.Duration {
	p := l.policy()
	limit := p.TTL + 3*p.Acquire.Timeout
	if p.Loop != nil {
		limit += p.Loop.Poll
	} else {
		limit += p.TTL
	}
	return limit
}

// short is the name, where an id can be made of it.
func (l *Lock) short() string { return l.Name[:min(len(l.Name), 40)] }

// write is the lock's entry; one that cannot be drilled yet is a comment.
func (l *Lock) write(b *text, drillable bool, belief string) {
	entry := &text{}
	entry.line(2, "- name: %s", l.Name)
	for _, f := range []struct{ name, value string }{{"key", l.Key}, {"key_prefix", l.KeyPrefix}, {"key_suffix", l.KeySuffix}, {"lease", l.Lease}} {
		if f.value != "" {
			entry.line(3, "%s: %s", f.name, quote(f.value))
		}
	}
	if l.Profile != "" {
		entry.line(3, "profile: %s", l.Profile)
	} else {
		l.writePolicy(entry)
	}
	if belief != "" && !l.Job() {
		entry.comment(3, "belief: "+belief+" # what tells which replicas say that they lead: metric, http, log or command")
	}
	if l.Seen != "" {
		b.comment(2, l.Seen)
	}
	if drillable {
		b.WriteString(entry.String())
		return
	}
	b.comment(2, "It is taken per job: to drill it, say under effects where its jobs are read, and uncomment it.")
	for line := range strings.Lines(entry.String()) {
		b.WriteString("    #" + strings.TrimPrefix(line, "   "))
	}
}

func (l *Lock) writePolicy(b *text) {
	p := l.policy()
	note := func(known bool) string {
		if known {
			return ""
		}
		return " # " + check
	}
	b.line(3, "policy: # what its owner has configured; the sums rest on it")
	b.line(4, "ttl: %s%s", figures.Spell(p.TTL), note(l.TTL > 0))
	b.line(4, "renew_every: %s%s", figures.Spell(p.RenewEvery), note(l.TTL > 0))
	b.line(4, "class: %s # %s: when the holder gives up", p.Class, check)
	if p.RenewEvery > 0 {
		b.line(4, "op_timeout: %s # %s", figures.Spell(p.OpTimeout), check)
	}
	if p.Release.Mode == lockcore.ReleaseNone {
		b.line(4, "release: {mode: none}")
	} else {
		b.line(4, "release: {mode: %s, timeout: %s} # %s", p.Release.Mode, figures.Spell(p.Release.Timeout), check)
	}
	b.line(4, "acquire: {mode: %s, timeout: %s} # %s", p.Acquire.Mode, figures.Spell(p.Acquire.Timeout), check)
	if p.Loop != nil {
		b.line(4, "loop: {poll: %s, mode: %s}%s", figures.Spell(p.Loop.Poll), p.Loop.Mode, note(l.Poll > 0 && l.Mode != ""))
	}
}

// text is a file in the making.
type text struct{ strings.Builder }

func (b *text) line(depth int, format string, args ...any) {
	b.WriteString(strings.Repeat("  ", depth) + fmt.Sprintf(format, args...) + "\n")
}

func (b *text) comment(depth int, words string) {
	if words != "" {
		b.line(depth, "# %s", strings.Join(strings.Fields(words), " "))
	}
}

// quote writes a text so that YAML reads just it.
func quote(s string) string {
	if !strings.ContainsAny(s, "'") && strings.ContainsAny(s, `\`) && strconv.CanBackquote(s) {
		return "'" + s + "'"
	}
	return strconv.Quote(s)
}

func list(words []string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, quote(w))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func labels(of map[string]string) string {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		pairs = append(pairs, quote(k)+": "+quote(of[k]))
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}
