package analysis

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/signals"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// probeMetric is what the probe of a metric is called in coverage events, with the metric's name.
const probeMetric = "metric:"

// metricOf is a number of the probes, over all its targets.
func metricOf(j *judging, l *experiments.Limit) figure { return j.metric(l.SLO.Metric) }

// metric measures one over all targets.
func (j *judging) metric(l *experiments.MetricLimit) figure {
	q := j.ask(l)
	form, limit := l.Limit()
	f := figure{n: q.n, evidence: q.evidence, lacks: slices.Concat(q.disagrees, q.missing), unfit: q.unfit, unit: verdict.UnitCount}
	for _, x := range []*float64{limit.Max, limit.Min, limit.Exactly, &q.total.Lo, &q.total.Hi} {
		if x != nil && !whole(*x) {
			f.unit = verdict.UnitValue
		}
	}
	f.Lo, f.Hi = scaled(f.unit, q.total.Lo), scaled(f.unit, q.total.Hi)
	zero := func(x *float64) bool { return x != nil && *x == 0 }
	if form == "max" && q.gauge && (zero(limit.Max) || zero(limit.Exactly)) { // a peak between two scrapes is not seen
		f.Hi, f.unseen, f.unended = facts.Open, unseenPeak, adviceOnPeaks
	}
	if form != "max" && j.diedBeforeFinal() {
		f.unseen, f.unended = "A process that was killed may have counted more after its last scrape", "Ask for what outlives a process, as a line of its log does (probes.logs), or strike without killing, as a pause does."
	}
	if form != "max" && len(q.unanswered(false)) > 0 {
		f.Hi = facts.Open
	}
	f.next, f.few = q.next, adviceOnSamples
	shown := q.total.Lo
	if math.IsInf(shown, -1) { // nobody saw it in the time that is asked about
		shown = q.total.Hi
	}
	what := map[string]string{"delta": "rose by at least", "rate": "rose a second by at least", "max": "was at most"}[form]
	f.saw = fmt.Sprintf("%s %s %s, at %s", q.metric.What(), what, figures.Decimal(shown), figures.Plural(q.n, "target"))
	return f
}

// diedBeforeFinal reports a replica that was gone when signals were read for the last time.
func (j *judging) diedBeforeFinal() bool {
	final, _ := j.ix.FinalAt()
	for _, d := range j.ix.Deaths {
		if d.To < final {
			return true
		}
	}
	return false
}

// questionOf is what l asks, before anything is read.
func (j *judging) questionOf(l *experiments.MetricLimit) *question {
	form, _ := l.Limit()
	q := &question{j: j, metric: j.ix.MetricOf(l.Name), form: form, zero: l.AbsentMeans == "zero", window: j.signalled()}
	for _, s := range q.all() {
		q.gauge = q.gauge || s.Kind == "gauge" && q.lives(s)
	}
	return q
}

// ask reads all targets of a metric.
func (j *judging) ask(l *experiments.MetricLimit) *question {
	q := j.questionOf(l)
	q.raisers = j.ix.Raisers(q.metric)
	for _, d := range j.ix.Disagreements(q.metric) {
		q.disagrees = append(q.disagrees, verdict.Lacking(verdict.MissingAgreement, d.What))
	}
	q.total = q.read()
	if q.form == "rate" {
		width := facts.Seconds(j.window().Width())
		q.total.Lo, q.total.Hi = q.total.Lo/width, q.total.Hi/width
	}
	return q
}

// unsighted says that the signal which l is about was not read all the time.
func (j *judging) unsighted(l *experiments.Limit) []verdict.Missing {
	by := experiments.Signal{}
	switch told := j.teller(l); {
	case l.SLO.Metric != nil:
		by.Metric = l.SLO.Metric.Name
	case l.SLO.Logs != nil:
		by.Log = l.SLO.Logs.Pattern
	case told != nil && told.Of != nil:
		return append(j.sighted(l, *told.Of), j.sighted(l, experiments.Signal{Metric: told.Metric, Log: told.Log})...)
	case told != nil:
		by = experiments.Signal{Metric: told.Metric, Log: told.Log}
	}
	return j.sighted(l, by)
}

