package workercheck

import (
	"fmt"
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
}

func ok(format string, args ...any) finding {
	return finding{result: OK, seen: fmt.Sprintf(format, args...)}
}
func wrong(format string, args ...any) finding {
	return finding{result: Wrong, seen: fmt.Sprintf(format, args...)}
}
func notSeen(format string, args ...any) finding {
	return finding{result: NotSeen, seen: fmt.Sprintf(format, args...)}
}

func (f finding) but(change string) finding { f.change = change; return f }

func (r row) step(b *bench) Step {
	f := r.check(b)
	s := Step{Name: r.name, Title: r.title, Result: f.result, Seen: f.seen, Section: r.section}
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

// effects lists what was written under the scene's job.
func (b *bench) effects(s *scene) (found []effect) {
	for _, e := range b.seen.effects {
		if s.life != nil && e.Subject == s.job && e.Writer == s.life.inc && e.To >= s.from && (s.to == 0 || e.From <= s.to) {
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

func (c *call) extended() bool {
	return c.whole() && c.Before.Token != "" && c.Before.Token == c.After.Token && c.Before.PTTL >= 0 && c.After.PTTL > c.Before.PTTL
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
		if did(c) {
			n++
			if _, matched := b.seen.announcement(c); !c.Announced || !matched {
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

// joined lists a few of many.
func joined(all []string) string {
	if len(all) > 3 {
		return strings.Join(all[:3], "; ") + fmt.Sprintf("; and %d more", len(all)-3)
	}
	return strings.Join(all, "; ")
}
