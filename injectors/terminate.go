package injectors

import (
	"context"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/internal/postgres"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Terminate takes a lock from its holder in a store that names holders itself: it ends the session that the lock belongs to, or deletes
// the holder's key.
type Terminate struct {
	Held   held
	Prefix string                 // of every lock's key
	Past   func() []history.Event // all that is recorded so far
	Clock  func() int64
}

// held is a store's holders: name is that of a key or a session as the store knows it, epoch which one of that name it is.
type held interface {
	// Holder is who has the lock of a key; name "" = nobody. token is what the key carries, where that names the epoch as well.
	Holder(ctx context.Context, key string) (name, epoch, token string, err error)
	End(ctx context.Context, name, epoch string) (none bool, err error) // none: it was gone already
	Lives(ctx context.Context, name, epoch string) (bool, error)
}

const (
	holderEnds  = 5 * time.Second // until a holder is gone that was told to end
	holderEvery = 5 * time.Millisecond
)

// Prepare finds the holder of this moment: it must be the one that the shot is aimed at.
func (t *Terminate) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	name, epoch, token, err := t.Held.Holder(ctx, t.Prefix+shot.Key)
	switch {
	case err != nil:
		return undo.Record{}, &voidError{history.NoTarget, fmt.Sprintf("who holds the lock cannot be told: %v", err)}
	case name == "":
		return undo.Record{}, &voidError{history.Moved, "the lock was free when it was to be taken from its holder"}
	case !t.is(shot.Epoch, epoch) && (token == "" || lockcore.Fingerprint(token) != shot.Epoch):
		return undo.Record{}, &voidError{history.Moved, fmt.Sprintf("the lock was held by %s when it was to be taken from %s", epoch, shot.Epoch)}
	}
	return undo.Record{Key: &undo.Key{Name: name, Epoch: epoch}}, nil
}

// is reports whether an epoch is the one that the store names so: by its name, or by what its grant said.
func (t *Terminate) is(epoch, named string) bool {
	if epoch == named {
		return true
	}
	for _, e := range t.Past() {
		if e.Kind == history.AcquireReturn && e.Epoch == epoch && e.Call.ID == named {
			return true
		}
	}
	return false
}

// Inject ends it; the bracket is that of the call.
func (t *Terminate) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(t.Clock())
	none, err := t.Held.End(ctx, r.Key.Name, r.Key.Epoch)
	span.To = t.Clock()
	if err != nil {
		return span, fmt.Errorf("take the lock from %s: %w", r.Key.Epoch, err)
	}
	if none {
		return span, &voidError{history.Moved, "the holder was gone when the lock was to be taken from it"}
	}
	return span, nil
}

// Confirm waits until the server no longer lists it.
func (t *Terminate) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	ctx, cancel := context.WithTimeout(ctx, holderEnds)
	defer cancel()
	window, why := history.Span{From: applied.From, To: applied.To}, ""
	for range poll.Every(ctx, holderEvery) {
		alive, err := t.Held.Lives(ctx, r.Key.Name, r.Key.Epoch)
		window.To = t.Clock()
		if err == nil && !alive {
			return window, history.Fault{Hits: 1}, nil
		}
		if why = "it is still there"; err != nil {
			why = err.Error()
		}
	}
	return window, history.Fault{}, &voidError{history.Unconfirmed, fmt.Sprintf("the lock was taken from %s, which was not seen to be gone: %s", r.Key.Epoch, why)}
}

// sessions are the holders of a PostgreSQL: the name of a session is its epoch.
type sessions struct{ *postgres.Client }

func (s sessions) Holder(ctx context.Context, key string) (name, epoch, token string, err error) {
	session, is, err := s.HolderOf(ctx, key)
	if err != nil || !is {
		return "", "", "", err
	}
	return session.ID(), session.ID(), "", nil
}

func (s sessions) End(ctx context.Context, name, _ string) (none bool, err error) {
	b, ok := postgres.ParseBackend(name)
	if !ok {
		return false, fmt.Errorf("%q is no session", name)
	}
	return s.Client.Terminate(ctx, b)
}

func (s sessions) Lives(ctx context.Context, name, _ string) (bool, error) {
	b, _ := postgres.ParseBackend(name)
	return s.Client.Lives(ctx, b)
}

// Revert has nothing to do: neither a session nor a key is put back.
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