// sighted says that a signal was not read all the time.
func (j *judging) sighted(l *experiments.Limit, by experiments.Signal) []verdict.Missing {
	if by.Log != "" {
		_, watched := j.logWindow()
		return append(j.linesBlind(facts.ProbeLogs, watched), j.illegible(facts.ProbeLogs)...)
	}
	limit := l.SLO.Metric
	if limit == nil {
		limit = countedBy(by.Metric)
	}
	return j.questionOf(limit).blind()
}

// countedBy asks how far a counter rose, without a limit.
func countedBy(metric string) *experiments.MetricLimit {
	return &experiments.MetricLimit{Name: metric, Delta: &experiments.Bound[float64]{}}
}

// question is one promise about a metric while its targets are read one by one.
type question struct {
	j         *judging
	metric    *experiments.Metric
	form      string
	zero      bool // a series that does not exist is 0
	window    history.Span
	raisers   func(facts.Raised) bool // the events that may have raised it, where that is known
	total     signals.Reading
	gauge     bool
	n         int // targets that count
	evidence  []int64
	disagrees []verdict.Missing
	missing   []verdict.Missing
	unfit     string
	next      string // what to do about that
}

func (q *question) read() signals.Reading {
	found, unread, counted := false, "", []signals.Reading{}
	for _, s := range q.all() {
		found = found || s.Present()
		if why := s.Unread(); why != "" && unread == "" {
			unread = s.Name + ": " + why
		}
		if !q.lives(s) {
			continue
		}
		q.n++
		r, ok := q.target(s)
		if ok {
			counted = append(counted, r)
		}
		if r.Lo > 0 {
			q.evidence = append(q.evidence, s.N)
		}
	}
	switch {
	case !found && !q.zero && unread != "":
		q.unfit, q.next = fmt.Sprintf("%s was never read. At %s.", q.metric.What(), unread), adviceOnTargets
	case !found && !q.zero:
		q.unfit, q.next = fmt.Sprintf("No target has ever shown a value of %s, and that does not make it 0.", q.metric.What()), adviceOnSeries
	case q.gauge && q.form != "max":
		q.unfit, q.next = fmt.Sprintf("%s is a gauge, and %s needs a counter.", q.metric.What(), q.form), adviceOnGauges
	}
	if !found && !q.zero {
		return signals.Reading{Hi: math.Inf(1)} // nobody knows
	}
	var total signals.Reading
	for i, r := range counted {
		switch {
		case i == 0:
			total = r
		case q.form == "max":
			total = signals.Reading{Lo: max(total.Lo, r.Lo), Hi: max(total.Hi, r.Hi)}
		default:
			total = signals.Reading{Lo: total.Lo + r.Lo, Hi: total.Hi + r.Hi}
		}
	}
	return total
}

// all are the targets of the metric.
func (q *question) all() []*signals.Target { return q.j.ix.Samples[q.metric.Name] }

// lives reports a target that may still have counted in the window.
func (q *question) lives(s *signals.Target) bool {
	d, dead := q.j.ix.Deaths[s.Name]
	return !dead || d.To > q.window.From
}

// target is one target's part; counts is false where it has none.
func (q *question) target(s *signals.Target) (r signals.Reading, counts bool) {
	ix := q.j.ix
	top, in := s.Highest(q.window.From)
	switch {
	case q.form == "max" && in:
		r, counts = top, true
	case q.form == "max":
		counts = q.zero
	case s.Present():
		r = s.Rise(q.window, ix.Started(s.Name) >= q.window.From)
	}
	if _, odd := s.Odd(q.window, q.form != "max"); odd { // what it really was nobody knows
		r.Hi, counts = math.Inf(1), true
		if q.form == "max" && !in {
			r.Lo = math.Inf(-1)
		}
	}
	switch {
	case s.Present():
	case s.Gone == history.GoneNoMetrics:
		q.missing = append(q.missing, verdict.Lacking(verdict.MissingMetrics, s.Name))
	case len(s.Points) > 0 && !q.zero:
		q.missing = append(q.missing, verdict.Lacking(verdict.MissingSeries, s.Name, q.metric.What()))
	}
	if s.Final || q.gauge || s.Gone == "" && s.Last.From >= q.window.To {
		return r, counts || q.form != "max"
	}
	// What it counted after its last scrape died with it. Where the history has the same events, they bound it.
	if q.raisers == nil {
		_, blind := q.blindAt(s) // of a level the row says that for itself
		if why := s.Lost(); why != "" && !(q.form == "max" && blind) {
			q.missing = append(q.missing, verdict.Lacking(verdict.MissingLastScrape, s.Name, why))
		}
		r.Hi = math.Inf(1)
		return r, true
	}
	r.Hi += float64(len(ix.EventsOf(s.Name, history.Span{From: s.Last.From - facts.ScrapeSlack + 1, To: facts.Open}, q.raisers)))
	return r, true
}

