package runner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// coverEvery is how often a probe's coverage is written: a history that is cut off shows its evidence up to a second before.
const coverEvery = int64(time.Second)

type samplers struct{ all []*sampler }

// sampler looks on schedule, in a goroutine of its own, and keeps the books: what was covered, and where the gaps are.
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
}

func startSamplers(ctx context.Context, rec *history.Recorder, clock func() int64, probes []Sampled) *samplers {
	s := &samplers{}
	for _, p := range probes {
		one := &sampler{Sampled: p, done: make(chan struct{}), rec: rec, clock: clock, last: history.At(clock())}
		one.covered = one.last
		s.all = append(s.all, one)
		ctx, cancel := context.WithCancel(ctx)
		one.cancel = cancel
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
	due := time.NewTicker(s.Every)
	defer due.Stop()
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, lookWithin)
		s.look(within, false)
		cancel()
		select {
		case <-due.C:
		case <-ctx.Done():
		}
	}
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
