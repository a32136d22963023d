package facts

import (
	"math"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// hole notes that events of a stream are missing in the record. Of what one probe shows nobody knows then what it was; without a life of a
// store, or a look at keys, nothing can be said of who held what.
func (ix *Facts) hole(h history.Hole) {
	what := "the history lacks " + figures.Plural(h.Count, "event") + " of " + h.Stream + " between " + figures.Clock(h.Span.From) + " and " + figures.Clock(h.Span.To)
	if _, is := history.StoreOf(h.Stream); is || h.Stream == probeKeys || h.Stream == probeLeases {
		ix.contradict(what)
		return
	}
	ix.find(what)
	ix.unread(h.Stream, h.Count, h.Span.To)
	c := ix.probeOf(h.Stream)
	c.Gaps, c.Lost = append(c.Gaps, h.Span), append(c.Lost, h.Span)
}

// unread notes records that nobody could read, by when they were there.
func (ix *Facts) unread(source string, n, at int64) {
	ix.Unread[source] += n
	ix.unreadUntil[source] = max(ix.unreadUntil[source], at)
}

// MetricOf is the declared metric of that name.
func (ix *Facts) MetricOf(name string) *experiments.Metric {
	for _, m := range ix.Exp.Probes.Numbers() {
		if m.Name == name {
			return &m
		}
	}
	return &experiments.Metric{Name: name}
}

// Started is when an incarnation was started; before everything where that is not known.
func (ix *Facts) Started(incarnation string) int64 {
	for _, ev := range ix.Starts {
		if ev.Replica.Incarnation == incarnation {
			return ev.From
		}
	}
	return math.MinInt64
}
