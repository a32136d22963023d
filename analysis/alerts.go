package analysis

import (
	"fmt"
	"math"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/signals"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// probeAlerts is what the probe of alerts is called in coverage events.
const probeAlerts = "alerts"

// alarmed judges an alert that a fault had to raise.
func (j *judging) alarmed(l *experiments.Limit) verdict.SLOResult {
	r, _ := j.row(l)
	if r.Fault = l.SLO.Fault; r.Verdict == verdict.Fail {
		what := "alert " + l.Subject + " that " + strings.ReplaceAll(l.Part, "_", " ") + " within " + figures.Exact(l.At)
		notProvoked(&r, verdict.Lacking(verdict.MissingProvoked, what, r.Why, r.Next))
	}
	return r
}

// alarm measures how long after the fault took effect the alert fired, or how long after it was over it went away.
func alarm(j *judging, l *experiments.Limit) figure {
	s, ends := l.SLO, l.Part == "goes_away"
	f := figure{Value: facts.Value{Dur: facts.Dur{Hi: facts.Open}}}
	f.unended = "Give the alert more time: raise within, and max_run."
	if ends {
		f.unended = "Give the alert more time: raise resolves_within, and max_run."
	}
	struck, over, until, next, ok := j.struckBy(s.Fault)
	c := j.ix.Probes[probeAlerts]
	if !ok || c == nil {
		f.saw = "Fault " + s.Fault + " was never confirmed"
		return f
	}
	f.n = 1
	var a signals.Alarm
	for _, t := range j.ix.Samples[history.AlertsFiring] {
		if t.Name == *s.Alert {
			a = t.Alarm(s.Fires, struck.From, until)
		}
	}
	f.evidence = a.N
	if a.Before {
		f.lacks = []verdict.Missing{verdict.Lacking(verdict.MissingAlertRest, l.Subject, "fault "+s.Fault)}
		return f
	}
	attest := func(since history.Span, at *history.Span, did, not string) {
		seen, undecided := j.attested(c, l.Subject, since.From, until, next)
		f.unsure = undecided
		if at != nil {
			f.Dur = facts.Dur{Lo: max(0, min(at.From, seen)-since.To), Hi: max(0, at.To-since.From)}
			f.saw = fmt.Sprintf("%s %s later", did, f.Dur)
			return
		}
		f.Lo = max(0, seen-since.To)
		f.saw = not + " " + figures.Short(f.Lo)
	}
	switch {
	case !ends:
		attest(struck, a.Fired, "The alert fired", "The alert did not fire within")
	case a.Fired == nil:
		f.saw = "The alert never fired"
	case over.To == facts.Open:
		f.saw = "The end of the fault was not seen"
	default:
		attest(over, a.Resolved, "The alert went away", "The alert still fired after")
	}
	return f
}

// struckBy is when a fault took effect with its first shot, when it was over with its last, and until when what follows may be its doing.
func (j *judging) struckBy(fault string) (struck, over history.Span, until int64, next string, ok bool) {
	until = facts.Open
	for _, s := range j.ix.Shots {
		if s.ID != fault || !s.Valid() {
			continue
		}
		if !ok || s.Applied.From < struck.From {
			struck = s.Applied.Span
		}
		end := s.Over
		over, ok = history.Span{From: max(over.From, end.From), To: max(over.To, end.To)}, true
	}
	for _, s := range j.ix.Shots {
		if s.ID != fault && s.Effective() && s.Applied.From > over.To && s.Applied.From < until {
			until, next = s.Applied.From, s.Op
		}
	}
	return struck, over, until, next, ok
}

// attested is until when looks would have shown a change since at, and what ended that.
func (j *judging) attested(c *facts.Coverage, name string, at, until int64, next string) (int64, []verdict.Missing) {
	end := min(until, c.Read)
	if g, blind := c.Blind(history.Span{From: at, To: end}, 0); blind {
		return max(at, g.From), []verdict.Missing{verdict.Lacking(verdict.MissingAlertLooks, name, figures.Short(g.Width()), figures.Clock(g.From))}
	}
	if until < c.Read {
		return end, []verdict.Missing{verdict.Lacking(verdict.MissingAlertRoom, name, next)}
	}
	return end, nil
}

// silence counts the alerts that fired, while their rules were seen to be evaluated from before the first fault on.
func silence(j *judging, l *experiments.Limit) figure {
	s := l.SLO
	var f figure
	from, names, which := int64(math.MaxInt64), s.AlertNames(), []string{}
	c := j.ix.Probes[probeAlerts]
	if c != nil {
		from = c.Since()
	}
	for _, t := range j.ix.Samples[history.AlertsFiring] {
		if !names.MatchString(t.Name) || len(t.Points) == 0 {
			continue
		}
		f.n++
		a := t.Alarm(s.Fires, t.Points[0].Span.To, facts.Open)
		if a.Before {
			f.lacks = append(f.lacks, verdict.Lacking(verdict.MissingAlertRest, t.Name, "the run"))
		}
		if a.Fired != nil {
			f.Lo, f.evidence, which = f.Lo+1, append(f.evidence, a.N...), append(which, t.Name+" from "+figures.Clock(a.Fired.To)+" on")
		}
	}
	f.Hi = f.Lo
	f.saw = fmt.Sprintf("%d of %s fired", f.Lo, figures.Plural(f.n, "alert"))
	if len(which) > 0 {
		f.saw += ": " + strings.Join(which, ", ")
	}
	over, _ := j.ix.FaultsOver()
	switch {
	case f.n == 0 || c == nil || c.Final == nil || c.Read < facts.Plus(over, int64(s.Within)):
		f.Hi, f.unended = facts.Open, "Let the run go on to its final reads."
	default:
		if _, blind := j.attested(c, l.Subject, from, facts.Open, ""); blind != nil {
			f.Hi, f.unsure = facts.Open, blind
		}
	}
	return f
}
