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
	"github.com/lockdrill/lockdrill/internal/postgres"
	"github.com/lockdrill/lockdrill/lockcore"
)

// The key of a held lock is taken from its holder: it vanishes, or carries a stranger's token for a while. The lock's fence is left as it is:
// whoever takes the lock next gets a higher one. A store that names holders itself is told to end the one that has it.

// FormStranger is the form in which the key is given to a stranger.
const FormStranger = "stranger"

var (
	vanish   = Row{Needs: locks, Find: heldKey, Do: takeKey, See: keyTaken, End: strangerOut}
	stranger = Row{Needs: locks, Find: inTurn(heldKey, strangersKey), Do: takeKey, See: keyTaken, End: strangerOut}
	// A key that its holder's name goes with, and the session that a lock belongs to, are not put back.
	heldEnds    = Row{Needs: func(h *Hit) bool { _, named := h.Store.(held); return named }, Find: keyHolder, Do: endHolder, See: holderGone, End: strangerOut}
	sessionEnds = Row{Needs: func(h *Hit) bool { _, has := h.Store.(withSessions); return has }, Find: sessionHolder, Do: endHolder, See: holderGone, End: strangerOut}
)

// heldKey looks whether the key still carries the victim's token.
func heldKey(ctx context.Context, h *Hit) error {
	where := h.Store.Where()
	h.Rec.Store, h.Rec.Key = &where, &undo.Key{Name: h.Keys + h.Rec.Shot.Key, Epoch: h.Rec.Shot.Epoch}
	return h.overRedis(func(c *redis.Client) error { _, err := holding(ctx, c, h.Rec.Key); return err })
}

// strangersKey chooses a token as locks have them, which nobody knows.
func strangersKey(_ context.Context, h *Hit) error {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	h.Rec.Key.Token, h.Rec.Key.TTL = hex.EncodeToString(b[:]), h.lasts()
	return nil
}

// holding is the victim's token, as long as the key carries it.
func holding(ctx context.Context, c *redis.Client, k *undo.Key) (token string, err error) {
	token, err = c.Get(ctx, k.Name).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", void(history.Moved, "the lock key was free when it was to be taken away")
	case err != nil:
		return "", fmt.Errorf("read lock key: %w", err)
	case lockcore.Fingerprint(token) != k.Epoch:
		return "", void(history.Moved, "the lock key carried %s when it was to be taken from %s", lockcore.Fingerprint(token), k.Epoch)
	}
	return token, nil
}

// takeAway changes the key only while it carries the token that was read.
// KEYS: lock.  ARGV: the holder's token, the stranger's token (” = delete), ttl in ms.
const takeAway = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

// takeKey deletes the key, or writes the stranger's token into it; the bracket is that of the call that did it.
func takeKey(ctx context.Context, h *Hit) error {
	return h.overRedis(func(c *redis.Client) error {
		k := h.Rec.Key
		token, err := holding(ctx, c, k)
		if err != nil {
			return err
		}
		h.Applied = history.At(h.now())
		done, err := c.Eval(ctx, takeAway, []string{k.Name}, token, k.Token, max(k.TTL.Milliseconds(), 1)).Int()
		h.Applied.To = h.now()
		switch {
		case err != nil:
			return fmt.Errorf("take lock key away: %w", err)
		case done == 0:
			return void(history.Moved, "the lock was given up while its key was to be taken away")
		}
		return nil
	})
}

// keyTaken reads back that the key no longer carries the victim's token, or that it carries the stranger's.
func keyTaken(ctx context.Context, h *Hit) error {
	return h.overRedis(func(c *redis.Client) error {
		k := h.Rec.Key
		token, err := c.Get(ctx, k.Name).Result()
		h.Window.To = h.now()
		switch free := errors.Is(err, redis.Nil); {
		case err != nil && !free:
			return fmt.Errorf("read lock key: %w", err)
		case k.Token != "" && token != k.Token:
			return void(history.Unconfirmed, "the lock key does not carry the stranger's token")
		case lockcore.Fingerprint(token) == k.Epoch:
			return void(history.Unconfirmed, "the lock key still carries the victim's token")
		}
		h.Saw.Hits = 1
		return nil
	})
}

