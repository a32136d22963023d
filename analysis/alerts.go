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

// probeAlerts is what the probe of alerts is called in coverage events.
const probeAlerts = "alerts"

// alertRows judges a promise about alerts: that one fires and goes away, or that none fires.
func (j *judging) alertRows(s *experiments.SLO) []verdict.SLOResult {
	if s.Silent {
		return []verdict.SLOResult{j.row(s.Lock, atMost(0), j.silence(s))}
	}
	fires, ends := j.alarm(s)
	var rows []verdict.SLOResult
	for _, x := range []struct {
		m     measured
		limit int64
	}{{fires, int64(s.Within)}, {ends, int64(s.ResolvesWithin)}} {
		r := j.row(s.Lock, atMost(x.limit), x.m)
		r.Declared = r.Limit // the rules have times of their own, which no time_scale changes
		rows = append(rows, r)
	}
	return rows
}

// alarmed judges an alert that a fault had to raise.
func (j *judging) alarmed(x *experiments.SLO) []verdict.SLOResult {
	rows := j.alertRows(x)
	for i := range rows {
		r := &rows[i]
		if r.Fault = x.Fault; r.Verdict == verdict.Fail {
			what := "alert " + alertName(x) + " that " + strings.ReplaceAll(r.Measure[strings.LastIndexByte(r.Measure, '.')+1:], "_", " ") +
				" within " + figures.Exact(int64(math.Round(r.Limit*1e9)))
			notProvoked(r, verdict.Lacking(verdict.MissingProvoked, what, r.Why, r.Next))
		}
	}
	return rows
}

// alarm measures how long after the fault took effect the alert fired, and how long after it was over it went away.
func (j *judging) alarm(s *experiments.SLO) (fires, ends measured) {
	name := alertName(s)
	fires = measured{measure: "alert." + name + ".fires", unit: verdict.UnitSeconds, of: "alert", value: value{dur: dur{hi: open}},
		next:    "see whether the fault raised what the rule counts (docs/alerts.md); then compare within with the rule's window, its `for`, and its evaluation interval",
		unended: "give the alert more time: raise within, and max_run"}
	ends = fires
	ends.measure = "alert." + name + ".goes_away"
	ends.next = "compare resolves_within with the window of the rule, which looks back"
	ends.unended = "Give the alert more time: raise resolves_within, and max_run."
	struck, over, until, next, ok := j.struckBy(s.Fault)
	c := j.ix.probes[probeAlerts]
	if !ok || c == nil {
		fires.saw = "Fault " + s.Fault + " was never confirmed"
		ends.saw = fires.saw
		return fires, ends
	}
	fires.n, ends.n = 1, 1
	var a signals.Alarm
	for _, t := range j.ix.samples[history.AlertsFiring] {
		if t.Name == *s.Alert {
			a = t.Alarm(s.Fires, struck.From, until)
		}
	}
	fires.evidence, ends.evidence = a.N, a.N
	if a.Before {
		rest := []verdict.Missing{verdict.Lacking(verdict.MissingAlertRest, name, "fault "+s.Fault)}
		fires.missing, ends.missing = rest, rest
		return fires, ends
	}
	attest := func(m *measured, since history.Span, at *history.Span, did, not string) {
		seen, undecided := j.attested(c, name, since.From, until, next)
		m.undecided = undecided
		if at != nil {
			m.dur = dur{max(0, min(at.From, seen)-since.To), max(0, at.To-since.From)}
			m.saw = fmt.Sprintf("%s %s later", did, m.dur)
			return
		}
		m.lo = max(0, seen-since.To)
		m.saw = not + " " + figures.Short(m.lo)
	}
	attest(&fires, struck, a.Fired, "The alert fired", "The alert did not fire within")
	switch {
	case a.Fired == nil:
		ends.saw = "The alert never fired"
	case over.To == open:
		ends.saw = "The end of the fault was not seen"
	default:
		attest(&ends, over, a.Resolved, "The alert went away", "The alert still fired after")
	}
	return fires, ends
}

// struckBy is when a fault took effect with its first shot, when it was over with its last, and until when what follows may be its doing.
func (j *judging) struckBy(fault string) (struck, over history.Span, until int64, next string, ok bool) {
	until = open
	for _, s := range j.ix.shots {
		if s.id != fault || !s.valid() {
			continue
		}
		if !ok || s.applied.From < struck.From {
			struck = s.applied.Span
		}
		end := s.over
		over, ok = history.Span{From: max(over.From, end.From), To: max(over.To, end.To)}, true
	}
	for _, s := range j.ix.shots {
		if s.id != fault && s.effective() && s.applied.From > over.To && s.applied.From < until {
			until, next = s.applied.From, s.op
		}
	}
	return struck, over, until, next, ok
}

// attested is until when looks would have shown a change since at, and what ended that.
func (j *judging) attested(c *coverage, name string, at, until int64, next string) (int64, []verdict.Missing) {
	end := min(until, c.read)
	if g, blind := c.blind(history.Span{From: at, To: end}, 0); blind {
		return max(at, g.From), []verdict.Missing{verdict.Lacking(verdict.MissingAlertLooks, name, figures.Short(g.Width()), figures.Clock(g.From))}
	}
	if until < c.read {
		return end, []verdict.Missing{verdict.Lacking(verdict.MissingAlertRoom, name, next)}
	}
	return end, nil
}

// silence counts the alerts that fired, while their rules were seen to be evaluated from before the first fault on.
func (j *judging) silence(s *experiments.SLO) measured {
	name := alertName(s)
	m := measured{measure: "alert." + name + ".fired", unit: verdict.UnitCount, of: "rule", next: "See what the alert says, and the fault at that time: the fault does more than it should, or the rule is too sensitive."}
	from, names, which := int64(math.MaxInt64), s.AlertNames(), []string{}
	c := j.ix.probes[probeAlerts]
	if c != nil && len(c.good) > 0 {
		from = c.good[0].From
	}
	for _, t := range j.ix.samples[history.AlertsFiring] {
		if !names.MatchString(t.Name) || len(t.Points) == 0 {
			continue
		}
		m.n++
		a := t.Alarm(s.Fires, t.Points[0].Span.To, open)
		if a.Before {
			m.missing = append(m.missing, verdict.Lacking(verdict.MissingAlertRest, t.Name, "the run"))
		}
		if a.Fired != nil {
			m.lo, m.evidence, which = m.lo+1, append(m.evidence, a.N...), append(which, t.Name+" from "+figures.Clock(a.Fired.To)+" on")
		}
	}
	m.hi = m.lo
	m.saw = fmt.Sprintf("%d of %s fired", m.lo, figures.Plural(m.n, "alert"))
	if len(which) > 0 {
		m.saw += ": " + strings.Join(which, ", ")
	}
	over, _ := j.ix.faultsOver()
	switch {
	case m.n == 0 || c == nil || c.final == nil || c.read < plus(over, int64(s.Within)):
		m.hi, m.unended = open, "Let the run go on to its final reads."
	default:
		if _, blind := j.attested(c, name, from, open, ""); blind != nil {
			m.hi, m.undecided = open, blind
		}
	}
	return m
}

// alertName is the alert of a row, with the labels that it asks for.
func alertName(s *experiments.SLO) string {
	var labels []string
	for _, l := range slices.Sorted(maps.Keys(s.Labels)) {
		labels = append(labels, l+"="+s.Labels[l])
	}
	if len(labels) == 0 {
		return *s.Alert
	}
	return *s.Alert + "{" + strings.Join(labels, ",") + "}"
}
