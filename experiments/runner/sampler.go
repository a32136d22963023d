package runner

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/pace"
)

// coverEvery is how often a probe's coverage is written: a history that is cut off shows its evidence up to a second before.
const coverEvery = int64(time.Second)

// moment is more than a store at hand takes for an answer.
const moment = int64(time.Millisecond)

type samplers struct {
	all      []*sampler
	together *askers // of them, those that the lookout asks
}

// sampler looks on schedule and keeps the books: what was covered, and where the gaps are.
type sampler struct {
	Sampled
	cancel context.CancelFunc
	done   chan struct{} // closed when the schedule has ended
	rec    *history.Recorder
	clock  func() int64

	last    history.Span // the last good look
	covered history.Span // since the last coverage event
	samples int64
	largest int64
	failed  string                 // why looks fail at present
	unseen  atomic.Pointer[string] // failed, for others to read

	// Of one that is asked.
	asker Asker // nil = its looks are made one by one
	asked int64 // when
	owes  bool  // its answer has not come
	took  int64 // the last answer, or this one so far
	due   int64 // the next look
}

func startSamplers(ctx context.Context, rec *history.Recorder, clock func() int64, probes []Sampled) *samplers {
	s := &samplers{together: newAskers(ctx)}
	for _, p := range probes {
		one := &sampler{Sampled: p, cancel: s.together.stop, done: s.together.ended, rec: rec, clock: clock, last: history.At(clock())}
		one.covered = one.last
		s.all = append(s.all, one)
		if asker, ok := p.Probe.(Asker); ok && !p.Live {
			one.asker = asker
			s.together.of = append(s.together.of, one)
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		one.cancel, one.done = cancel, make(chan struct{})
		go one.run(ctx)
	}
	return s
}

// finish ends the schedules of the probes that ask the replicas, or of the others, and makes each one's final look.
func (s *samplers) finish(ctx context.Context, live bool) {
	var waiting sync.WaitGroup // all at once: the last look at thousands of keys would be a gap of whoever comes after it
	for _, one := range s.all {
		if one.Live == live {
			one.cancel()
			<-one.done
			waiting.Go(func() { one.conclude(ctx) })
		}
	}
	waiting.Wait()
}

func (s *sampler) conclude(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.lastWithin())
	defer cancel()
	s.finish(ctx)
}

func (s *sampler) lastWithin() time.Duration { return max(5*lookWithin, s.Last) }

func (s *sampler) run(ctx context.Context) {
	defer close(s.done)
	next := time.NewTimer(0)
	defer next.Stop()
	for ctx.Err() == nil {
		s.looks(ctx, next)
	}
}

// looks makes looks for a while, which share their limit: one for each would cost about as much as a look at a store that is at hand.
func (s *sampler) looks(ctx context.Context, next *time.Timer) {
	within, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	for until := s.clock() + int64(lookWithin/20); ctx.Err() == nil && s.clock() < until; {
		s.look(within, false)
		next.Reset(pace.Until(time.Duration(s.clock()), s.Every)) // with all others that wait: see there
		select {
		case <-next.C:
		case <-ctx.Done():
		}
	}
}

// askers are sampled in one goroutine, turn by turn: in a turn all stores of which a look is due are asked, and what they answer is taken.
type askers struct {
	of       []*sampler
	schedule context.Context
	stop     context.CancelFunc // ends it
	ended    chan struct{}      // closed when no more turn is taken
	over     bool               // it is closed
	woke     func(due int64)    // is told of each wait that nothing has ended but the clock
}

func newAskers(ctx context.Context) *askers {
	a := &askers{ended: make(chan struct{}), woke: func(int64) {}}
	a.schedule, a.stop = context.WithCancel(ctx)
	return a
}

// turn takes one, which ends when the next is due, at the latest, and says when that is.
func (a *askers) turn(now int64) (due int64) {
	due = now + int64(pace.Until(time.Duration(now), turnEvery))
	if a.schedule.Err() != nil {
		a.end()
		return due
	}
	due = min(due, a.ask())
	slices.SortStableFunc(a.of, func(x, y *sampler) int { return cmp.Compare(x.took, y.took) })
	for _, s := range a.of { // whoever is slow comes last, and holds up the others for a moment at most
		a.answer(s, min(due, s.clock()+moment))
	}
	for _, s := range a.of {
		a.answer(s, due)
	}
	return due
}

func (a *askers) end() {
	if !a.over {
		a.over = true
		a.stop()
		close(a.ended)
	}
}

