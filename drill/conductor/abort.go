package conductor

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// abortRow is a condition of an observed system that ends the run, as far as it is known whether it holds.
type abortRow struct {
	*experiments.AbortCondition
	metric  string // of its samples
	probe   string // whose looks show it
	quiet   bool   // a sample without values says that it does not hold; else such a sample says nothing
	unasked int64  // it may be without an answer for so long
	seen    map[string]reading
	lines   []int64 // of a log: when each was written at the latest
	since   int64   // since when it holds; -1 = it does not
	blind   int64   // since when it has no answer; -1 = it has one
	why     string  // of blind; "" = nobody has answered yet
	told    bool    // of blind
}

// reading is what the last sample of a target says.
type reading struct {
	holds string // what is beyond the limit; "" = nothing
	why   string // it says nothing; "" = it does
}

func abortRows(e *experiments.Experiment) (rows []abortRow) {
	for i := range e.AbortWhen {
		a := &e.AbortWhen[i]
		if !a.OfOthers() {
			continue
		}
		r := abortRow{AbortCondition: a, unasked: int64(e.Unasked(i))}
		switch {
		case a.Metric != "":
			r.metric, r.probe = a.Metric, "metric:"+a.Metric
		case a.Alert != "":
			r.metric, r.probe, r.quiet = history.AlertsFiring, "alerts", true
		case a.Log != "":
			r.probe = "logs"
		default:
			r.metric, r.probe, r.quiet = experiments.AbortProbe(i), experiments.AbortProbe(i), true
		}
		r.reset()
		rows = append(rows, r)
	}
	return rows
}

func (r *abortRow) reset() {
	r.seen, r.lines, r.since, r.blind, r.why, r.told = map[string]reading{}, nil, -1, -1, "", false
}

// abortSample takes note of what a sample says of the conditions.
func (c *Conductor) abortSample(at int64, s *history.Sample) {
	for i := range c.aborts {
		r := &c.aborts[i]
		if r.metric != s.Metric || r.Alert != "" && s.Target != r.Alert {
			continue
		}
		if s.Gone == history.GoneExited {
			delete(r.seen, s.Target)
		} else {
			now := r.read(s)
			if now.why != "" && now.holds == "" { // who gives no answer has not said that it is over
				now.holds = r.seen[s.Target].holds
			}
			r.seen[s.Target] = now
		}
		holds := false
		for _, x := range r.seen {
			holds = holds || x.holds != ""
		}
		switch {
		case !holds:
			r.since = -1
		case r.since < 0:
			r.since = at
		}
	}
}

// read says what a sample of a target says. One that is not whole, or no number, says nothing but what is beyond the limit.
func (r *abortRow) read(s *history.Sample) (now reading) {
	switch {
	case s.Gone != "":
		now.why = strings.TrimSuffix(s.Target+": "+s.Gone+", "+s.Why, ", ")
	case s.Partial != "":
		now.why = "the answer is not whole: " + s.Partial
	case len(s.Values) == 0 && !r.quiet:
		now.why = s.Target + " has no such series"
	}
	for _, x := range s.Values {
		switch v := float64(x.Value); {
		case math.IsNaN(v): // an infinity is beyond every limit on its side
			now.why = s.Target + " gives NaN, which is no number to go by"
		case r.Alert != "":
			now.holds = "it fires"
		case r.PromQL != nil && v != 0:
			now.holds = fmt.Sprintf("the query gives %g", v)
		case r.Metric != "" && r.Beyond(v):
			now.holds = fmt.Sprintf("%s gives %g", s.Target, v)
		}
	}
	return now
}

// abortLine takes note of a line of a log.
func (c *Conductor) abortLine(e history.Event) {
	for i := range c.aborts {
		r := &c.aborts[i]
		if r.Log == "" || r.Log != e.Match.Pattern {
			continue
		}
		r.lines = append(r.lines, e.To)
		slices.Sort(r.lines)
		if r.For > 0 {
			last := r.lines[len(r.lines)-1]
			r.lines = slices.DeleteFunc(r.lines, func(at int64) bool { return last-at > int64(r.For) })
		}
		if len(r.lines) > r.Lines() {
			r.since = e.To
		}
	}
}

// lasts is how long it must hold.
func (r *abortRow) lasts() int64 {
	if r.Log != "" { // its lines were counted within that
		return 0
	}
	return int64(r.For)
}

// abortDue ends the run where a condition has held, or nobody knows whether it does, for long enough. What has no answer is told at once.
func (c *Conductor) abortDue(now int64) {
	for i := range c.aborts {
		r := &c.aborts[i]
		unknown, why := r.unknown(c.world.unseen)
		switch {
		case !unknown:
			r.blind, r.told = -1, false
		case r.blind < 0:
			r.blind = now
		}
		if r.why = why; unknown && why != "" && !r.told {
			r.told = true
			c.out = append(c.out, Action{Tell: fmt.Sprintf("abort_when: %s cannot be asked: %s; if that lasts for %s, the run ends", r.Says(), why, figures.Spell(time.Duration(r.unasked)))})
		}
		switch {
		case r.since >= 0 && c.due(now, r.since+r.lasts()):
			c.Abort(history.AbortCondition, "abort_when: "+r.Says()+": "+r.holds())
		case r.blind >= 0 && c.due(now, r.blind+r.unasked):
			if why == "" {
				why = "no answer has come"
			}
			c.Abort(history.AbortCondition, fmt.Sprintf("abort_when: %s could not be asked for %s: %s", r.Says(), figures.Spell(time.Duration(r.unasked)), why))
		}
	}
}

// unknown reports that nobody knows whether the condition holds, and what looks get; "" = none has come to an end yet.
func (r *abortRow) unknown(unseen map[string]string) (unknown bool, why string) {
	if why := unseen[r.probe]; why != "" {
		return true, why
	}
	if r.Log != "" {
		return false, ""
	}
	for _, target := range slices.Sorted(maps.Keys(r.seen)) {
		if x := r.seen[target]; x.why != "" {
			return true, x.why
		}
	}
	return len(r.seen) == 0, ""
}

// holds says what is beyond the limit.
func (r *abortRow) holds() string {
	if r.Log != "" {
		return r.Describe()
	}
	for _, target := range slices.Sorted(maps.Keys(r.seen)) {
		if what := r.seen[target].holds; what != "" && r.For > 0 {
			return what + ", for " + figures.Spell(r.For)
		} else if what != "" {
			return what
		}
	}
	return r.Describe()
}
