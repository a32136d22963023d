package analysis

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/signals"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// unread are records that a source gave, or the history had, and that nobody could read: each may say anything about its time.
type unread struct {
	count  int64
	during history.Span // when they were written
	why    string       // what is wrong with the first; "" = it is not said
	events []int64      // that tell of them
}

// cannotRead adds records of a source, which goes by its probe's name in coverage events.
func (ix *Facts) cannotRead(source string, more unread) {
	u, known := ix.unread[source]
	if !known {
		ix.unread[source] = more
		return
	}
	u.count += more.count
	u.during = history.Span{From: min(u.during.From, more.during.From), To: max(u.during.To, more.during.To)}
	u.events = append(u.events, more.events...)
	ix.unread[source] = u
}

// hole notes that events of a stream are missing in the record. Of what one probe shows nobody knows then what it was; without a life of a
// store, or a look at keys, nothing can be said of who held what.
func (ix *Facts) hole(h history.Hole) {
	what := "the history lacks " + figures.Plural(h.Count, "event") + " of " + h.Stream + " between " + figures.Clock(h.Span.From) + " and " + figures.Clock(h.Span.To)
	if _, is := history.StoreOf(h.Stream); is || h.Stream == probeKeys || h.Stream == probeLeases {
		ix.contradict(what)
		return
	}
	ix.find(what)
	ix.cannotRead(h.Stream, unread{count: h.Count, during: h.Span, why: what})
	c := ix.probeOf(h.Stream)
	c.gaps, c.lost = append(c.gaps, h.Span), append(c.lost, h.Span)
}

// illegible says that records which a source gave could not be read: each may hide a violation, and each may be the end of something.
func (j *judging) illegible(source string) []verdict.Missing {
	if u := j.ix.unread[source]; u.count > 0 {
		return []verdict.Missing{verdict.Lacking(verdict.MissingUnread, figures.Plural(u.count, "record"), source)}
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
			ls = append(ls, verdict.Lacking(verdict.MissingReadings, q.metric.Name, s.Name, figures.Short(q.until(b.Span).Width()), figures.Clock(b.From), b.Why))
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
	return history.Span{From: s.From, To: max(s.From, min(s.To, q.j.ix.last))}
}

// sight is the part of the window in which it can have been read.
func (q *question) sight() history.Span {
	w := q.j.window()
	return history.Span{From: max(w.From, q.window.From), To: min(w.To, q.window.To)}
}

// unanswered says that all targets together were not read: looks failed, or came late, or gave what was not all.
func (q *question) unanswered(level bool) []verdict.Missing {
	watched, w := q.j.ix.probes[probeMetric+q.metric.Name], q.sight()
	if watched != nil {
		end := min(w.To, watched.read)
		for _, g := range watched.partial {
			ends := g.From <= w.From && g.To >= w.From || g.From <= end && g.To >= end
			if ends || level && g.Width() > q.tolerated() && g.From < w.To && g.To > w.From {
				return []verdict.Missing{verdict.Lacking(verdict.MissingWholeAnswers, q.metric.Name, figures.Short(g.Width()), figures.Clock(g.From), g.why)}
			}
		}
	}
	if !level {
		return nil
	}
	g, blind := watched.blind(w, q.tolerated())
	if !blind {
		return nil
	}
	long, at := figures.Short(g.Width()), figures.Clock(g.From)
	if why := watched.failure(g); why != "" {
		return []verdict.Missing{verdict.Lacking(verdict.MissingFailedScrapes, q.metric.Name, long, at, why)}
	}
	return []verdict.Missing{verdict.Lacking(verdict.MissingScrapes, q.metric.Name, long, at)}
}

// blindAt is the first stretch of the window in which nothing was read at a target for too long, together with those in which no target was.
// While its process surely stood still by a pause of ours, it stood where it had been.
func (q *question) blindAt(s *signals.Target) (signals.Blind, bool) {
	w := q.sight()
	all := s.Blind(q.zero)
	if watched := q.j.ix.probes[probeMetric+q.metric.Name]; watched != nil && len(all) > 0 {
		for _, g := range watched.gaps {
			all = append(all, signals.Blind{Span: g, Why: watched.failure(g)})
		}
	}
	for _, b := range signals.Joined(all, int64(q.metric.Every)) {
		for _, part := range awake(b.Span, q.j.ix.pauses[s.Name]) {
			if part.Width() > q.tolerated() && part.From < w.To && part.To > w.From {
				b.Span = part
				return b, true
			}
		}
	}
	return signals.Blind{}, false
}

// awake are the parts of s in which no pause kept it standing for sure.
func awake(s history.Span, pauses []pause) []history.Span {
	parts := []history.Span{s}
	for _, p := range pauses {
		var left []history.Span
		for _, part := range parts {
			before := history.Span{From: part.From, To: min(part.To, p.surest.From)}
			after := history.Span{From: max(part.From, p.surest.To), To: part.To}
			left = append(left, slices.DeleteFunc([]history.Span{before, after}, func(x history.Span) bool { return x.From >= x.To })...)
		}
		parts = left
	}
	return parts
}
