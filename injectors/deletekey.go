package injectors

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/lockcore"
)

// DeleteKey takes the key of a held lock from its holder: it vanishes, or carries a stranger's token for a while. The lock's fence
// is left as it is: whoever takes the lock next gets a higher one.
type DeleteKey struct {
	Open   func(undo.Store) (*redis.Client, error)
	Where  func() undo.Store // the locks' store
	Prefix string            // of every lock's key
	Clock  func() int64
}

// FormStranger is the form in which the key is given to a stranger.
const FormStranger = "stranger"

// Prepare looks whether the key still carries the victim's token, and chooses the stranger's.
func (d *DeleteKey) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	where := d.Where()
	r := undo.Record{Store: &where, Key: &undo.Key{Name: d.Prefix + shot.Key, Epoch: shot.Epoch}}
	if shot.Fault.Form == FormStranger {
		r.Key.Token, r.Key.TTL = newToken(), time.Duration(shot.Fault.Declared)
	}
	c, err := d.Open(where)
	if err != nil {
		return r, err
	}
	defer c.Close()
	_, err = holding(ctx, c, r.Key)
	return r, err
}

// newToken is one as locks have them, which nobody knows.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// holding is the victim's token, as long as the key carries it.
func holding(ctx context.Context, c *redis.Client, k *undo.Key) (token string, err error) {
	token, err = c.Get(ctx, k.Name).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", &voidError{history.Moved, "the lock key was free when it was to be taken away"}
	case err != nil:
		return "", fmt.Errorf("read lock key: %w", err)
	case lockcore.Fingerprint(token) != k.Epoch:
		return "", &voidError{history.Moved, fmt.Sprintf("the lock key carried %s when it was to be taken from %s", lockcore.Fingerprint(token), k.Epoch)}
	}
	return token, nil
}

// takeAway changes the key only while it carries the token that was read.
// KEYS: lock.  ARGV: the holder's token, the stranger's token (” = delete), ttl in ms.
const takeAway = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

// Inject deletes the key, or writes the stranger's token into it; the bracket is that of the call that did it.
func (d *DeleteKey) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	c, err := d.Open(*r.Store)
	if err != nil {
		return history.At(d.Clock()), err
	}
	defer c.Close()
	token, err := holding(ctx, c, r.Key)
	if err != nil {
		return history.At(d.Clock()), err
	}
	span := history.At(d.Clock())
	done, err := c.Eval(ctx, takeAway, []string{r.Key.Name}, token, r.Key.Token, max(r.Key.TTL.Milliseconds(), 1)).Int()
	span.To = d.Clock()
	switch {
	case err != nil:
		return span, fmt.Errorf("take lock key away: %w", err)
	case done == 0:
		return span, &voidError{history.Moved, "the lock was given up while its key was to be taken away"}
	}
	return span, nil
}

// Confirm reads back that the key no longer carries the victim's token, or that it carries the stranger's.
func (d *DeleteKey) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	c, err := d.Open(*r.Store)
	if err != nil {
		return applied, history.Fault{}, err
	}
	defer c.Close()
	token, err := c.Get(ctx, r.Key.Name).Result()
	window := history.Span{From: applied.From, To: d.Clock()}
	switch free := errors.Is(err, redis.Nil); {
	case err != nil && !free:
		return window, history.Fault{}, fmt.Errorf("read lock key: %w", err)
	case r.Key.Token != "" && token != r.Key.Token:
		return window, history.Fault{}, &voidError{history.Unconfirmed, "the lock key does not carry the stranger's token"}
	case lockcore.Fingerprint(token) == r.Key.Epoch:
		return window, history.Fault{}, &voidError{history.Unconfirmed, "the lock key still carries the victim's token"}
	}
	return window, history.Fault{Hits: 1}, nil
}

// Revert removes the stranger's token, if the key still carries it, and reads that back. A key that vanished is not put back: the
// lock is free, as after an expiry. A store that cannot be reached is asked again as long as ctx lasts: another fault may hold it.
func (d *DeleteKey) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(d.Clock())
	if r.Key == nil || r.Key.Token == "" {
		return span, nil
	}
	c, err := d.Open(*r.Store)
	if err != nil {
		return span, err
	}
	defer c.Close()
	for range poll.Every(ctx, askAgain) {
		err = takeOut(ctx, c, r.Key)
		span.To = d.Clock()
		if err == nil || d.Where == nil && r.Store.Owned && refused(ctx, r.Store.Addr) { // a server of a dead runner is gone with it
			return span, nil
		}
	}
	return span, err
}

// askAgain is how often a store that does not answer is asked again.
const askAgain = 100 * time.Millisecond

// takeOut removes the stranger's token and reads that back.
func takeOut(ctx context.Context, c *redis.Client, k *undo.Key) error {
	if err := c.Eval(ctx, takeAway, []string{k.Name}, k.Token, "", 1).Err(); err != nil {
		return fmt.Errorf("take the stranger's token out: %w", err)
	}
	switch token, err := c.Get(ctx, k.Name).Result(); {
	case err != nil && !errors.Is(err, redis.Nil):
		return fmt.Errorf("read lock key: %w", err)
	case token == k.Token:
		return errors.New("the lock key still carries the stranger's token")
	}
	return nil
}

// refused reports whether nobody listens at addr.
func refused(ctx context.Context, addr string) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, endpoint.Network(addr), addr)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
