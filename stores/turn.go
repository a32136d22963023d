package stores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
)

// Keys on a store that the run did not start, beside those below the run's prefix.
const (
	EnvironmentKey = "lockdrill:environment" // what the target says it is; set by its owner
	TurnKey        = "lockdrill:run"         // whose turn it is: one run at a time
	OpenKey        = "lockdrill:open"        // who has keys here; no TTL: it outlives a runner that died
)

const (
	TurnTTL   = 15 * time.Second // of a turn that nobody renews
	TurnEvery = TurnTTL / 3      // it is renewed
)

// Holder is a run that has a target, as the target says.
type Holder struct {
	Run    string    `json:"run"`
	Host   string    `json:"host"` // a label
	Since  time.Time `json:"since"`
	Folder string    `json:"folder"`
}

// HolderOf is what a run says of itself to whoever wants the same turn.
func HolderOf(run, folder string) (string, error) {
	host, _ := os.Hostname() // a label
	text, err := json.Marshal(Holder{Run: run, Host: host, Since: time.Now().UTC().Truncate(time.Second), Folder: folder})
	return string(text), err
}

// HeldError refuses a run because of another one at the same target.
type HeldError struct {
	Target string
	Holder
	Open bool // that run is over, and has left something to be undone
}

// HeldBy is what the value of a key of the target says.
func HeldBy(target, key, value string) *HeldError {
	held := &HeldError{Target: target, Open: key == OpenKey}
	_ = json.Unmarshal([]byte(value), &held.Holder) // what another version has written is still another's
	return held
}

func (e *HeldError) Error() string {
	who := fmt.Sprintf("run %s since %s (host %s, folder %s)", e.Run, e.Since.Format(time.RFC3339), e.Host, e.Folder)
	if e.Open {
		return fmt.Sprintf("%s was left unfinished by %s: run `lockdrill recover %s` there first; where that folder is lost, see that no key lockdrill:%s:* is left and delete the key %s",
			e.Target, who, e.Folder, e.Run, OpenKey)
	}
	return fmt.Sprintf("%s is held by %s: one run at a time; a run that died gives it up after %s", e.Target, who, TurnTTL)
}

// Turn is a run's turn at what is somebody else's, a store or a namespace: it is prolonged until it ends or is lost.
type Turn struct {
	stop context.CancelFunc // of the renewals; nil = it was never taken
	wg   sync.WaitGroup

	mu    sync.Mutex
	lost  error
	ended bool
}

// Keep calls renew again and again; an error of it says that the turn is another's by now.
func (t *Turn) Keep(ctx context.Context, renew func(context.Context) error) {
	ctx, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	t.wg.Go(func() {
		tick := time.NewTicker(TurnEvery)
		defer tick.Stop()
		for kept := true; kept; {
			select {
			case <-tick.C:
				kept = t.RenewOnce(ctx, renew)
			case <-ctx.Done():
				return
			}
		}
	})
}

// RenewOnce reports whether the turn is still the run's.
func (t *Turn) RenewOnce(ctx context.Context, renew func(context.Context) error) (kept bool) {
	ctx, cancel := context.WithTimeout(ctx, TurnEvery)
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
func (t *Turn) Held() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// Stop ends the renewals, as the death of the run does.
func (t *Turn) Stop() {
	if t.stop != nil {
		t.stop()
		t.wg.Wait()
	}
}

// End stops the renewals and gives the turn back, until that has been done once.
func (t *Turn) End(giveBack func() error) error {
	t.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	err := giveBack()
	t.ended = err == nil
	return err
}

// Stay is a run's keys at a store that it did not start, its turn there, and the mark that it leaves until its keys are gone.
type Stay struct {
	Turn
	At      undo.Store
	Prefix  string
	Me      string // the value of the turn's key and of the open mark
	journal *undo.Journal
	record  int
	leave   func(context.Context, undo.Record) error
}

// Take writes the stay down, takes the turn by claim and leaves the open mark. Where it fails, nothing is left.
func (s *Stay) Take(ctx context.Context, g *Ground, claim func(ctx context.Context, key string) error, renew func(context.Context) error, leave func(context.Context, undo.Record) error) (err error) {
	s.Prefix, s.journal, s.leave = g.Prefix, g.Journal, leave
	if s.Me, err = HolderOf(g.Run, g.Folder); err != nil {
		return err
	}
	if s.record, err = s.journal.Intend(s.Record()); err != nil {
		return err
	}
	if err = claim(ctx, TurnKey); err == nil {
		err = claim(ctx, OpenKey)
	}
	if err != nil {
		return Abandon(ctx, err, s.GiveBack)
	}
	s.Keep(ctx, func(ctx context.Context) error { // a target that does not answer now is asked again
		if held := new(HeldError); errors.As(renew(ctx), &held) {
			return held
		}
		return nil
	})
	return nil
}

// Record is how the stay is undone.
func (s *Stay) Record() undo.Record {
	return undo.Record{Kind: undo.StandKeys, Store: &s.At, Key: &undo.Key{Name: s.Prefix, Token: s.Me}}
}

// GiveBack removes every key of the run, verifies it, and gives the target back.
func (s *Stay) GiveBack(ctx context.Context) error {
	if err := s.leave(ctx, s.Record()); err != nil {
		return err
	}
	return s.journal.Mark(s.record, undo.Undone, "")
}

// closeLimit bounds the closing of what failed to open.
const closeLimit = 5 * time.Second

// Abandon ends what failed to open, whatever ends ctx meanwhile, and joins the errors.
func Abandon(ctx context.Context, err error, end func(context.Context) error) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	return errors.Join(err, end(limited))
}
