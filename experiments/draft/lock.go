package draft

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
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
	call := experiments.CallOf(ttl)
	p := lockcore.Policy{TTL: ttl, RenewEvery: l.RenewEvery, Class: lockcore.Standard,
		Release: lockcore.Release{Mode: lockcore.ReleaseNone}, Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: call}}
	if l.RenewEvery > 0 {
		p.OpTimeout = call
	}
	if l.Mode == lockcore.LoopExplicit || l.Job() {
		p.Release = lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: call}
	}
	if !l.Job() {
		p.Loop = &lockcore.Loop{Poll: cmp.Or(l.Poll, ttl/2), Mode: l.Mode}
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
	again := p.TTL
	if p.Loop != nil {
		again = p.Loop.Poll
	}
	return p.TTL + 3*p.Acquire.Timeout + again
}

// entry is the lock as the file has it, and what it says of it.
func (l *Lock) entry() (experiments.Lock, map[string]experiments.Comment) {
	e := experiments.Lock{Name: l.Name, Key: l.Key, KeyPrefix: l.KeyPrefix, KeySuffix: l.KeySuffix, Lease: l.Lease, Profile: l.Profile}
	said := map[string]experiments.Comment{}
	if l.Profile != "" {
		return e, said
	}
	e.Policy = l.policy()
	said["policy"] = beside("what its owner has configured; the sums rest on it")
	said["policy.class"] = beside(check + ": when the holder gives up")
	if l.RenewEvery == 0 {
		said["policy.renew_every"] = beside("its holder never renews it")
		if l.Seen != "" { // who holds for a short time renews later than that
			said["policy.renew_every"] = beside(check + ": no renewal was seen")
		}
	}
	for path, known := range map[string]bool{"ttl": l.TTL > 0, "renew_every": l.TTL > 0, "op_timeout": e.Policy.OpTimeout == 0, "release": l.Mode == lockcore.LoopTTLHold,
		"acquire": false, "loop": l.Poll > 0 && l.Mode != ""} {
		if !known {
			said["policy."+path] = beside(check)
		}
	}
	return e, said
}

func beside(words string) experiments.Comment { return experiments.Comment{Beside: words} }

// quote writes a text as the file has it.
func quote(s string) string {
	if !strings.ContainsAny(s, "'") && strings.ContainsAny(s, `\`) && strconv.CanBackquote(s) {
		return "'" + s + "'"
	}
	return strconv.Quote(s)
}
