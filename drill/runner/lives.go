package runner

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// lifeEvery is how often a store is asked whether it is still the same.
const lifeEvery = 100 * time.Millisecond

// lives watches the incarnations of the stores.
type lives struct {
	wg   sync.WaitGroup
	lost chan string // the first store that is lost, once
}

// startLives watches stores. A store that is away while excused says so (a fault was done to it) is not lost.
func startLives(ctx context.Context, rec *history.Recorder, clock func() int64, stores []Store, excused func(store string) bool) *lives {
	l := &lives{lost: make(chan string, len(stores))}
	for _, s := range stores {
		l.wg.Go(func() { (&life{Store: s, rec: rec, clock: clock, lost: l.lost, excused: excused}).run(ctx) })
	}
	return l
}

func (l *lives) wait() { l.wg.Wait() }

type life struct {
	Store
	rec   *history.Recorder
	clock func() int64
	lost  chan<- string

	excused func(store string) bool

	number   int
	runID    string
	good     history.Span // the last look that showed this life
	absent   int64        // the last instant at which it was excused
	reported bool
}

func (l *life) run(ctx context.Context) {
	due := time.NewTicker(lifeEvery)
	defer due.Stop()
	l.good = history.At(l.clock())
	for {
		l.look(ctx)
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
	}
}

func (l *life) look(ctx context.Context) {
	lctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	sent := l.clock()
	runID, marker, err := l.Life(lctx)
	span := history.Span{From: sent, To: l.clock()}
	if err != nil {
		if l.excused(l.Name) {
			l.absent = span.To
		}
		if away := time.Duration(span.To - max(l.good.To, l.absent)); ctx.Err() == nil && away > cmp.Or(l.Away, storeLostFor) && !l.reported {
			l.reported = true
			l.lost <- fmt.Sprintf("the store of the %s has not answered for %s: %v", l.Name, away.Round(time.Second), err)
		}
		return
	}
	why := ""
	switch {
	case l.number == 0:
		why = "start"
	case runID != l.runID:
		why = "run_id_changed"
	case !marker:
		why = "marker_lost"
	}
	if why != "" {
		l.number++
		l.runID = runID
		_, _ = l.rec.Record(history.Event{Kind: history.StoreIncarnation, Span: history.Span{From: l.good.From, To: span.To}, Source: source,
			Incarnation: &history.Incarnation{Store: l.Name, RunID: runID, Life: l.number, Why: why}})
		if !marker || why == "run_id_changed" { // the marker may have been seen before the server ended, and its name asked after
			_ = l.Mark(lctx) // where it fails, the next look finds the marker missing again
		}
	}
	l.good = span
}