// askAgain is how often what does not answer is asked again.
const askAgain = 100 * time.Millisecond

// strangerOut removes the stranger's token, if the key still carries it, and reads that back. A key that vanished is not put back: the
// lock is free, as after an expiry. A store that cannot be reached is asked again as long as ctx lasts: another fault may hold it.
func strangerOut(ctx context.Context, h *Hit) error {
	if h.Rec.Key == nil || h.Rec.Key.Token == "" {
		return nil
	}
	return h.overRedis(func(c *redis.Client) (err error) {
		for range poll.Every(ctx, askAgain) {
			err = takeOut(ctx, c, h.Rec.Key)
			if err == nil || h.Store == nil && h.Rec.Store.Owned && refused(ctx, h.Rec.Store.Addr) { // a server of a dead runner is gone with it
				return nil
			}
		}
		return err
	})
}

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

func keyHolder(ctx context.Context, h *Hit) error {
	h.held = h.Store.(held)
	return h.holder(ctx, h.Keys+h.Rec.Shot.Key)
}

func sessionHolder(ctx context.Context, h *Hit) error {
	h.held = sessions{h.Store.(withSessions).Sessions()}
	return h.holder(ctx, h.Rec.Shot.Key)
}

// holder finds the one of this moment: it must be the one that the shot is aimed at.
func (h *Hit) holder(ctx context.Context, key string) error {
	aimed := h.Rec.Shot.Epoch
	name, epoch, token, err := h.held.Holder(ctx, key)
	switch {
	case err != nil:
		return void(history.NoTarget, "who holds the lock cannot be told: %v", err)
	case name == "":
		return void(history.Moved, "the lock was free when it was to be taken from its holder")
	case !h.named(aimed, epoch) && (token == "" || lockcore.Fingerprint(token) != aimed):
		return void(history.Moved, "the lock was held by %s when it was to be taken from %s", epoch, aimed)
	}
	h.Rec.Key = &undo.Key{Name: name, Epoch: epoch}
	return nil
}

// named reports whether an epoch is the one that the store names so: by its name, or by what its grant said.
func (h *Hit) named(epoch, named string) bool {
	if epoch == named {
		return true
	}
	for _, e := range h.Past() {
		if e.Kind == history.AcquireReturn && e.Epoch == epoch && e.Call.ID == named {
			return true
		}
	}
	return false
}

func endHolder(ctx context.Context, h *Hit) error {
	none, err := h.held.End(ctx, h.Rec.Key.Name, h.Rec.Key.Epoch)
	h.Applied.To = h.now()
	if err != nil {
		return fmt.Errorf("take the lock from %s: %w", h.Rec.Key.Epoch, err)
	}
	if none {
		return void(history.Moved, "the holder was gone when the lock was to be taken from it")
	}
	return nil
}

// holderGone waits until the server no longer lists it.
func holderGone(ctx context.Context, h *Hit) error {
	ctx, cancel := context.WithTimeout(ctx, holderEnds)
	defer cancel()
	why := ""
	for range poll.Every(ctx, holderEvery) {
		alive, err := h.held.Lives(ctx, h.Rec.Key.Name, h.Rec.Key.Epoch)
		h.Window.To = h.now()
		if err == nil && !alive {
			h.Saw.Hits = 1
			return nil
		}
		if why = "it is still there"; err != nil {
			why = err.Error()
		}
	}
	return void(history.Unconfirmed, "the lock was taken from %s, which was not seen to be gone: %s", h.Rec.Key.Epoch, why)
}

// sessions are the holders of a PostgreSQL: the name of a session is its epoch.
type sessions struct{ *postgres.Client }

type withSessions interface{ Sessions() *postgres.Client }

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
