package rehearsal

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// jobsPutOff is that the effects tell of jobs before anybody has to do them: with the time at which they are due (map.due, not_before).
const jobsPutOff = "jobs are put off"

// queued is the state in which a job waits for its time.
const queued = "QUEUED"

// putOffMost is between the word of a job and its time, at most.
const putOffMost = 6 * time.Second

// putOff is d with the word of each job before its time, of some twice, since they were put off again; and of jobs that nobody has to do
// before the run is over. soon are those of which that is not sure.
func (w *world) putOff(d *Drill) (told *Drill, soon int) {
	if !w.o.due {
		return d, 0
	}
	r := rand.New(rand.NewPCG(w.seed, 23))
	var events []history.Event
	var begun, final int64
	tell := func(at, due int64, lock, key, job string) {
		read := history.Span{From: max(0, at-int64(w.e.Probes.Ledger.Every)), To: at}
		const rounded = int64(5 * time.Millisecond)
		events = append(events, history.Event{Kind: history.LedgerEntry, Span: read, At: at, Lock: lock, Key: key, Op: "queue-" + strconv.Itoa(len(events)),
			Entry: &history.Entry{Subject: job, State: queued, Accepted: true, Due: &history.Span{From: due - rounded, To: due + rounded}}})
	}
	for i := range d.History.Events {
		switch ev := &d.History.Events[i]; {
		case ev.Kind == history.RunPhase && ev.Phase.Name == history.PhaseSteady:
			begun = ev.At
		case ev.Kind == history.RunPhase && ev.Phase.Name == history.PhaseFinal:
			final = ev.At
		case ev.Kind == history.JobOffer:
			at := max(begun, ev.At-int64(between(r, 0, putOffMost)))
			if again := at + (ev.At-at)/2; r.IntN(2) == 0 {
				tell(at, again+int64(time.Millisecond), ev.Lock, ev.Key, ev.Job.ID)
				at = again
			}
			tell(at, ev.At, ev.Lock, ev.Key, ev.Job.ID)
		}
	}
	for _, l := range w.e.System.Locks {
		horizon := int64(forecast.Horizon(w.e, l.Name))
		if l.Loop() || begun >= final {
			continue
		}
		for i := range r.IntN(4) {
			job := "later-" + strconv.Itoa(i)
			at, due := begun+r.Int64N(final-begun), final+horizon+int64(between(r, 0, time.Hour))
			if r.IntN(2) == 0 {
				soon, due = soon+1, final-horizon/2+r.Int64N(horizon)
			}
			if again := at + (final-at)/2; r.IntN(2) == 0 {
				tell(at, at+1, l.Name, l.KeyPrefix+job, job)
				at = again
			}
			tell(at, due, l.Name, l.KeyPrefix+job, job)
		}
	}
	h := *d.History
	h.Events = slices.Concat(h.Events, events)
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return int(max(-1, min(1, a.At-b.At))) })
	with := *d
	with.History = &h
	return &with, soon
}

// stranded holds the jobs that nobody did against what the judge says of them: no end of its range counts one that is not due.
func (c *comparison) stranded(h *history.History, soon int) {
	surely, perhaps := map[string]int{}, map[string]int{}
	struck := slices.ContainsFunc(slices.Collect(maps.Values(c.shots)), func(s *strike) bool { return s.applied.To > 0 })
	for _, j := range h.Events {
		if j.Kind != history.JobOffer {
			continue
		}
		done := slices.IndexFunc(c.t.Writes, func(w sim.Write) bool { return w.Subject == j.Job.ID && w.Accepted && w.Terminal })
		if done < 0 || c.t.Writes[done].At >= c.final {
			perhaps[j.Lock]++
		}
		if done < 0 && struck && j.At < c.faults {
			surely[j.Lock]++
		}
	}
	for i := range c.j.SLOs {
		r := &c.j.SLOs[i]
		if r.Measure != "stranded" {
			continue
		}
		c.tried.count("outside, stranded", 1)
		hi := math.Inf(1)
		if r.Hi != nil {
			hi = *r.Hi
		}
		accused := r.Lo > float64(perhaps[r.Lock]) && (r.Verdict == verdict.Fail || c.seen.unread == 0)
		missed := hi < float64(surely[r.Lock]) || r.Verdict == verdict.Pass && surely[r.Lock] > 0
		early := c.seen.unread == 0 && hi > float64(perhaps[r.Lock]+soon) // it counts what is not due
		if accused || missed || early {
			c.wrong = append(c.wrong, fmt.Sprintf("%s of %s is from %g to %g (%s): %d to %d were left, and %d are due about the end", r.Measure, r.Lock, r.Lo, hi, r.Verdict, surely[r.Lock], perhaps[r.Lock], soon))
		}
	}
}
