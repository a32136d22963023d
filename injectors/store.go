package injectors

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/stores"
)

const (
	askWithin  = 500 * time.Millisecond // for one question to the store
	backWithin = 2 * time.Second        // until a store that another fault restarts takes writes again
	upWithin   = 10 * time.Second       // and one that this fault has killed: it may read long what it has kept
	downEvery  = 20 * time.Millisecond  // how often a stopped server is looked for
)

// ofStores are the faults of the locks' store itself, by what is done. Whatever is done to it is seen over connections of its own, from outside.
var ofStores = map[string][]Row{
	string(fault.StorePause):        {{Needs: locks, Find: storeNow, Do: tell(pauseWrites), See: writeWaits, End: stillThere(unpause)}},
	string(fault.StoreFill):         {{Needs: locks, Find: memoryNow, Do: tell(fill), See: lasting(writeRefused), End: stillThere(emptied)}},
	string(fault.StoreFreeze):       {{Needs: can[stores.Server], Find: inTurn(storeNow, server), Do: toServer(freeze), See: still, End: goOn}},
	string(fault.StoreFreezeLeader): {{Needs: can[stores.Server], Find: inTurn(storeNow, leader), Do: toServer(freeze), See: still, End: goOn}},
	string(fault.StoreStop):         {{Needs: can[stores.Server], Find: storeNow, Do: toServer(kill), See: lasting(silent), End: startServer(upWithin)}},
	string(fault.StoreStopLeader):   {{Needs: can[stores.Server], Find: inTurn(storeNow, leader), Do: toServer(killLeader), See: lasting(leaderGone), End: startServer(upWithin)}},
	string(fault.StoreRestart):      {{Needs: can[stores.Server], Find: storeNow, Do: inTurn(witness, toServer(restart)), See: newLife, End: startServer(upWithin)}},
	string(fault.StoreFlush):        {{Needs: can[stores.Flushing], Find: storeNow, Do: inTurn(witness, toServer(flush)), See: lost, End: startServer(backWithin)}},
	string(fault.StoreFailover):     {handOver, {Needs: can[stores.Standby], Find: storeNow, Do: inTurn(witness, toServer(failOver)), See: newPrimary, End: startServer(upWithin)}},
}

func locks(h *Hit) bool { return h.Store != nil }

// can reports that something can be done with the locks' store.
func can[C any](h *Hit) bool {
	_, ok := h.Store.(C)
	return ok
}

