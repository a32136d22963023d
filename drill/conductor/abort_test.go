package conductor

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// said is what becomes known at a time.
type said struct {
	at     time.Duration
	sample *history.Sample
	line   bool   // of the log
	unseen string // why looks of the probe fail; "-" = they do not any more
}

// endsAt is when a drill with one condition ends, why, and what a person was told until then.
func endsAt(a experiments.AbortCondition, probe string, all []said) (at time.Duration, why, told string) {
	e := loopDrill(50)
	e.AbortWhen = []experiments.AbortCondition{a}
	e.Probes.Metrics = []experiments.Metric{{Name: "m", Every: time.Second}}
	e.SteadyState.Timeout, e.Limits.MaxRun = time.Hour, time.Hour
	c := New(e, 1)
	for now := int64(0); now < int64(time.Minute); {
		for len(all) > 0 && int64(all[0].at) <= now {
			switch s := all[0]; {
			case s.sample != nil:
				c.Observe(history.Event{Kind: history.SampleKind, Span: history.At(now), Sample: s.sample})
			case s.line:
				c.Observe(history.Event{Kind: history.LogMatch, Span: history.At(now), Match: &history.Match{Pattern: "p"}})
			default:
				c.Unseen(probe, strings.TrimPrefix(s.unseen, "-"))
			}
			all = all[1:]
		}
		for _, x := range c.Step(now) {
			if told == "" {
				told = x.Tell
			}
			if x.Finish {
				return 0, "", told
			}
			if x.Abort != nil {
				return time.Duration(now), x.Abort.What + ": " + x.Abort.Why, told
			}
		}
		if now = c.Next(now); len(all) > 0 {
			now = min(now, int64(all[0].at))
		}
	}
	return 0, "", told
}

