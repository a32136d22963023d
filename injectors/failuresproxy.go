package injectors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// proxyEvery is how often a lockdrill proxy is asked what it has struck: a hit is known to lie between two answers.
const proxyEvery = 20 * time.Millisecond

// armProxy arms a burst at a lockdrill proxy that stands by itself.
func (x *Failures) armProxy(ctx context.Context, r undo.Record, b *fault.Failures) error {
	f := tap.Fault{ID: r.Tap.ID, Op: operation(r.Shot), Mode: string(b.Mode), Count: int(r.Shot.Fault.Want), Share: b.Share, Delay: b.Delay, For: time.Duration(r.Shot.Fault.Declared)}
	holds := ""
	if lock, key := reach(r.Shot, b); key != "" {
		holds = key
	} else {
		f.Key = x.Glob(lock, "")
	}
	if err := tap.NewClient(r.Tap.API).Inject(ctx, f, holds); err != nil {
		return &voidError{history.FaultFailed, err.Error()}
	}
	return nil
}

// confirmProxy asks until the burst is over, and records each operation that it struck.
func (x *Failures) confirmProxy(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	c, shot, window := tap.NewClient(r.Tap.API), r.Shot, applied
	before, told, hits := x.Clock(), 0, int64(0)
	for range poll.Every(ctx, proxyEvery) {
		asked := x.Clock()
		now, err := c.Fault(ctx, r.Tap.ID)
		between := history.Span{From: before, To: x.Clock()}
		switch {
		case errors.Is(err, tap.ErrNoFault):
			return window, history.Fault{}, &voidError{history.Unconfirmed, "the proxy was started anew, and knows no fault any more"}
		case err != nil && ctx.Err() == nil: // asked again
		case err != nil:
			return window, history.Fault{}, ctx.Err()
		}
		for i := told; err == nil && i < len(now.Struck); i++ {
			s := now.Struck[i]
			if shot.Epoch != "" && s.Epoch != "" && s.Epoch != shot.Epoch {
				return window, history.Fault{Hits: now.Hits}, &voidError{history.Moved, "the key was another holder's when the proxy was told"}
			}
			if window.To = between.To; i == 0 {
				window.From = between.From
			}
			if err := x.Record(x.hit(shot, between, s, int64(i+1))); err != nil {
				return window, history.Fault{}, err
			}
		}
		if err == nil {
			before, told, hits = asked, len(now.Struck), now.Hits
		}
		if err == nil && now.Over {
			why := ""
			if now.Hits == 0 {
				why = ": do the clients go round the proxy?"
			}
			return outcome(shot, window, burst.Tally{Hits: now.Hits, Want: shot.Fault.Want}, why)
		}
	}
	return window, history.Fault{Hits: hits}, ctx.Err()
}

// endAtProxy ends a burst by its record, in any process: what has no record of a proxy ended with the runner or the replica. A proxy that
// has ended, or does not know it, has nothing left of it.
func endAtProxy(ctx context.Context, r undo.Record) error {
	if r.Tap == nil {
		return nil
	}
	err := tap.NewClient(r.Tap.API).End(ctx, r.Tap.ID)
	if err == nil || errors.Is(err, tap.ErrNoFault) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("end the fault %s: %w", r.Tap.ID, err)
}
