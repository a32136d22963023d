package analysis

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/signals"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// illegible says that records which a source gave could not be read: each may hide a violation, and each may be the end of something.
func (j *judging) illegible(source string) []verdict.Missing {
	if n := j.ix.Unread[source]; n > 0 {
		return []verdict.Missing{verdict.Lacking(verdict.MissingUnread, figures.Plural(n, "record"), source)}
	}
	return nil
}

// blind lists why the metric is not answered, whatever its readings show: nothing was read of it for too long, or what was read is no
// number. Of what stands at a level that is all the time; of what counts, both ends: in between, it has counted.
func (q *question) blind() []verdict.Missing {
	ls := q.j.illegible(probeMetric + q.metric.Name)
	level := q.form == "max"
	ls = append(ls, q.unanswered(level)...)
	for _, s := range q.all() {
		if !q.lives(s) {
			continue
		}
		if p, odd := s.Odd(q.window, !level); odd {
			ls = append(ls, verdict.Lacking(verdict.MissingNumber, q.metric.Name, s.Name, figures.Decimal(p.Value), figures.Clock(p.Span.From)))
		}
		if b, blind := q.blindAt(s); blind && level {
			next := "Check the target and the way there."
			if b.Absent {
				next = adviceOnSeries
			}
			ls = append(ls, verdict.Lacking(verdict.MissingReadings, q.metric.Name, s.Name, figures.Short(q.until(b.Span).Width()), figures.Clock(b.From), b.Why, next))
		} else if q.gauge && s.Gone != "" && s.Gone != history.GoneExited && s.Gone != history.GoneNoMetrics {
			ls = append(ls, verdict.Lacking(verdict.MissingLastScrape, s.Name, s.Gone))
		}
	}
	return ls
}

// tolerated is for how long nothing need be read of the metric.
func (q *question) tolerated() int64 { return 2*int64(q.metric.Every) + 2e9 }

// until ends what has no end with the run.
func (q *question) until(s history.Span) history.Span {
	return history.Span{From: s.From, To: max(s.From, min(s.To, q.j.ix.Last))}
}

// sight is the part of the window in which it can have been read.
func (q *question) sight() history.Span {
	w := q.j.window()
	return history.Span{From: max(w.From, q.window.From), To: min(w.To, q.window.To)}
}

// unanswered says that all targets together were not read: looks failed, or came late, or gave what was not all.
func (q *question) unanswered(level bool) []verdict.Missing {
	watched, w := q.j.ix.Probes[probeMetric+q.metric.Name], q.sight()
	if watched != nil {
		end := min(w.To, watched.Read)
		for _, g := range watched.Partial {
			ends := g.From <= w.From && g.To >= w.From || g.From <= end && g.To >= end
			if ends || level && g.Width() > q.tolerated() && g.From < w.To && g.To > w.From {
				return []verdict.Missing{verdict.Lacking(verdict.MissingWholeAnswers, q.metric.Name, figures.Short(g.Width()), figures.Clock(g.From), g.Why)}
			}
		}
	}
	if !level {
		return nil
	}
	g, blind := watched.Blind(w, q.tolerated())
	if !blind {
		return nil
	}
	long, at := figures.Short(g.Width()), figures.Clock(g.From)
	if why := watched.Failure(g); why != "" {
		return []verdict.Missing{verdict.Lacking(verdict.MissingFailedScrapes, q.metric.Name, long, at, why)}
	}
	return []verdict.Missing{verdict.Lacking(verdict.MissingScrapes, q.metric.Name, long, at)}
}

// blindAt is the first stretch of the window in which nothing was read at a target for too long, together with those in which no target was.
// While its process surely stood still by a pause of ours, it stood where it had been.
func (q *question) blindAt(s *signals.Target) (signals.Blind, bool) {
	w := q.sight()
	all := s.Blind(q.zero)
	if watched := q.j.ix.Probes[probeMetric+q.metric.Name]; watched != nil && len(all) > 0 {
		for _, g := range watched.Gaps {
			all = append(all, signals.Blind{Span: g, Why: watched.Failure(g)})
		}
	}
	for _, b := range signals.Joined(all, int64(q.metric.Every)) {
		for _, part := range awake(b.Span, q.j.ix.Pauses[s.Name]) {
			if part.Width() > q.tolerated() && part.From < w.To && part.To > w.From {
				b.Span = part
				return b, true
			}
		}
	}
	return signals.Blind{}, false
}

// awake are the parts of s in which no pause kept it standing for sure.
func awake(s history.Span, pauses []facts.Pause) []history.Span {
	parts := []history.Span{s}
	for _, p := range pauses {
		var left []history.Span
		for _, part := range parts {
			before := history.Span{From: part.From, To: min(part.To, p.Surest.From)}
			after := history.Span{From: max(part.From, p.Surest.To), To: part.To}
			left = append(left, slices.DeleteFunc([]history.Span{before, after}, func(x history.Span) bool { return x.From >= x.To })...)
		}
		parts = left
	}
	return parts
}
