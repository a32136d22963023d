package injectors

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/poll"
)

// Server is the locks' store as something that suffers. Each call waits until it is done.
type Server interface {
	Where() undo.Store
	Process() *undo.Process // nil = the run started none
	Kill(ctx context.Context) error
	Start(ctx context.Context, keep bool) error // one that runs goes on
	Flush(ctx context.Context) error
	Cut(ctx context.Context) error      // the standby follows no longer
	FailOver(ctx context.Context) error // kills the server; the standby takes its address
}

// Leading is a Server of several servers, one of which leads the others. Which that is, it is asked anew each time.
type Leading interface {
	Server
	Leader(ctx context.Context) (*undo.Process, error)
	KillServer(ctx context.Context, p undo.Process) error // Start starts it again
}

// Outside is the locks' store over a connection of its own, as whoever looks at it from outside sees it.
type Outside interface {
	// Who is the server's id, which a restart changes; "" = it answers and does not tell. Of several servers, their ids together.
	Who(ctx context.Context) (string, error)
	Put(ctx context.Context, key string, ttl time.Duration) error // 0 = for good
	There(ctx context.Context, key string) (bool, error)
	Drop(ctx context.Context, keys ...string) error
	Close() error
}

// Outsider opens one.
type Outsider func(undo.Store) (Outside, error)

// redisOutside is a Redis from outside.
type redisOutside struct{ *redis.Client }

func (c redisOutside) Who(ctx context.Context) (string, error) {
	return told(ctx, c.Client, "server", "run_id")
}

func (c redisOutside) Put(ctx context.Context, key string, ttl time.Duration) error {
	return c.Set(ctx, key, "1", ttl).Err()
}

func (c redisOutside) There(ctx context.Context, key string) (bool, error) {
	n, err := c.Exists(ctx, key).Result()
	return n == 1, err
}

func (c redisOutside) Drop(ctx context.Context, keys ...string) error {
	return c.Del(ctx, keys...).Err()
}

// RedisFromOutside is an Outsider of stores that open dials.
func RedisFromOutside(open func(undo.Store) (*redis.Client, error)) Outsider {
	return func(w undo.Store) (Outside, error) {
		c, err := open(w)
		return redisOutside{c}, err
	}
}

// Store is a fault of the locks' store itself. Whatever is done to it is seen over connections of its own, from outside.
type Store struct {
	Server Server // nil in a process that only reverts
	Open   Outsider
	Fault  func(id string) fault.Store
	Prefix string // of every key of the run: witnesses are written below it
	Clock  func() int64
}

const (
	askWithin  = 500 * time.Millisecond // for one question to the store
	backWithin = 2 * time.Second        // until a store that another fault restarts takes writes again
	downEvery  = 20 * time.Millisecond  // how often a stopped server is looked for
)

// Prepare says what the store is now, and whether the fault can befall it at all.
func (s *Store) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	where := s.Server.Where()
	c, err := s.Open(where)
	if err != nil {
		return undo.Record{}, err
	}
	defer c.Close()
	if where.RunID, err = whoAnswers(ctx, c); err != nil {
		return undo.Record{}, &voidError{history.NoTarget, fmt.Sprintf("the store does not answer: %v", err)}
	}
	r := undo.Record{Store: &where}
	switch fault.Do(shot.Fault.Form) {
	case fault.StoreFill:
		where.Memory, err = memoryOf(ctx, clientOf(c))
		return r, err
	case fault.StoreFreeze:
		r.Process = s.Server.Process()
	case fault.StoreFreezeLeader, fault.StoreStopLeader:
		leading, ok := s.Server.(Leading)
		if !ok {
			return r, &voidError{history.NoTarget, "no server of the store leads others"}
		}
		if r.Process, err = leading.Leader(ctx); err != nil {
			return r, &voidError{history.NoTarget, fmt.Sprintf("no server of the store says that it leads: %v", err)}
		}
	default:
		return r, nil
	}
	if r.Process == nil {
		return r, &voidError{history.NoTarget, "the store is no process of this run"}
	}
	return r, nil
}