func TestAConditionOfAnObservedSystemEndsTheRun(t *testing.T) {
	five, two := 5.0, 2.0
	of := func(metric, target string, values ...float64) *history.Sample {
		s := &history.Sample{Metric: metric, Target: target}
		for _, v := range values {
			s.Values = append(s.Values, history.Value{Value: history.Number(v)})
		}
		return s
	}
	gone := func(target, why string) *history.Sample {
		return &history.Sample{Metric: "m", Target: target, Gone: why}
	}
	metric := experiments.AbortCondition{Metric: "m", Above: &five}
	held := experiments.AbortCondition{Metric: "m", Above: &five, For: 3 * time.Second}
	low := experiments.AbortCondition{Metric: "m", Below: &two}
	query := experiments.AbortCondition{PromQL: &experiments.BlockQuery{Query: "q"}}
	alert := experiments.AbortCondition{Alert: "Down"}
	lines := experiments.AbortCondition{Log: "p", Above: &two}
	within := experiments.AbortCondition{Log: "p", Above: &two, For: 2 * time.Second}
	const s = time.Second
	partly := of("m", "a", 1)
	partly.Partial = "a store is away"
	for _, c := range []struct {
		what  string
		a     experiments.AbortCondition
		probe string
		all   []said
		at    time.Duration // 0 = it does not
		why   string
		told  bool
	}{
		{"at once", metric, "metric:m", []said{{at: 0, sample: of("m", "a", 1)}, {at: 4 * s, sample: of("m", "a", 6)}}, 4 * s, "metric m: a gives 6", false},
		{"at the limit", metric, "metric:m", []said{{at: 0, sample: of("m", "a", 5)}}, 0, "", false},
		{"below", low, "metric:m", []said{{at: 0, sample: of("m", "a", 2)}, {at: 4 * s, sample: of("m", "a", 1)}}, 4 * s, "a gives 1", false},
		{"another metric", metric, "metric:m", []said{{at: 0, sample: of("m", "a", 1)}, {at: 1, sample: of("n", "a", 9)}}, 0, "", false},
		{"at one target of two", metric, "metric:m", []said{{at: 0, sample: of("m", "a", 6)}, {at: 0, sample: of("m", "b", 1)}}, 1, "a gives 6", false},
		{"one of its series", metric, "metric:m", []said{{at: 4 * s, sample: of("m", "a", 1, 7, 2)}}, 4 * s, "a gives 7", false},
		{"for three seconds", held, "metric:m", []said{{at: 1 * s, sample: of("m", "a", 6)}, {at: 2 * s, sample: of("m", "a", 8)}}, 4 * s, "a gives 8, for 3s", false},
		{"with a break", held, "metric:m", []said{{at: 1 * s, sample: of("m", "a", 6)}, {at: 3 * s, sample: of("m", "a", 1)}, {at: 5 * s, sample: of("m", "a", 6)}}, 8 * s, "for 3s", false},
		{"no longer than that", held, "metric:m", []said{{at: 1 * s, sample: of("m", "a", 6)}, {at: 3 * s, sample: of("m", "a", 1)}}, 0, "", false},
		{"with a break in the answers", held, "metric:m", []said{{at: 1 * s, sample: of("m", "a", 6)}, {at: 2 * s, sample: gone("a", history.GoneTimeout)}, {at: 3 * s, sample: of("m", "a", 6)}}, 4 * s, "a gives 6, for 3s", true},
		{"over after a break in the answers", held, "metric:m", []said{{at: 1 * s, sample: of("m", "a", 6)}, {at: 2 * s, sample: gone("a", history.GoneTimeout)}, {at: 3 * s, sample: of("m", "a", 1)}}, 0, "", true},
		{"no answer at all", metric, "metric:m", nil, 10 * s, "could not be asked for 10s: no answer has come", false},
		{"a target that is away", metric, "metric:m", []said{{at: 0, sample: of("m", "a", 1)}, {at: 2 * s, sample: gone("a", history.GoneTimeout)}}, 12 * s, "could not be asked for 10s: a: timeout", true},
		{"a target that is back", metric, "metric:m", []said{{at: 0, sample: of("m", "a", 1)}, {at: 2 * s, sample: gone("a", history.GoneTimeout)}, {at: 11 * s, sample: of("m", "a", 1)}}, 0, "", true},
		{"a life that is over", metric, "metric:m", []said{{at: 0, sample: of("m", "a", 6.5)}, {at: 0, sample: of("m", "b", 1)}, {at: 0, sample: gone("a", history.GoneExited)}}, 0, "", false},
		{"not a number", metric, "metric:m", []said{{at: 0, sample: of("m", "a", math.NaN())}}, 10 * s, "a gives NaN", true},
		{"infinite", metric, "metric:m", []said{{at: 4 * s, sample: of("m", "a", math.Inf(1))}}, 4 * s, "a gives +Inf", false},
		{"infinite on the other side", metric, "metric:m", []said{{at: 0, sample: of("m", "a", math.Inf(-1))}}, 0, "", false},
		{"no such series", metric, "metric:m", []said{{at: 0, sample: of("m", "a")}}, 10 * s, "a has no such series", true},
		{"in part", metric, "metric:m", []said{{at: 0, sample: partly}}, 10 * s, "the answer is not whole: a store is away", true},
		{"a look that fails", metric, "metric:m", []said{{at: 0, sample: of("m", "a", 1)}, {at: 2 * s, unseen: "refused"}}, 12 * s, "could not be asked for 10s: refused", true},
		{"a look that fails for a while", metric, "metric:m", []said{{at: 0, sample: of("m", "a", 1)}, {at: 2 * s, unseen: "refused"}, {at: 9 * s, unseen: "-"}}, 0, "", true},
		{"an empty result", query, "abort_when[0]", []said{{at: 0, sample: of("abort_when[0]", "server")}}, 0, "", false},
		{"a result of 0", query, "abort_when[0]", []said{{at: 0, sample: of("abort_when[0]", "server", 0)}}, 0, "", false},
		{"a result", query, "abort_when[0]", []said{{at: 3 * s, sample: of("abort_when[0]", "server", 7)}}, 3 * s, "promql: the query gives 7", false},
		{"an alert that is silent", alert, "alerts", []said{{at: 0, sample: of(history.AlertsFiring, "Down")}}, 0, "", false},
		{"another alert", alert, "alerts", []said{{at: 0, sample: of(history.AlertsFiring, "Down")}, {at: s, sample: of(history.AlertsFiring, "Up", 1)}}, 0, "", false},
		{"an alert", alert, "alerts", []said{{at: s, sample: of(history.AlertsFiring, "Down", 1)}}, s, "alert Down: it fires", false},
		{"two lines", lines, "logs", []said{{at: s, line: true}, {at: 9 * s, line: true}}, 0, "", false},
		{"three lines", lines, "logs", []said{{at: s, line: true}, {at: 9 * s, line: true}, {at: 15 * s, line: true}}, 15 * s, "more than 2 lines match p", false},
		{"three lines apart", within, "logs", []said{{at: s, line: true}, {at: 2 * s, line: true}, {at: 9 * s, line: true}}, 0, "", false},
		{"three lines within two seconds", within, "logs", []said{{at: s, line: true}, {at: 8 * s, line: true}, {at: 9 * s, line: true}, {at: 10 * s, line: true}}, 10 * s, "more than 2 lines match p within 2s", false},
		{"a log that cannot be read", lines, "logs", []said{{at: s, unseen: "permission denied"}}, 11 * s, "permission denied", true},
	} {
		at, why, told := endsAt(c.a, c.probe, c.all)
		if at.Truncate(time.Millisecond) != c.at.Truncate(time.Millisecond) || (why != "") != (c.why != "") || !strings.Contains(why, c.why) || why != "" && !strings.HasPrefix(why, "condition: abort_when: ") {
			t.Errorf("%s: it ends at %s by %q, want %s by %q", c.what, at, why, c.at, c.why)
		}
		if (told != "") != c.told {
			t.Errorf("%s: told %q", c.what, told)
		}
	}
}
