package injectors

import (
	"context"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/postgres"
)

// Terminate ends the session that holds a lock. The lock goes with it.
type Terminate struct {
	Server *postgres.Client
	Past   func() []history.Event // all that is recorded so far
	Clock  func() int64
}

const (
	sessionEnds  = 5 * time.Second // until a session is gone that was told to end
	sessionEvery = 5 * time.Millisecond
)

// Prepare finds the victim's session: the lock's holder of this moment must be the one that the shot is aimed at.
func (t *Terminate) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	s, held, err := t.Server.HolderOf(ctx, shot.Key)
	switch {
	case err != nil:
		return undo.Record{}, &voidError{history.NoTarget, fmt.Sprintf("whose session holds the lock cannot be told: %v", err)}
	case !held:
		return undo.Record{}, &voidError{history.Moved, "the lock was free when its holder's session was to be ended"}
	case !t.is(shot.Epoch, s.ID()):
		return undo.Record{}, &voidError{history.Moved, fmt.Sprintf("the lock was held by session %s when that of %s was to be ended", s.ID(), shot.Epoch)}
	}
	return undo.Record{Key: &undo.Key{Name: shot.Key, Epoch: s.ID()}}, nil
}

// is reports whether an epoch is a session's: by its name, or by what its grant said.
func (t *Terminate) is(epoch, session string) bool {
	if epoch == session {
		return true
	}
	for _, e := range t.Past() {
		if e.Kind == history.AcquireReturn && e.Epoch == epoch && e.Call.ID == session {
			return true
		}
	}
	return false
}

// Inject tells the session to end; the bracket is that of the call.
func (t *Terminate) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(t.Clock())
	b, ok := postgres.ParseBackend(r.Key.Epoch)
	if !ok {
		return span, fmt.Errorf("end session: %q is none", r.Key.Epoch)
	}
	none, err := t.Server.Terminate(ctx, b)
	span.To = t.Clock()
	if err != nil {
		return span, fmt.Errorf("end session: %w", err)
	}
	if none {
		return span, &voidError{history.Moved, "the session was gone when it was to be ended"}
	}
	return span, nil
}

// Confirm waits until the server no longer lists the session.
func (t *Terminate) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionEnds)
	defer cancel()
	b, _ := postgres.ParseBackend(r.Key.Epoch)
	again := time.NewTicker(sessionEvery)
	defer again.Stop()
	window := history.Span{From: applied.From, To: applied.To}
	for {
		alive, err := t.Server.Lives(ctx, b)
		window.To = t.Clock()
		if err == nil && !alive {
			return window, history.Fault{Hits: 1}, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			why := "it is still there"
			if err != nil {
				why = err.Error()
			}
			return window, history.Fault{}, &voidError{history.Unconfirmed, fmt.Sprintf("session %s was told to end and was not seen to be gone: %s", r.Key.Epoch, why)}
		}
	}
}

// Revert has nothing to do: a session is not put back.
func (t *Terminate) Revert(context.Context, undo.Record) (history.Span, error) {
	return history.At(t.Clock()), nil
}

// postgresOutside is a PostgreSQL from outside. A witness is a lock of its own session: a server that was killed has none of it.
type postgresOutside struct{ *postgres.Client }

func (c postgresOutside) Who(ctx context.Context) (string, error) {
	life, err := c.Life(ctx)
	return life.Run, err
}

func (c postgresOutside) Put(ctx context.Context, key string, _ time.Duration) error {
	return c.Take(ctx, key)
}

func (c postgresOutside) There(ctx context.Context, key string) (bool, error) {
	return c.Taken(ctx, key)
}

func (c postgresOutside) Drop(ctx context.Context, _ ...string) error { return c.Free(ctx) }

// PostgresFromOutside is an Outsider of servers that open dials.
func PostgresFromOutside(open func(undo.Store) (*postgres.Client, error)) Outsider {
	return func(w undo.Store) (Outside, error) {
		c, err := open(w)
		return postgresOutside{c}, err
	}
}
