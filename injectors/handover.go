package injectors

import (
	"context"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/stores"
)

// handOver is a fail-over that whoever keeps the servers is asked for. It stays: nothing is put back.
var handOver = Row{Needs: kept, Find: primaryNow, Do: toServer(askHandOver), See: anotherPrimary, Takes: func(*Hit) time.Duration { return handOverWithin + callWithin }}

// handOverWithin is how long another primary is waited for: a Sentinel promotes one in a second or two, unless it has just done so.
const handOverWithin = 30 * time.Second

func kept(h *Hit) bool {
	return can[stores.Kept](h) && (h.Store.Where().Sentinel != nil || h.Store.Where().Cluster)
}

// primaryNow writes down which server it is, and which life of it.
func primaryNow(ctx context.Context, h *Hit) error {
	where := h.Store.Where()
	lock := h.Spec.(*fault.Store).Lock
	if h.Rec.Store = &where; where.Cluster {
		for _, e := range h.Past() {
			if e.Kind == history.LookKind && e.Lock == lock {
				h.key = h.Keys + e.Key
			}
		}
		if h.key == "" {
			return void(history.NoTarget, "no key of lock %s was looked at", lock)
		}
	}
	addr, err := h.Store.(stores.Kept).Primary(ctx, h.key)
	if err != nil {
		return void(history.NoTarget, "which server is the primary is not known: %v", err)
	}
	if where.Cluster {
		where.Addr, where.Cluster = addr, false
	}
	h.primary = addr
	return h.over(func(c stores.Outside) (err error) {
		where.RunID, err = whoAnswers(ctx, c)
		return err
	})
}

// askHandOver asks, and waits until another is named.
func askHandOver(ctx context.Context, h *Hit) error {
	s := h.Store.(stores.Kept)
	if err := s.HandOver(ctx, h.key); err != nil {
		return void(history.FaultFailed, "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	said := ""
	for range poll.Every(ctx, downEvery) {
		addr, err := s.Primary(ctx, h.key)
		if err == nil && addr != h.primary {
			if h.Rec.Store.Sentinel == nil {
				h.Rec.Store.Addr = addr
			}
			h.said = fmt.Sprintf("%s is the primary, and %s was", addr, h.primary)
			return nil
		}
		if said = addr + " is still the primary"; err != nil {
			said = err.Error()
		}
	}
	return void(history.Unconfirmed, "within %s no other primary was named: %s", handOverWithin, said)
}

// anotherPrimary asks the one that is named: it is another process, and says itself that it is the primary.
func anotherPrimary(ctx context.Context, h *Hit) error {
	within, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	var err error
	for range poll.Every(within, askAgain) {
		if err = h.life(within, true, nil); err == nil {
			h.Saw.Observed, h.Saw.Detail = h.Applied.Width(), h.said
			return nil
		}
	}
	return err
}