// Inject does it. The bracket is that in which the store was struck; of restart and failover, until it answered again.
func (s *Store) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(s.Clock())
	c, err := s.Open(*r.Store)
	if err != nil {
		return span, err
	}
	defer c.Close()
	f := s.Fault(r.Shot.Fault.ID)
	if f.Do == fault.StoreFlush || f.Do == fault.StoreRestart || f.Do == fault.StoreFailover {
		if err := c.Put(ctx, s.witness(r, "before"), 0); err != nil {
			return span, fmt.Errorf("write witness: %w", err)
		}
	}
	span = history.At(s.Clock())
	switch f.Do {
	case fault.StorePause: // writes only: CLIENT UNPAUSE itself would wait for the end of a pause of everything
		err = clientOf(c).Do(ctx, "CLIENT", "PAUSE", time.Duration(r.Shot.Fault.Declared).Milliseconds(), "WRITE").Err()
	case fault.StoreFill:
		err = fill(ctx, clientOf(c))
	case fault.StoreStopLeader:
		err = s.Server.(Leading).KillServer(ctx, *r.Process)
	case fault.StoreFreeze, fault.StoreFreezeLeader:
		err = signal(*r.Process, syscall.SIGSTOP)
	case fault.StoreRestart:
		err = errors.Join(s.Server.Kill(ctx), s.Server.Start(ctx, f.Keep))
	case fault.StoreStop:
		err = s.Server.Kill(ctx)
	case fault.StoreFlush:
		err = s.Server.Flush(ctx)
	case fault.StoreFailover:
		span, err = s.failOver(ctx, clientOf(c), r, f.Lag)
	default:
		err = fmt.Errorf("%q is unknown", f.Do)
	}
	span.To = s.Clock()
	if errors.Is(err, errGone) {
		return span, &voidError{history.Moved, "the store's process is gone"}
	}
	if err != nil {
		return span, fmt.Errorf("%s store: %w", f.Do, err)
	}
	return span, nil
}

// clientOf is the client of a Redis: only such a store is paused, and fails over.
func clientOf(c Outside) *redis.Client { return c.(redisOutside).Client }

// failOver cuts the standby off, lets what is then written pile up for lag, and kills the server. The span begins at the kill.
func (s *Store) failOver(ctx context.Context, c *redis.Client, r undo.Record, lag time.Duration) (history.Span, error) {
	none := history.At(s.Clock())
	if n, err := c.Wait(ctx, 1, askWithin).Result(); err != nil || n < 1 {
		return none, fmt.Errorf("the standby is not in step: %w", errors.Join(err, ctx.Err()))
	}
	if err := s.Server.Cut(ctx); err != nil {
		return none, err
	}
	if err := c.Set(ctx, s.witness(r, "lost"), "1", 0).Err(); err != nil {
		return none, fmt.Errorf("write witness: %w", err)
	}
	pile := time.NewTimer(lag)
	defer pile.Stop()
	select {
	case <-pile.C:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	span := history.At(s.Clock())
	return span, s.Server.FailOver(ctx)
}

// witness is a key that the fault destroys, or must not destroy.
func (s *Store) witness(r undo.Record, what string) string {
	return s.Prefix + "witness:" + r.Shot.Op + ":" + what
}

// Confirm reads back what has become of the store.
func (s *Store) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	lasts := time.Duration(r.Shot.Fault.Declared)
	switch f := s.Fault(r.Shot.Fault.ID); f.Do {
	case fault.StorePause:
		return s.confirmPause(ctx, r, applied, lasts)
	case fault.StoreFill:
		return s.confirmFull(ctx, r, applied, lasts)
	case fault.StoreStopLeader:
		return s.confirmDead(ctx, r, applied, lasts)
	case fault.StoreFreeze, fault.StoreFreezeLeader:
		return watchStop(ctx, *r.Process, applied, lasts, s.Clock)
	case fault.StoreStop:
		return s.confirmDown(ctx, r, applied, lasts)
	case fault.StoreRestart:
		return s.confirmLife(ctx, r, applied, true, map[string]bool{"before": f.Keep})
	case fault.StoreFailover:
		return s.confirmLife(ctx, r, applied, true, map[string]bool{"before": true, "lost": false})
	default:
		return s.confirmLife(ctx, r, applied, false, map[string]bool{"before": false})
	}
}