// ask asks those whose look is due and that owe no answer, and says when the next one is due.
func (a *askers) ask() (due int64) {
	due = math.MaxInt64
	for _, s := range a.of {
		if now := s.clock(); now >= s.due {
			s.due = now + int64(pace.Until(time.Duration(now), s.Every))
			if !s.owes {
				s.asked, s.owes = now, true
				s.asker.Ask()
			}
		}
		due = min(due, s.due)
	}
	return due
}

// answer waits until an instant for what was asked.
func (a *askers) answer(s *sampler, until int64) {
	if !s.owes {
		return
	}
	now := s.clock()
	until = max(until, now+moment/10) // what has come is taken in any case
	report, ok, err := s.asker.Answer(time.Now().Add(time.Duration(until - now)))
	span := history.Span{From: s.asked, To: s.clock()}
	if s.took = span.Width(); err == nil && !ok {
		if span.To >= until {
			a.woke(until)
		}
		return
	}
	if s.owes = false; err != nil {
		s.fails(err.Error())
		return
	}
	s.good(a.schedule, span, false)
	_ = s.rec.RecordAll(report(span)) // a failed recorder ends the run by itself
}

// look makes one look, for as long as ctx lasts, and records what it showed. A look that failed only lets the gap grow.
func (s *sampler) look(ctx context.Context, final bool) bool {
	sent := s.clock()
	events, err := s.Probe.Look(ctx, final)
	span := history.Span{From: sent, To: s.clock()}
	if err != nil {
		if final || !errors.Is(ctx.Err(), context.Canceled) { // else the schedule has ended
			s.fails(err.Error())
		}
		return false
	}
	s.good(ctx, span, final)
	_ = s.rec.RecordAll(events(span)) // a failed recorder ends the run by itself
	return true
}

// fails takes note of what the last look got; "" = what it was to see.
func (s *sampler) fails(why string) {
	s.failed = why
	s.unseen.Store(&why)
}

// tell says of each probe whose looks have begun to fail, or have ceased to, what they get.
func (s *samplers) tell(to func(probe, why string)) {
	for _, one := range s.all {
		if why := one.unseen.Swap(nil); why != nil {
			to(one.Name, *why)
		}
	}
}

// good extends the coverage by a look, or closes it and records the gap before the look. What the final look belongs to is written by
// finish, which alone may call it final.
func (s *sampler) good(ctx context.Context, span history.Span, final bool) {
	gap := span.To - s.last.From
	if gap > int64(s.MaxGap) {
		s.cover(ctx, s.last.To, false)
		s.gap(span.To)
		s.covered, s.largest = span, 0
	} else {
		s.largest = max(s.largest, gap)
	}
	s.samples++
	s.last = span
	if s.failed != "" {
		s.fails("")
	}
	s.covered.To = span.To
	if s.covered.Width() >= coverEvery && !final {
		s.cover(ctx, span.To, false)
	}
}

// cover writes the coverage so far, which ends at to, and begins the next one where the last look began.
func (s *sampler) cover(ctx context.Context, to int64, final bool) {
	if s.samples > 0 {
		s.covered.To = max(to, s.covered.From)
		c := history.Coverage{Samples: s.samples, Largest: s.largest, Final: final}
		if priced, ok := s.Probe.(Priced); ok && final {
			c.Observer = priced.Observer(ctx)
		}
		s.write(history.CoverageKind, s.covered, c)
	}
	s.covered, s.samples, s.largest = s.last, 0, 0
}

// gap writes the stretch from the last good look to to.
func (s *sampler) gap(to int64) {
	why := s.failed
	if why == "" {
		why = "limit " + s.MaxGap.String()
	}
	s.write(history.GapKind, history.Span{From: s.last.From, To: max(to, s.last.From)}, history.Coverage{Why: why, Failed: s.failed != "", Largest: to - s.last.From})
}

func (s *sampler) write(kind history.Kind, span history.Span, c history.Coverage) {
	c.Probe = s.Name
	_, _ = s.rec.Record(history.Event{Kind: kind, Span: span, Source: s.Source, Coverage: &c})
}

// finish makes the final look. Where it fails, the end of the evidence is a gap up to now.
func (s *sampler) finish(ctx context.Context) {
	if s.look(ctx, true) {
		s.cover(ctx, s.last.To, true)
		return
	}
	s.cover(ctx, s.last.To, false)
	s.gap(s.clock())
}
