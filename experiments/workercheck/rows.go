package workercheck

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// row is one step: what a worker must do, and how it is found out from what was seen.
type row struct {
	name, title, expected, change, section string
	check                                  func(b *bench) finding
	of                                     Subject // what a worker must do for it to apply; "" = either
}

// finding is how a step ended, and the line or the look that shows it. change is what to do about it, where that is not what the row says.
type finding struct {
	result       Result
	seen, change string
	stalled      bool          // not seen, since the machine stood still
	over         *history.Span // of a wrong one: it took too long, or came too late; on a machine that stood still meanwhile that says nothing
}

func ok(format string, args ...any) finding {
	return finding{result: OK, seen: fmt.Sprintf(format, args...)}
}
func wrong(format string, args ...any) finding {
	return finding{result: Wrong, seen: fmt.Sprintf(format, args...)}
}
func stalled(format string, args ...any) finding {
	f := notSeen(format, args...)
	f.stalled = true
	return f
}
func notSeen(format string, args ...any) finding {
	return finding{result: NotSeen, seen: fmt.Sprintf(format, args...)}
}

// late is a finding about time: of a stretch in which something should have come.
func (b *bench) late(s *scene, format string, args ...any) finding {
	f := wrong(format, args...)
	f.over = &history.Span{From: s.from, To: s.to}
	if s.to == 0 {
		f.over.To = math.MaxInt64
	}
	return f
}

// doubted is a finding about time that nobody can be sure of: the machine itself was late.
func (b *bench) doubted(f finding) finding {
	if f.result == NotSeen && b.seen.stalled(0, math.MaxInt64) > b.o.TTL/mostStall { // what was to show it may have come too late for that
		f.stalled = true
	}
	if f.result != Wrong || f.over == nil {
		return f
	}
	if worst := b.seen.stalled(f.over.From, f.over.To); worst > b.o.TTL/mostStall {
		return stalled("%s. But the machine stood still for %s meanwhile, so it may not be the worker's doing: check it where less runs, or with a longer --ttl", f.seen, span(worst))
	}
	return f
}

func (f finding) but(change string) finding { f.change = change; return f }

func (r row) step(b *bench) Step {
	f := b.doubted(r.check(b))
	s := Step{Name: r.name, Title: r.title, Result: f.result, Seen: f.seen, Stalled: f.stalled, Section: r.section}
	if f.result != OK {
		s.Expected = r.expected
	}
	if f.result == Wrong {
		if s.Change = r.change; f.change != "" {
			s.Change = f.change
		}
	}
	return s
}

// rows are all steps, in the order in which they are told.
func rows() []row {
	return slices.Concat(talkRows, acquireRows, holdRows, releaseRows, troubleRows, endRows, loopRows)
}

// applies reports whether the step is about such a worker.
func (r row) applies(only Subject) bool { return only == "" || r.of == "" || r.of == only }

// unplayed is the finding of a step whose scene was not come to.
const unplayed = "the worker did not come so far"

// quote shows a line of the worker as it wrote it, without what is the same in all.
func quote(l line) string {
	e := l.Event
	e.Source, e.Clock, e.At, e.N = "", "", 0, 0
	data, err := history.MarshalEvent(&e)
	if err != nil {
		return string(e.Kind)
	}
	text := strings.NewReplacer(`"n":0,`, "", `"at":0,"source":"",`, "").Replace(string(data))
	if len(text) > 260 {
		return text[:260] + "..."
	}
	return text
}

// within lists the lines of a scene.
func (b *bench) within(s *scene, kinds ...history.Kind) []line {
	if s.life == nil {
		return nil
	}
	all := b.seen.of(s.life.inc, s.from, kinds...)
	if s.to == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(l line) bool { return l.Arrived > s.to })
}

// effects lists what was written under the scene's job, by the order of the ledger.
func (b *bench) effects(s *scene) (found []effect) {
	for _, e := range b.seen.effects {
		if s.life != nil && e.Subject == s.job && e.Writer == s.life.inc && e.Pos > s.first && (s.to == 0 || e.Pos <= s.last) {
			found = append(found, e)
		}
	}
	return found
}

// What a call did to the key, as the looks around it show. A lease that is about to run out may have done so by itself.
func (c *call) whole() bool {
	return c.Replied != 0 && !c.Crowded && c.Before.Err == nil && c.After.Err == nil
}

func (c *call) set() bool {
	return c.whole() && c.After.Token != "" && c.After.Token != stranger && c.Before.Token != c.After.Token
}

func (c *call) deleted() bool {
	return c.whole() && c.Before.Token != "" && c.After.Token == "" && (c.Before.PTTL < 0 || c.Before.PTTL > 50*time.Millisecond)
}

// extended: more is left than there would have been without it, however long the looks are apart.
func (c *call) extended() bool {
	passed := time.Duration(c.After.From - c.Before.To)
	return c.whole() && c.Before.Token != "" && c.Before.Token == c.After.Token && c.Before.PTTL >= 0 && c.After.PTTL > c.Before.PTTL-passed+2*time.Millisecond
}

func (k keyState) String() string {
	switch {
	case k.Err != nil:
		return "the store did not answer"
	case k.Token == "":
		return "no key"
	case k.Token == stranger:
		return "the stranger's token, for " + span(k.PTTL)
	case k.PTTL < 0:
		return "the epoch " + lockcore.Fingerprint(k.Token) + ", without an expiry"
	}
	return "the epoch " + lockcore.Fingerprint(k.Token) + ", for " + span(k.PTTL)
}

func span(d time.Duration) string { return figures.Exact(int64(d)) }

// unannounced is the finding about calls that did something to a key and that no line had announced.
func (b *bench) unannounced(did func(*call) bool, invoke history.Kind, what string) finding {
	n, silent := 0, []*call{}
	for _, c := range b.seen.calls {
		if did(c) && !c.Unsure {
			n++
			if !slices.ContainsFunc(b.seen.served(c), func(o op) bool { return o.Arrived <= c.From() }) {
				silent = append(silent, c)
			}
		}
	}
	if n == 0 {
		return notSeen("no call %s a key", what)
	}
	if len(silent) == 0 {
		return ok("%s, each announced", figures.Plural(n, "call"))
	}
	c := silent[0]
	seen := fmt.Sprintf("%d of %s came without a line: %s on the key %s (before: %s; after: %s); no %s of that key was open, also not %s later",
		len(silent), figures.Plural(n, "call"), c.Name, c.Key, c.Before, c.After, invoke, span(c.Held))
	for _, l := range b.seen.of(c.Life, c.At, invoke) {
		if l.Key == c.Key && l.From <= c.At {
			return wrong("%s. The line %s is stamped before the call and was written %s after it", seen, quote(l), span(time.Duration(l.Arrived-c.At))).
				but("Write each line at once, unbuffered: flush standard output after every line (Python: os.write, or print(..., flush=True)).")
		}
	}
	return wrong("%s", seen)
}