// confirmPause asks for a write at once and sees how long it is kept waiting.
func (s *Store) confirmPause(ctx context.Context, r undo.Record, applied history.Span, lasts time.Duration) (history.Span, history.Fault, error) {
	c, err := s.Open(*r.Store)
	if err != nil {
		return applied, history.Fault{}, err
	}
	defer c.Close()
	waiting, cancel := context.WithDeadline(ctx, time.Now().Add(time.Duration(applied.To-s.Clock())+lasts))
	defer cancel()
	// The client looks at deadlines only: where the run ends early, nothing but a closed connection ends the wait.
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	patient := clientOf(c).WithTimeout(lasts + askWithin)
	sent := s.Clock()
	err = patient.Set(waiting, s.witness(r, "pause"), "1", lasts+askWithin).Err()
	window := history.Span{From: applied.To, To: s.Clock()}
	// What comes after the pause's end is this machine's own lateness.
	seen := history.Fault{Expected: int64(lasts), Observed: max(0, min(window.To, applied.To+int64(lasts))-sent)}
	var timedOut net.Error // the connection's deadline is the context's, and either may be noticed first
	switch unanswered := waiting.Err() != nil || errors.As(err, &timedOut) && timedOut.Timeout(); {
	case err != nil && !unanswered:
		return window, seen, &voidError{history.Unconfirmed, fmt.Sprintf("a write to the paused store failed: %v", err)}
	case window.Width() < int64(lasts)*9/10 && ctx.Err() == nil:
		return window, seen, &voidError{history.Unconfirmed, fmt.Sprintf("a write to the paused store was answered after %s of %s", time.Duration(window.Width()), lasts)}
	case seen.Observed < int64(lasts)/2 && ctx.Err() == nil: // the pause was there at its end, and hardly seen
		return window, seen, &voidError{history.Unconfirmed, fmt.Sprintf("the write that shows the pause was sent only after %s of %s: this machine is busy", time.Duration(sent-applied.To), lasts)}
	}
	seen.Hits = 1
	return window, seen, nil
}

// confirmDown sees that nobody listens at the store's address for as long as it is stopped.
func (s *Store) confirmDown(ctx context.Context, r undo.Record, applied history.Span, lasts time.Duration) (history.Span, history.Fault, error) {
	c, err := s.Open(*r.Store)
	if err != nil {
		return applied, history.Fault{}, err
	}
	defer c.Close()
	return s.watchGone(ctx, applied, lasts, func(within time.Duration) error {
		if _, err := whoAnswers(ctx, c); err == nil {
			return fmt.Errorf("the stopped store answered after %s of %s", within, lasts)
		}
		return nil
	})
}

// confirmDead sees that the process is gone for as long as it is stopped, and nobody has started it again.
func (s *Store) confirmDead(ctx context.Context, r undo.Record, applied history.Span, lasts time.Duration) (history.Span, history.Fault, error) {
	return s.watchGone(ctx, applied, lasts, func(within time.Duration) error {
		if err := signal(*r.Process, 0); !errors.Is(err, errGone) {
			return fmt.Errorf("the store's leader was there after %s of %s: %v", within, lasts, err)
		}
		return nil
	})
}

// watchGone looks for what is stopped until its time is up. there is the error that it was found with, within so long.
func (s *Store) watchGone(ctx context.Context, applied history.Span, lasts time.Duration, there func(within time.Duration) error) (history.Span, history.Fault, error) {
	window, seen := history.At(applied.To), history.Fault{Expected: int64(lasts)}
	for range poll.Every(ctx, downEvery) {
		looked := s.Clock()
		if err := there(time.Duration(window.Width())); err != nil {
			return window, seen, &voidError{history.Unconfirmed, err.Error()}
		}
		if ctx.Err() == nil { // else the look was cut short
			window.To = looked
			seen.Hits, seen.Observed = 1, window.Width()
		}
		if looked >= applied.To+int64(lasts) {
			break
		}
	}
	if seen.Hits == 0 { // the run ended before anybody looked
		return window, seen, ctx.Err()
	}
	return window, seen, nil
}

