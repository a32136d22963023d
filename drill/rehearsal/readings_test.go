package rehearsal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// A number of somebody's own as it really went, and as a probe shows it that now and then cannot read it, or a part of it.

const readingDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: readings
system: {mode: embedded, replicas: 2, locks: [{name: loop, key: loop, profile: cordum/scheduler-reconciler}]}
steady_state: {for: 1s, timeout: 30s}
faults: [{id: kill, at: 10s, kill: {holder_of: loop}}]
probes: {metrics: [{name: told, scrape: "http://127.0.0.1:9102/metrics", series: told, every: 1s}]}
slos: [{lock: loop, metric: {name: told, max: 5}}]
`

// part is a stretch in which the number was what two sources made of it.
type part struct {
	from, to int64
	one, two float64
}

// numbered is a number of a world: each of its odds is left out in half of the seeds.
type numbered struct {
	counter, odd, below, meanwhile, unread, absent, partial bool

	limit  float64
	parts  []part
	hidden map[string][]history.Span // by what hides it
}

func drawNumber(seed uint64, end int64) numbered {
	r := rand.New(rand.NewPCG(seed, 23))
	half := func() bool { return r.IntN(2) == 0 }
	n := numbered{counter: half(), odd: half(), below: half(), meanwhile: half(), unread: half(), absent: half(), partial: half(), hidden: map[string][]history.Span{}}
	hide := func(is bool, what string) {
		for at := int64(between(r, 0, time.Minute)); is && at < end; at += int64(between(r, 10*time.Second, 90*time.Second)) {
			to := min(end, at+int64(between(r, time.Second, 20*time.Second)))
			n.hidden[what] = append(n.hidden[what], history.Span{From: at, To: to})
			at = to
		}
	}
	hide(n.unread, history.GoneUnreadable)
	hide(n.absent && !n.counter, "absent")
	hide(n.partial, "partial")
	if n.partial && half() { // one source is never heard
		n.hidden["partial"] = []history.Span{{To: end}}
	}
	one, two := 0.0, 0.0
	for at := int64(0); at < end; {
		p := part{from: at, to: min(end, at+int64(between(r, 500*time.Millisecond, 20*time.Second)))}
		if n.counter {
			one, two = one+float64(r.IntN(3)), two+float64(r.IntN(2))
		} else if one, two = float64(r.IntN(6)-3), float64(r.IntN(3)-2); n.odd && r.IntN(4) == 0 {
			one = pick(r, math.NaN(), math.Inf(1))
		}
		if p.one, p.two = one, two; n.below && !n.counter {
			p.one, p.two = p.one-4, p.two-4
		}
		n.parts, at = append(n.parts, p), p.to
	}
	n.limit = pick(r, n.parts...).one
	if n.counter {
		n.limit = max(0, n.parts[len(n.parts)-1].one+float64(r.IntN(10)-3))
	} else if math.IsNaN(n.limit) || math.IsInf(n.limit, 1) {
		n.limit = 2
	}
	if n.meanwhile && !n.counter { // it is high while it is hidden, and only then
		for what, all := range n.hidden {
			for _, s := range all {
				if what != "partial" {
					n.put(s, n.limit+1)
				}
			}
		}
	}
	return n
}

// put makes the number be v in s.
func (n *numbered) put(s history.Span, v float64) {
	var parts []part
	for _, p := range n.parts {
		before, in, after := p, p, p
		before.to, in.from, in.to, after.from = min(p.to, s.From), max(p.from, s.From), min(p.to, s.To), max(p.from, s.To)
		in.one = v
		for _, x := range []part{before, in, after} {
			if x.from < x.to {
				parts = append(parts, x)
			}
		}
	}
	n.parts = parts
}

func (n *numbered) at(t int64) part {
	return n.parts[slices.IndexFunc(n.parts, func(p part) bool { return t < p.to || p.to == n.parts[len(n.parts)-1].to })]
}

func (n *numbered) hides(what string, t int64) bool {
	return slices.ContainsFunc(n.hidden[what], func(s history.Span) bool { return s.From <= t && t < s.To })
}

// looks are the events of a probe that asks once a second for both series, up to the final look.
func (n *numbered) looks(r *rand.Rand, end int64) (out []history.Event, final history.Span) {
	var shown [2]string
	var last [2]*history.Span
	var whole history.Span // the last look that was
	lacked := false
	add := func(kind history.Kind, span history.Span, s *history.Sample, c *history.Coverage) {
		out = append(out, history.Event{Kind: kind, Span: span, At: span.To, Source: "probe:metrics", Sample: s, Coverage: c})
	}
	for at := int64(between(r, 0, time.Second)); ; at += int64(time.Second) {
		span := history.Span{From: at, To: at + int64(between(r, time.Millisecond, 50*time.Millisecond))}
		done := span.To+int64(time.Second) >= end
		instant := span.From + r.Int64N(span.Width())
		p, lacks := n.at(instant), n.hides("partial", instant)
		for i, v := range []float64{p.one, p.two} {
			s := &history.Sample{Metric: "told", Target: []string{"one", "two"}[i], Type: "gauge", Final: done, Prev: last[i]}
			if n.counter {
				s.Type = "counter"
			}
			switch {
			case n.hides(history.GoneUnreadable, instant):
				s.Gone, s.Final = history.GoneUnreadable, false
			case lacks && i == 1:
				continue
			case !n.hides("absent", instant):
				if s.Values = []history.Value{{Value: history.Number(v)}}; lacks {
					s.Partial = "a store is away"
				}
			}
			if now := fmt.Sprint(s.Gone, s.Values, s.Partial); now != shown[i] || done {
				shown[i] = now
				add(history.SampleKind, span, s, nil)
			}
			last[i] = &span
		}
		if lacked = lacked || lacks; lacked && (!lacks || done) {
			gap := history.Span{From: whole.To, To: span.To}
			add(history.GapKind, gap, nil, &history.Coverage{Probe: "metric:told", Why: "a store is away", Failed: true, Partial: true, Largest: gap.Width()})
			lacked = false
		}
		if !lacks {
			whole = span
		}
		if done {
			add(history.CoverageKind, history.Span{To: span.To}, nil, &history.Coverage{Probe: "metric:told", Samples: at / int64(time.Second), Largest: int64(time.Second) * 11 / 10, Final: true})
			return out, span
		}
	}
}

// top is the highest that the number was for longer than least within w, and whether it was no number for so long.
func (n *numbered) top(w history.Span, least int64) (top float64, odd bool) {
	top = math.Inf(-1)
	for _, p := range n.parts {
		if min(w.To, p.to)-max(w.From, p.from) <= least {
			continue
		}
		if odd = odd || math.IsNaN(p.one); !math.IsNaN(p.one) {
			top = max(top, p.one)
		}
		top = max(top, p.two)
	}
	return top, odd
}

// rise is by how much the counter grew.
func (n *numbered) rise(from, to int64) float64 {
	a, b := n.at(from), n.at(to)
	return b.one + b.two - a.one - a.two
}

// What is said of a number contains what it really was, whatever hid it: where it passes, nothing that lasted broke it.
func TestTruthOfReadings(t *testing.T) {
	e, err := experiments.Parse("readings.yaml", []byte(readingDrill))
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(e, sim.DefaultNet()).Run(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var w history.Span
	for i := range d.History.Events {
		if ev := &d.History.Events[i]; ev.Phase != nil && ev.Phase.Name == history.PhaseFaults {
			w.From = ev.From
		} else if ev.Phase != nil && ev.Phase.Name == history.PhaseFinal {
			w.To = ev.From
		}
	}
	worlds := uint64(observedSeeds)
	if s := os.Getenv("LOCKDRILL_TRUTH_SEEDS"); s != "" {
		worlds = max(worlds, number(t, s)/20)
	}
	if testing.Short() {
		worlds = 200
	}
	answers := map[verdict.Verdict]int{}
	for seed := range worlds {
		n := drawNumber(seed, w.To)
		events, final := n.looks(rand.New(rand.NewPCG(seed, 29)), w.To)
		h := *d.History
		h.Header.Mode = history.Live
		h.Events = append(slices.Clone(h.Events), events...)
		slices.SortStableFunc(h.Events, func(a, b history.Event) int { return int(max(-1, min(1, a.At-b.At))) })
		for i := range h.Events {
			h.Events[i].N = int64(i + 1)
		}
		file := *e
		limit := &experiments.MetricLimit{Name: "told"}
		if n.counter {
			limit.Delta = experiments.AtMost(n.limit)
		} else {
			limit.Max = experiments.AtMost(n.limit)
		}
		file.SLOs = []experiments.SLO{{Lock: "loop", Metric: limit}}
		row := analysis.NewJudger(&file).Judge(&h).SLOs[0]
		answers[row.Verdict]++
		wrong := func(format string, a ...any) {
			t.Errorf("seed %d: %s of limit %g (counter %t) %s: %s", seed, row.Verdict, n.limit, n.counter, fmt.Sprintf(format, a...), row.Why)
		}
		hi := math.Inf(1)
		if row.Hi != nil {
			hi = *row.Hi
		}
		if n.counter {
			least, most := n.rise(w.From, final.From), n.rise(w.From, final.To)
			if row.Verdict == verdict.Pass && least > n.limit || row.Verdict == verdict.Fail && most <= n.limit || row.Verdict != verdict.Inconclusive && (row.Lo > most || hi < least) {
				wrong("it rose by %g to %g, and [%g, %g] was measured", least, most, row.Lo, hi)
			}
		} else {
			lasting, odd := n.top(w, int64(7*time.Second))
			seen, _ := n.top(history.Span{From: w.From - int64(2*time.Second), To: w.To}, -1)
			if row.Verdict == verdict.Pass && (odd || lasting > n.limit) || row.Verdict == verdict.Fail && seen <= n.limit || row.Verdict != verdict.Inconclusive && row.Lo > seen {
				wrong("for long it was up to %g, no number %t, at most %g, and [%g, %g] was measured", lasting, odd, seen, row.Lo, hi)
			}
		}
		lasting, _ := n.top(history.Span{From: w.From + int64(2*time.Second), To: w.To}, -1)
		before, _ := n.top(history.Span{From: w.From - int64(2*time.Second), To: w.From}, -1)
		begins := before > n.limit && lasting <= n.limit // whether it was above the limit until the fault or beyond lies between two looks
		if !n.odd && len(n.hidden) == 0 && row.Verdict == verdict.Inconclusive && n.limit != 0 && !begins && !n.counter {
			wrong("nothing was hidden")
		}
	}
	t.Logf("%d worlds from T+%ds to T+%ds: %v", worlds, w.From/1e9, w.To/1e9, answers)
	if worlds >= observedSeeds && min(answers[verdict.Pass], answers[verdict.Fail], answers[verdict.Inconclusive]) < observedSeeds/20 {
		t.Errorf("%v: that is too little of one of them to say anything", answers)
	}
}
