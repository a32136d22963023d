package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"
)

// keptTurn is a run's turn at what is somebody else's, a Redis or a namespace: it is prolonged until it ends or is lost.
type keptTurn struct {
	stop context.CancelFunc // of the renewals; nil = it was never taken
	wg   sync.WaitGroup

	mu    sync.Mutex
	lost  error
	ended bool
}

// keep calls renew again and again; an error of it says that the turn is another's by now.
func (t *keptTurn) keep(ctx context.Context, renew func(context.Context) error) {
	ctx, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	t.wg.Go(func() {
		tick := time.NewTicker(leaseEvery)
		defer tick.Stop()
		for kept := true; kept; {
			select {
			case <-tick.C:
				kept = t.renewOnce(ctx, renew)
			case <-ctx.Done():
				return
			}
		}
	})
}

// renewOnce reports whether the turn is still the run's.
func (t *keptTurn) renewOnce(ctx context.Context, renew func(context.Context) error) (kept bool) {
	ctx, cancel := context.WithTimeout(ctx, leaseEvery)
	defer cancel()
	err := renew(ctx)
	if err == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = err
	return false
}

// Held fails once the turn is another run's: the drill is over then.
func (t *keptTurn) Held() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// end stops the renewals and gives the turn back, until that has been done once.
func (t *keptTurn) end(giveBack func() error) error {
	if t.stop != nil {
		t.stop()
		t.wg.Wait()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	err := giveBack()
	t.ended = err == nil
	return err
}

// holder is what a run says of itself to whoever wants the same turn.
func holder(run, folder string) (string, error) {
	host, _ := os.Hostname() // a label
	text, err := json.Marshal(Holder{Run: run, Host: host, Since: time.Now().UTC().Truncate(time.Second), Folder: folder})
	return string(text), err
}

// abandon ends what failed to open, whatever ends ctx meanwhile, and joins the errors.
func abandon(ctx context.Context, err error, end func(context.Context) error) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	return errors.Join(err, end(limited))
}
