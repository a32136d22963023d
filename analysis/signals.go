package analysis

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/signals"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// probeMetric is what the probe of a metric is called in coverage events, with the metric's name.
const probeMetric = "metric:"

// metricRows judges a promise about a metric.
func (j *judging) metricRows(lock string, l *experiments.MetricLimit) []verdict.SLOResult {
	_, limit := l.Limit()
	return bounded(j, lock, limit, func(lock string) measured { return j.metric(lock, l) })
}

// metric measures one over all targets.
func (j *judging) metric(lock string, l *experiments.MetricLimit) measured {
	form, limit := l.Limit()
	m := measured{measure: "metric." + l.Name + "." + form, next: "See the samples of the metric, and what its owner did then."}
	j.struck(lock, &m)
	q := &question{j: j, metric: j.ix.metricOf(l.Name), form: form, zero: l.AbsentMeans == "zero", window: j.signalled()}
	q.raisers = j.ix.raisers(q.metric)
	for _, f := range j.ix.disagreements(q.metric) {
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingAgreement, f.What))
	}
	total := q.ask()
	if form == "rate" {
		width := seconds(j.window().Width())
		total.Lo, total.Hi = total.Lo/width, total.Hi/width
	}
	m.missing, m.unfit, m.n, m.evidence = append(m.missing, q.missing...), q.unfit, q.n, q.evidence
	m.unit = verdict.UnitCount
	for _, x := range []*float64{limit.Max, limit.Min, limit.Exactly, &total.Lo, &total.Hi} {
		if x != nil && !whole(*x) {
			m.unit = verdict.UnitValue
		}
	}
	m.lo, m.hi = scaled(m.unit, total.Lo), scaled(m.unit, total.Hi)
	zero := func(x *float64) bool { return x != nil && *x == 0 }
	if form == "max" && q.gauge && (zero(limit.Max) || zero(limit.Exactly)) { // a peak between two scrapes is not seen
		m.hi = open
	}
	what := map[string]string{"delta": "rose by at least", "rate": "rose a second by at least", "max": "was at most"}[form]
	m.saw = fmt.Sprintf("%s %s %s, at %s", q.metric.What(), what, figures.Decimal(total.Lo), figures.Plural(q.n, "target"))
	return m
}

// question is one promise about a metric while its targets are read one by one.
type question struct {
	j        *judging
	metric   *experiments.Metric
	form     string
	zero     bool // a series that does not exist is 0
	window   history.Span
	raisers  func(raised) bool // the events that may have raised it, where that is known
	gauge    bool
	n        int // targets that count
	evidence []int64
	missing  []verdict.Missing
	unfit    string
}

func (q *question) ask() signals.Reading {
	all := q.j.ix.samples[q.metric.Name]
	total, found := signals.Reading{}, false
	for _, s := range all {
		if d, dead := q.j.ix.deaths[s.Name]; dead && d.To <= q.window.From { // it counted nothing any more
			found = found || s.Present()
			continue
		}
		q.n++
		found = found || s.Present()
		q.gauge = q.gauge || s.Kind == "gauge"
		r := q.read(s)
		if q.form == "max" {
			total = signals.Reading{Lo: max(total.Lo, r.Lo), Hi: max(total.Hi, r.Hi)}
		} else {
			total = signals.Reading{Lo: total.Lo + r.Lo, Hi: total.Hi + r.Hi}
		}
		if r.Lo > 0 {
			q.evidence = append(q.evidence, s.N)
		}
	}
	switch {
	case !found && !q.zero:
		q.unfit = fmt.Sprintf("No target has ever shown a value of %s, and that does not make it 0.", q.metric.What())
	case q.gauge && q.form != "max":
		q.unfit = fmt.Sprintf("%s is a gauge, and %s needs a counter.", q.metric.What(), q.form)
	case q.gauge:
		q.missing = append(q.missing, q.blind(all)...)
	}
	return total
}

// read is one target's part.
func (q *question) read(s *signals.Target) signals.Reading {
	ix := q.j.ix
	var r signals.Reading
	switch {
	case s.Present() && q.form == "max":
		top := s.Highest(q.window.From)
		r = signals.Reading{Lo: max(0, top), Hi: max(0, top)}
	case s.Present():
		r = s.Rise(q.window, ix.started(s.Name) >= q.window.From)
	case s.Gone == history.GoneNoMetrics:
		q.missing = append(q.missing, verdict.Lacking(verdict.MissingMetrics, s.Name))
	case len(s.Points) > 0 && !q.zero:
		q.missing = append(q.missing, verdict.Lacking(verdict.MissingSeries, s.Name, q.metric.What()))
	}
	if s.Final || q.gauge || s.Gone == "" && s.Last.From >= q.window.To {
		return r
	}
	// What it counted after its last scrape died with it. Where the history has the same events, they bound it.
	if q.raisers == nil {
		r.Hi = math.Inf(1)
		return r
	}
	r.Hi += float64(len(ix.eventsOf(s.Name, history.Span{From: s.Last.From - scrapeSlack + 1, To: open}, q.raisers)))
	return r
}

