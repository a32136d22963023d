package analysis

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// probeMetric is what the probe of a metric is called in coverage events, with the metric's name.
const probeMetric = "metric:"

// scraped is one metric at one target: every change of its value that a look has shown.
type scraped struct {
	target string
	kind   string // counter, gauge ...; "" = never said
	points []point
	last   history.Span // the last look that was answered
	gone   string       // why looks are not answered any more; "" = they are
	final  bool         // the final look was answered
	n      int64        // the last sample
}

// point is one value: the sum of the series that match.
type point struct {
	span   history.Span
	prev   *history.Span // the last look that showed the point before
	value  float64
	series []history.Value // none: the target has no such series
	n      int64
}

// scrape adds a sample to those of its metric at its target; targets are in the order of their first.
func (ix *Facts) scrape(ev *history.Event) {
	x := ev.Sample
	all := ix.samples[x.Metric]
	at := slices.IndexFunc(all, func(s *scraped) bool { return s.target == x.Target })
	if at < 0 {
		at = len(all)
		all = append(all, &scraped{target: x.Target})
		ix.samples[x.Metric] = all
	}
	all[at].take(ev)
}

func (s *scraped) take(ev *history.Event) {
	x := ev.Sample
	if x.Prev != nil && s.gone == "" && len(s.points) > 0 {
		s.last = *x.Prev
	}
	s.gone, s.n = x.Gone, ev.N
	if x.Gone != "" {
		return
	}
	if x.Type != "" {
		s.kind = x.Type
	}
	p := point{span: ev.Span, prev: x.Prev, series: x.Values, n: ev.N}
	for _, v := range x.Values {
		p.value += v.Value
	}
	s.points = append(s.points, p)
	s.last, s.final = ev.Span, x.Final
}

// present reports whether the target has ever shown the series.
func (s *scraped) present() bool {
	return slices.ContainsFunc(s.points, func(p point) bool { return len(p.series) > 0 })
}

// reading is a value that lies surely in [lo, hi]; hi may be infinite.
type reading struct{ lo, hi float64 }

// rise is by how much a counter grew from at on. born: its process did not exist before, so it began at 0.
func (s *scraped) rise(at int64, born bool) reading {
	i := 0 // points that were seen before
	for i < len(s.points) && s.points[i].span.To <= at {
		i++
	}
	if i == len(s.points) {
		return reading{}
	}
	r := s.base(i, at, born)
	for ; i+1 < len(s.points); i++ {
		a, b := s.points[i], s.points[i+1]
		switch {
		case b.value < a.value: // another process: it began at 0, and what the last one counted at its end is lost
			r = reading{r.lo + b.value, math.Inf(1)}
		case len(a.series) == 0: // nobody knows what it was while it was not there
			r.hi += b.value
		default:
			r = reading{r.lo + b.value - a.value, r.hi + b.value - a.value}
		}
	}
	return r
}

// base is the growth from at to the i-th point, the first that was seen after.
func (s *scraped) base(i int, at int64, born bool) reading {
	next := s.points[i]
	if born {
		return reading{next.value, next.value}
	}
	if i == 0 || len(s.points[i-1].series) == 0 {
		return reading{0, next.value}
	}
	before := s.points[i-1].value
	switch {
	case next.value < before:
		return reading{0, math.Inf(1)}
	case next.prev != nil && next.prev.From >= at: // a look after that instant still showed the value before
		return reading{next.value - before, next.value - before}
	}
	return reading{0, next.value - before}
}

// highest is the largest value that was in force from at on.
func (s *scraped) highest(at int64) float64 {
	top := math.Inf(-1)
	for i, p := range s.points {
		if len(p.series) > 0 && (p.span.To > at || i+1 == len(s.points) || s.points[i+1].span.To > at) {
			top = max(top, p.value)
		}
	}
	return top
}

// metricRows judges a promise about a metric.
func (j *judging) metricRows(lock string, l *experiments.MetricLimit) []verdict.SLOResult {
	_, limit := l.Limit()
	return bounded(j, lock, limit, func(lock string) measured { return j.metric(lock, l) })
}