// confirmLife reads the run id, which a new process changes, and the witnesses, which lived or died.
func (s *Store) confirmLife(ctx context.Context, r undo.Record, applied history.Span, changed bool, lives map[string]bool) (history.Span, history.Fault, error) {
	c, err := s.Open(*r.Store)
	if err != nil {
		return applied, history.Fault{}, err
	}
	defer c.Close()
	var seen history.Fault
	now, err := whoAnswers(ctx, c)
	if err != nil {
		return applied, seen, &voidError{history.Unconfirmed, fmt.Sprintf("the store does not answer after the fault: %v", err)}
	}
	if now != "" && r.Store.RunID != "" && (now != r.Store.RunID) != changed {
		return applied, seen, &voidError{history.Unconfirmed, fmt.Sprintf("the store's run id was %s and is %s", r.Store.RunID, now)}
	}
	for what, want := range lives {
		there, err := c.There(ctx, s.witness(r, what))
		if err != nil {
			return applied, seen, &voidError{history.Unconfirmed, fmt.Sprintf("the witness %q cannot be looked for: %v", what, err)}
		}
		if there != want {
			text := map[bool]string{true: "is still there", false: "is gone"}[there]
			return applied, seen, &voidError{history.Unconfirmed, fmt.Sprintf("the witness %q that was written before the fault %s", what, text)}
		}
	}
	if c, ok := c.(redisOutside); ok {
		role, err := told(ctx, c.Client, "replication", "role")
		if err != nil || role != "" && role != "master" {
			return applied, seen, &voidError{history.Unconfirmed, fmt.Sprintf("the store's role is %q: %v", role, err)}
		}
	}
	seen.Hits = 1
	if changed { // for so long nobody answered
		seen.Observed = applied.Width()
	}
	return history.Span{From: applied.From, To: s.Clock()}, seen, nil
}

// Revert ends what goes on, and reads back that the store answers and takes writes. In another process the runner is dead: a server
// of its own died with it, and has nothing to be started for.
func (s *Store) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(s.Clock())
	form := fault.Do(r.Shot.Fault.Form)
	switch {
	case form == fault.StoreFreeze, form == fault.StoreFreezeLeader:
		return resumed(ctx, r.Process, s.Clock)
	case s.Server == nil && (form != fault.StorePause && form != fault.StoreFill || r.Store.Owned):
		return span, nil
	case s.Server != nil && form != fault.StorePause && form != fault.StoreFill:
		if err := s.Server.Start(ctx, s.Fault(r.Shot.Fault.ID).Keep); err != nil {
			return span, fmt.Errorf("start store: %w", err)
		}
	}
	c, err := s.Open(*r.Store)
	if err != nil {
		return span, err
	}
	defer c.Close()
	if form == fault.StorePause {
		if err := clientOf(c).Do(ctx, "CLIENT", "UNPAUSE").Err(); err != nil {
			return span, fmt.Errorf("end the pause: %w", err)
		}
	}
	if form == fault.StoreFill && r.Store.Memory != nil {
		if err := emptied(ctx, clientOf(c), *r.Store.Memory); err != nil {
			return span, fmt.Errorf("give the store its memory back: %w", err)
		}
	}
	if err := s.takesWrites(ctx, c, r); err != nil {
		return span, fmt.Errorf("write to the store after the fault: %w", err)
	}
	span.To = s.Clock()
	return span, nil
}

// takesWrites reports why the store takes no writes. Another fault may just restart it: it is asked for backWithin.
func (s *Store) takesWrites(ctx context.Context, c Outside, r undo.Record) error {
	witness := s.witness(r, "after")
	within, cancel := context.WithTimeout(ctx, backWithin)
	defer cancel()
	var err error
	for range poll.Every(within, watchEvery) {
		err = errors.Join(c.Put(ctx, witness, time.Minute), c.Drop(ctx, witness, s.witness(r, "before"), s.witness(r, "pause"), s.witness(r, "fill")))
		if err == nil {
			return nil
		}
	}
	return err
}

// whoAnswers is the server's run id within askWithin.
func whoAnswers(ctx context.Context, c Outside) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return c.Who(ctx)
}

// told is a field of a section of INFO; "" = the server answers and does not tell it, as the embedded one.
func told(ctx context.Context, c *redis.Client, section, field string) (string, error) {
	if err := c.Ping(ctx).Err(); err != nil {
		return "", err
	}
	text, err := c.Info(ctx, section).Result()
	if err != nil && strings.Contains(err.Error(), "not supported") {
		return "", nil
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", err
}