// blind says that a gauge was not read all the time.
func (q *question) blind(all []*signals.Target) []verdict.Missing {
	ls := []verdict.Missing{}
	tolerate := 2*int64(q.metric.Every) + 2e9
	watched := q.j.ix.probes[probeMetric+q.metric.Name]
	if g, blind := watched.blind(q.j.window(), tolerate); blind {
		long, at := figures.Short(g.Width()), figures.Clock(g.From)
		if why := watched.failure(g); why != "" {
			ls = append(ls, verdict.Lacking(verdict.MissingFailedScrapes, q.metric.Name, long, at, why))
		} else {
			ls = append(ls, verdict.Lacking(verdict.MissingScrapes, q.metric.Name, long, at))
		}
	}
	for _, s := range all {
		if s.Gone != "" && s.Gone != history.GoneExited && s.Gone != history.GoneNoMetrics {
			ls = append(ls, verdict.Lacking(verdict.MissingLastScrape, s.Name, s.Gone))
		}
	}
	return ls
}

// metricOf is the declared metric of that name.
func (ix *Facts) metricOf(name string) *experiments.Metric {
	for _, m := range ix.exp.Probes.Numbers() {
		if m.Name == name {
			return &m
		}
	}
	return &experiments.Metric{Name: name}
}

// started is when an incarnation was started; before everything where that is not known.
func (ix *Facts) started(incarnation string) int64 {
	for _, ev := range ix.starts {
		if ev.Replica.Incarnation == incarnation {
			return ev.From
		}
	}
	return math.MinInt64
}

func whole(x float64) bool {
	return math.IsInf(x, 1) || x == math.Trunc(x) && math.Abs(x) < 1<<53
}

// scaled is a value as measured keeps it: a count, or billionths as far as they reach.
func scaled(unit string, x float64) int64 {
	switch {
	case math.IsInf(x, 1):
		return open
	case unit == verdict.UnitCount:
		return int64(x)
	}
	return int64(math.Round(min(x, maxValue) * 1e9))
}

// maxValue is what billionths can express, above every limit that the experiment file allows.
const maxValue = 9.2e9

// signalled is the stretch that signals are judged in: from the first fault on, or from the shot that is asked about to the next one.
func (j *judging) signalled() history.Span {
	if j.ix.only == nil {
		return history.Span{From: j.window().From, To: open}
	}
	w := history.Span{From: j.ix.only.shot.applied.From, To: open}
	for _, s := range j.ix.shots {
		if s.effective() && s.applied.From > w.From {
			w.To = min(w.To, s.applied.From)
		}
	}
	return w
}

// logMatches counts the lines that matched a pattern, in all logs: over the whole run, or what a shot may have brought about.
func (j *judging) logMatches(lock, pattern string) measured {
	m := measured{measure: verdict.MeasureLogs + "." + pattern, unit: verdict.UnitCount, of: "line", next: "Read the lines: each is an event logmatch of the history."}
	j.struck(lock, &m)
	during, watched := history.Span{From: math.MinInt64, To: open}, j.window()
	if j.ix.only != nil {
		during = j.signalled()
		watched = history.Span{From: during.From, To: min(during.To, watched.To)}
	}
	lines, surely := j.ix.lines.Within(pattern, during)
	by := map[string]int{}
	for _, line := range lines {
		by[line.Source]++
		m.evidence = append(m.evidence, line.N)
	}
	m.n, m.lo, m.hi = len(lines), int64(surely), int64(len(lines))
	if blind := j.logsBlind(watched); blind != nil { // a line that nobody read may have said anything
		m.hi, m.unended = open, blind[0].Next
		m.missing = append(m.missing, blind...)
	}
	m.saw = fmt.Sprintf("%s matched %s", figures.Plural(m.n, "line"), pattern)
	var parts []string
	for _, who := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s %d", who, by[who]))
	}
	if len(parts) > 0 {
		m.saw += ": " + strings.Join(parts, ", ")
	}
	return m
}

// logsBlind says that lines may have been missed in w: not read for too long, or lost for good.
func (j *judging) logsBlind(w history.Span) []verdict.Missing {
	ls := j.blind(probeLogs, w)
	if c := j.ix.probes[probeLogs]; c != nil {
		for _, l := range c.lost {
			if l.From < w.To && l.To > w.From {
				return append(ls, verdict.Lacking(verdict.MissingLogLines, figures.Short(l.Width()), figures.Clock(l.From)))
			}
		}
	}
	return ls
}

// signalledAbandonments is what a metric or a log says of how often the lock was given up.
func (j *judging) signalledAbandonments(lock string, by *experiments.Signal) measured {
	var m measured
	if by.Log != "" {
		m = j.logMatches(lock, by.Log)
	} else {
		m = j.metric(lock, &experiments.MetricLimit{Name: by.Metric, Delta: &experiments.Bound[float64]{}})
	}
	if m.unit != verdict.UnitCount && m.unfit == "" {
		m.unfit, m.lo, m.hi = by.Metric+" is no counter: its values are not whole numbers.", 0, open
	}
	m.measure, m.unit = "abandonments", verdict.UnitCount
	m.next = "See which of them were needed: the signal tells how often the lock was given up, not why."
	return m
}