// metric measures one over all targets.
func (j *judging) metric(lock string, l *experiments.MetricLimit) measured {
	form, limit := l.Limit()
	m := measured{measure: "metric." + l.Name + "." + form, next: "see the samples of the metric, and what its owner did then"}
	m.faults, _ = j.exposures(lock)
	if m.faults == 0 {
		m.missing = append(m.missing, j.notExposed(lock))
	}
	q := &question{j: j, metric: j.ix.metricOf(l.Name), form: form, zero: l.AbsentMeans == "zero", window: j.window()}
	q.raisers = j.ix.raisers(q.metric)
	for _, f := range j.ix.disagreements(q.metric) {
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingAgreement, f.What))
	}
	total := q.ask()
	if form == "rate" {
		width := seconds(q.window.Width())
		total.lo, total.hi = total.lo/width, total.hi/width
	}
	m.missing, m.unfit, m.n, m.evidence = append(m.missing, q.missing...), q.unfit, q.n, q.evidence
	m.unit = verdict.UnitCount
	for _, x := range []*float64{limit.Max, limit.Min, limit.Exactly, &total.lo, &total.hi} {
		if x != nil && !whole(*x) {
			m.unit = verdict.UnitValue
		}
	}
	m.lo, m.hi = scaled(m.unit, total.lo), scaled(m.unit, total.hi)
	zero := func(x *float64) bool { return x != nil && *x == 0 }
	if form == "max" && q.gauge && (zero(limit.Max) || zero(limit.Exactly)) { // a peak between two scrapes is not seen
		m.hi = open
	}
	what := map[string]string{"delta": "rose by at least", "rate": "rose a second by at least", "max": "was at most"}[form]
	m.saw = fmt.Sprintf("%s %s %s, at %s", q.metric.What(), what, figures.Decimal(total.lo), figures.Plural(q.n, "target"))
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

func (q *question) ask() reading {
	all := q.j.ix.samples[q.metric.Name]
	total, found := reading{}, false
	for _, s := range all {
		if d, dead := q.j.ix.deaths[s.target]; dead && d.To <= q.window.From { // it counted nothing any more
			found = found || s.present()
			continue
		}
		q.n++
		found = found || s.present()
		q.gauge = q.gauge || s.kind == "gauge"
		r := q.read(s)
		if q.form == "max" {
			total = reading{max(total.lo, r.lo), max(total.hi, r.hi)}
		} else {
			total = reading{total.lo + r.lo, total.hi + r.hi}
		}
		if r.lo > 0 {
			q.evidence = append(q.evidence, s.n)
		}
	}
	switch {
	case !found && !q.zero:
		q.unfit = fmt.Sprintf("no target has ever shown a value of %s: that does not make it 0", q.metric.What())
	case q.gauge && q.form != "max":
		q.unfit = fmt.Sprintf("%s is a gauge: %s is of counters", q.metric.What(), q.form)
	case q.gauge:
		q.missing = append(q.missing, q.blind(all)...)
	}
	return total
}

// read is one target's part.
func (q *question) read(s *scraped) reading {
	ix := q.j.ix
	var r reading
	switch {
	case s.present() && q.form == "max":
		top := s.highest(q.window.From)
		r = reading{max(0, top), max(0, top)}
	case s.present():
		r = s.rise(q.window.From, ix.started(s.target) >= q.window.From)
	case s.gone == history.GoneNoMetrics:
		q.missing = append(q.missing, verdict.Lacking(verdict.MissingMetrics, s.target))
	case len(s.points) > 0 && !q.zero:
		q.missing = append(q.missing, verdict.Lacking(verdict.MissingSeries, s.target, q.metric.What()))
	}
	if s.final || q.gauge {
		return r
	}
	// What it counted after its last scrape died with it. Where the history has the same events, they bound it.
	if q.raisers == nil {
		r.hi = math.Inf(1)
		return r
	}
	r.hi += float64(len(ix.eventsOf(s.target, history.Span{From: s.last.From - scrapeSlack + 1, To: open}, q.raisers)))
	return r
}

// blind says that a gauge was not read all the time.
func (q *question) blind(all []*scraped) []verdict.Missing {
	ls := []verdict.Missing{}
	tolerate := 2*int64(q.metric.Every) + 2e9
	if g, blind := q.j.ix.probes[probeMetric+q.metric.Name].blind(q.window, tolerate); blind {
		ls = append(ls, verdict.Lacking(verdict.MissingScrapes, q.metric.Name, figures.Short(g.Width()), figures.Clock(g.From)))
	}
	for _, s := range all {
		if s.gone != "" && s.gone != history.GoneExited && s.gone != history.GoneNoMetrics {
			ls = append(ls, verdict.Lacking(verdict.MissingLastScrape, s.target, s.gone))
		}
	}
	return ls
}

// metricOf is the declared metric of that name.
func (ix *Facts) metricOf(name string) *experiments.Metric {
	for i := range ix.exp.Probes.Metrics {
		if ix.exp.Probes.Metrics[i].Name == name {
			return &ix.exp.Probes.Metrics[i]
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