func whole(x float64) bool {
	return math.IsInf(x, 0) || x == math.Trunc(x) && math.Abs(x) < 1<<53
}

// scaled is a value as measured keeps it: a count, or billionths as far as they reach.
func scaled(unit string, x float64) int64 {
	switch {
	case math.IsInf(x, 1):
		return facts.Open
	case math.IsInf(x, -1):
		return -facts.Open
	case unit == verdict.UnitCount:
		return int64(x)
	}
	return int64(math.Round(max(-maxValue, min(x, maxValue)) * 1e9))
}

// maxValue is what billionths can express, above every limit that the experiment file allows.
const maxValue = 9.2e9

// signalled is the stretch that signals are judged in: from the first fault on, or from the shot that is asked about to the next one.
func (j *judging) signalled() history.Span {
	if j.ix.Only == nil {
		return history.Span{From: j.window().From, To: facts.Open}
	}
	w := history.Span{From: j.ix.Only.Shot.Applied.From, To: facts.Open}
	for _, s := range j.ix.Shots {
		if s.Effective() && s.Applied.From > w.From {
			w.To = min(w.To, s.Applied.From)
		}
	}
	return w
}

// logMatches counts the lines that matched a pattern, in all logs: over the whole run, or what a shot may have brought about.
func logMatches(j *judging, l *experiments.Limit) figure { return j.matches(l.SLO.Logs.Pattern) }

func (j *judging) matches(pattern string) figure {
	f := figure{unit: verdict.UnitCount, of: "line"}
	during, watched := j.logWindow()
	lines, surely := j.ix.Lines.Within(pattern, during)
	by := map[string]int{}
	for _, line := range lines {
		by[line.Source]++
		f.evidence = append(f.evidence, line.N)
	}
	f.n, f.Lo, f.Hi = len(lines), int64(surely), int64(len(lines))
	if blind := j.linesBlind(facts.ProbeLogs, watched); blind != nil { // a line that nobody read may have said anything
		f.Hi, f.unended = facts.Open, blind[0].Next
	}
	f.saw = fmt.Sprintf("%s matched %s", figures.Plural(f.n, "line"), pattern)
	var parts []string
	for _, who := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s %d", who, by[who]))
	}
	if len(parts) > 0 {
		f.saw += ": " + strings.Join(parts, ", ")
	}
	return f
}

// logWindow is the stretch whose lines count, and the one in which all lines had to be read.
func (j *judging) logWindow() (during, watched history.Span) {
	during, watched = history.Span{From: math.MinInt64, To: facts.Open}, j.window()
	if j.ix.Only != nil {
		during = j.signalled()
		watched = history.Span{From: during.From, To: min(during.To, watched.To)}
	}
	return during, watched
}

// linesBlind says that lines that the probe reads may have been missed in w: not read for too long, or lost for good.
func (j *judging) linesBlind(probe string, w history.Span) []verdict.Missing {
	ls := j.blind(probe, w)
	if c := j.ix.Probes[probe]; c != nil {
		for _, l := range c.Lost {
			if l.From < w.To && l.To > w.From {
				return append(ls, verdict.Lacking(verdict.MissingLogLines, figures.Short(l.Width()), figures.Clock(l.From)))
			}
		}
	}
	return ls
}