// over does something over a connection of its own to the store of the record.
func (h *Hit) over(do func(stores.Outside) error) error {
	c, err := h.Open(*h.Rec.Store)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// storeNow writes down which store it is, and which life of it.
func storeNow(ctx context.Context, h *Hit) error {
	where := h.Store.Where()
	h.Rec.Store = &where
	return h.over(func(c stores.Outside) (err error) {
		if where.RunID, err = whoAnswers(ctx, c); err != nil {
			return void(history.NoTarget, "the store does not answer: %v", err)
		}
		return nil
	})
}

// memoryNow writes down what the store may use.
func memoryNow(ctx context.Context, h *Hit) error {
	err := storeNow(ctx, h)
	if err == nil {
		err = h.overRedis(func(c *redis.Client) (err error) {
			h.Rec.Store.Memory, err = memoryOf(ctx, c)
			return err
		})
	}
	return err
}

func server(_ context.Context, h *Hit) error {
	if h.Rec.Process = h.Store.(stores.Server).Process(); h.Rec.Process == nil {
		return void(history.NoTarget, "the store is no process of this run")
	}
	return nil
}

func leader(ctx context.Context, h *Hit) (err error) {
	leading, ok := h.Store.(stores.Leading)
	if !ok {
		return void(history.NoTarget, "no server of the store leads others")
	}
	if h.Rec.Process, err = leading.Leader(ctx); err != nil {
		return void(history.NoTarget, "no server of the store says that it leads: %v", err)
	}
	return nil
}

// toServer strikes; the fault's time begins now, whatever came before.
func toServer(do step) step {
	return func(ctx context.Context, h *Hit) error {
		h.Applied = history.At(h.now())
		err := do(ctx, h)
		if errors.Is(err, errGone) {
			return void(history.Moved, "the store's process is gone")
		}
		if err != nil {
			err = fmt.Errorf("%s store: %w", h.fault().Form, err)
		}
		return err
	}
}

// tell strikes over a connection to a Redis: only such a store is paused or filled, and fails over.
func tell(do func(context.Context, *Hit, *redis.Client) error) step {
	return func(ctx context.Context, h *Hit) error {
		return h.overRedis(func(c *redis.Client) error {
			return toServer(func(ctx context.Context, h *Hit) error { return do(ctx, h, c) })(ctx, h)
		})
	}
}

// aRedis is a store from outside that is a Redis.
type aRedis interface {
	Redis() *redis.Client
	Told(ctx context.Context, section, field string) (string, error)
}

// overRedis does something over a connection of its own, where the store is a Redis.
func (h *Hit) overRedis(do func(*redis.Client) error) error {
	return h.over(func(o stores.Outside) error {
		c, is := o.(aRedis)
		if !is {
			return errors.New("this is done to a Redis only, and the locks are in another store")
		}
		return do(c.Redis())
	})
}

func freeze(_ context.Context, h *Hit) error  { return signal(*h.Rec.Process, syscall.SIGSTOP) }
func kill(ctx context.Context, h *Hit) error  { return h.Store.(stores.Server).Kill(ctx) }
func flush(ctx context.Context, h *Hit) error { return h.Store.(stores.Flushing).Flush(ctx) }
func restart(ctx context.Context, h *Hit) error {
	return errors.Join(kill(ctx, h), h.Store.(stores.Server).Start(ctx, keeps(h)))
}
func keeps(h *Hit) bool { return h.Spec.(*fault.Store).Keep }
func killLeader(ctx context.Context, h *Hit) error {
	return h.Store.(stores.Leading).KillServer(ctx, *h.Rec.Process)
}

// pauseWrites pauses those alone: CLIENT UNPAUSE itself would wait for the end of a pause of everything.
func pauseWrites(ctx context.Context, h *Hit, c *redis.Client) error {
	return c.Do(ctx, "CLIENT", "PAUSE", h.lasts().Milliseconds(), "WRITE").Err()
}

// failOver cuts the standby off, lets what is then written pile up for lag, and kills the server: then the fault begins.
func failOver(ctx context.Context, h *Hit) error {
	return h.overRedis(func(c *redis.Client) error {
		if n, err := c.Wait(ctx, 1, askWithin).Result(); err != nil || n < 1 {
			return fmt.Errorf("the standby is not in step: %w", errors.Join(err, ctx.Err()))
		}
		if err := h.Store.(stores.Standby).Cut(ctx); err != nil {
			return err
		}
		if err := c.Set(ctx, h.witness("lost"), "1", 0).Err(); err != nil {
			return fmt.Errorf("write witness: %w", err)
		}
		if rest(ctx, h.Spec.(*fault.Store).Lag); ctx.Err() != nil {
			return ctx.Err()
		}
		h.Applied = history.At(h.now())
		return h.Store.(stores.Standby).FailOver(ctx)
	})
}

// witness is a key that the fault destroys, or must not destroy.
func (h *Hit) witness(what string) string { return h.Prefix + "witness:" + h.Rec.Shot.Op + ":" + what }

func witness(ctx context.Context, h *Hit) error {
	err := h.over(func(c stores.Outside) error { return c.Put(ctx, h.witness("before"), 0) })
	if err != nil {
		err = fmt.Errorf("write witness: %w", err)
	}
	return err
}

// writeWaits asks for a write at once and sees how long it is kept waiting.
func writeWaits(ctx context.Context, h *Hit) error {
	lasts, sent := h.lasts(), int64(0)
	waiting, cancel := context.WithDeadline(ctx, time.Now().Add(time.Duration(h.Applied.To-h.now())+lasts))
	defer cancel()
	var written error
	err := h.overRedis(func(c *redis.Client) error {
		// The client looks at deadlines only: where the run ends early, nothing but a closed connection ends the wait.
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
		patient := c.WithTimeout(lasts + askWithin)
		sent = h.now()
		written = patient.Set(waiting, h.witness("pause"), "1", lasts+askWithin).Err()
		return nil
	})
	if err != nil {
		return err
	}
	h.Window = history.Span{From: h.Applied.To, To: h.now()}
	// What comes after the pause's end is this machine's own lateness.
	h.Saw.Expected, h.Saw.Observed = int64(lasts), max(0, min(h.Window.To, h.Applied.To+int64(lasts))-sent)
	var timedOut net.Error // the connection's deadline is the context's, and either may be noticed first
	switch unanswered := waiting.Err() != nil || errors.As(written, &timedOut) && timedOut.Timeout(); {
	case written != nil && !unanswered:
		return void(history.Unconfirmed, "a write to the paused store failed: %v", written)
	case h.Window.Width() < int64(lasts)*9/10 && ctx.Err() == nil:
		return void(history.Unconfirmed, "a write to the paused store was answered after %s of %s", time.Duration(h.Window.Width()), lasts)
	case h.Saw.Observed < int64(lasts)/2 && ctx.Err() == nil: // the pause was there at its end, and hardly seen
		return void(history.Unconfirmed, "the write that shows the pause was sent only after %s of %s: this machine is busy", time.Duration(sent-h.Applied.To), lasts)
	}
	h.Saw.Hits = 1
	return nil
}

// for_ looks until the fault's time is up; an error is what was seen instead of it.
func lasting(look func(ctx context.Context, h *Hit, c stores.Outside, within time.Duration) error) step {
	return func(ctx context.Context, h *Hit) error {
		lasts := h.fault().Declared
		return h.over(func(c stores.Outside) error {
			h.Window, h.Saw.Expected = history.At(h.Applied.To), lasts
			for range poll.Every(ctx, downEvery) {
				looked := h.now()
				if err := look(ctx, h, c, time.Duration(h.Window.Width())); err != nil {
					return void(history.Unconfirmed, "%v", err)
				}
				if ctx.Err() == nil { // else the look was cut short
					h.Window.To = looked
					h.Saw.Hits, h.Saw.Observed = 1, h.Window.Width()
				}
				if looked >= h.Applied.To+lasts {
					break
				}
			}
			if h.Saw.Hits == 0 { // the run ended before anybody looked
				return ctx.Err()
			}
			return nil
		})
	}
}

// silent: nobody answers at the store's address.
func silent(ctx context.Context, h *Hit, c stores.Outside, within time.Duration) error {
	if _, err := whoAnswers(ctx, c); err == nil {
		return fmt.Errorf("the stopped store answered after %s of %s", within, h.lasts())
	}
	return nil
}

// leaderGone: the process is gone, and nobody has started it again.
func leaderGone(_ context.Context, h *Hit, _ stores.Outside, within time.Duration) error {
	if err := signal(*h.Rec.Process, 0); !errors.Is(err, errGone) {
		return fmt.Errorf("the store's leader was there after %s of %s: %v", within, h.lasts(), err)
	}
	return nil
}

// writeRefused: for want of memory.
func writeRefused(ctx context.Context, h *Hit, c stores.Outside, within time.Duration) error {
	if err := c.Put(ctx, h.witness("fill"), h.lasts()); !redis.IsOOMError(err) && ctx.Err() == nil {
		return fmt.Errorf("a write to the full store was not refused after %s of %s: %v", within, h.lasts(), err)
	}
	return nil
}

func newLife(ctx context.Context, h *Hit) error {
	h.Saw.Observed = h.Applied.Width() // for so long nobody answered
	return h.life(ctx, true, map[string]bool{"before": keeps(h)})
}

func newPrimary(ctx context.Context, h *Hit) error {
	h.Saw.Observed = h.Applied.Width()
	return h.life(ctx, true, map[string]bool{"before": true, "lost": false})
}

func lost(ctx context.Context, h *Hit) error {
	return h.life(ctx, false, map[string]bool{"before": false})
}

// life reads the run id, which a new process changes, and the witnesses, which lived or died.
func (h *Hit) life(ctx context.Context, changed bool, lives map[string]bool) error {
	return h.over(func(c stores.Outside) error {
		now, err := whoAnswers(ctx, c)
		if err != nil {
			return void(history.Unconfirmed, "the store does not answer after the fault: %v", err)
		}
		if was := h.Rec.Store.RunID; now != "" && was != "" && (now != was) != changed {
			return void(history.Unconfirmed, "the store's run id was %s and is %s", was, now)
		}
		for what, want := range lives {
			there, err := c.There(ctx, h.witness(what))
			if err != nil {
				return void(history.Unconfirmed, "the witness %q cannot be looked for: %v", what, err)
			}
			if there != want {
				return void(history.Unconfirmed, "the witness %q that was written before the fault %s", what, map[bool]string{true: "is still there", false: "is gone"}[there])
			}
		}
		if c, is := c.(aRedis); is {
			if role, err := c.Told(ctx, "replication", "role"); err != nil || role != "" && role != "master" {
				return void(history.Unconfirmed, "the store's role is %q: %v", role, err)
			}
		}
		h.Saw.Hits, h.Window.To = 1, h.now()
		return nil
	})
}

// startServer starts what was killed; one that runs goes on. A server of a dead runner died with it, and has nothing to be started for.
func startServer(within time.Duration) step {
	return func(ctx context.Context, h *Hit) error {
		if h.Store == nil {
			return nil
		}
		if err := h.Store.(stores.Server).Start(ctx, keeps(h)); err != nil {
			return fmt.Errorf("start store: %w", err)
		}
		return h.takesWrites(ctx, within)
	}
}

// stillThere ends what goes on in a Redis, which a server of a dead runner is not.
func stillThere(end func(context.Context, *redis.Client, *undo.Store) error) step {
	return func(ctx context.Context, h *Hit) error {
		if h.Store == nil && h.Rec.Store.Owned {
			return nil
		}
		if h.Again {
			return h.stillFull(ctx)
		}
		if err := h.overRedis(func(c *redis.Client) error { return end(ctx, c, h.Rec.Store) }); err != nil {
			return err
		}
		return h.takesWrites(ctx, backWithin)
	}
}

func unpause(ctx context.Context, c *redis.Client, _ *undo.Store) error {
	if err := c.Do(ctx, "CLIENT", "UNPAUSE").Err(); err != nil {
		return fmt.Errorf("end the pause: %w", err)
	}
	return nil
}

// takesWrites reports why the store takes no writes, within such a time.
func (h *Hit) takesWrites(ctx context.Context, within time.Duration) error {
	return h.over(func(c stores.Outside) (err error) {
		within, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		for range poll.Every(within, watchEvery) {
			err = errors.Join(c.Put(ctx, h.witness("after"), time.Minute), c.Drop(ctx, h.witness("after"), h.witness("before"), h.witness("pause"), h.witness("fill")))
			if err == nil {
				return nil
			}
		}
		return fmt.Errorf("write to the store after the fault: %w", err)
	})
}

// whoAnswers is the server's run id within askWithin.
func whoAnswers(ctx context.Context, c stores.Outside) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return c.Who(ctx)
}
