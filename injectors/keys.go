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

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/stores"
)

// The key of a held lock is taken from its holder: it vanishes, or carries a stranger's token for a while. The lock's fence is left as it is:
// whoever takes the lock next gets a higher one. A store that names holders itself is told to end the one that has it.

// FormStranger is the form in which the key is given to a stranger.
const FormStranger = "stranger"

var (
	vanish   = Row{Needs: locks, Find: heldKey, Do: takeKey, See: keyTaken, End: strangerOut}
	stranger = Row{Needs: locks, Find: inTurn(heldKey, strangersKey), Do: takeKey, See: keyTaken, End: strangerOut}
	// A key that its holder's name goes with, and the session that a lock belongs to, are not put back.
	heldEnds = Row{Needs: can[stores.Holders], Find: holder, Do: endHolder, See: holderGone, End: strangerOut}
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
	token, err = tokenIn(ctx, c, k)
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

// held is what a key carries, as looks see it: a text, or the names of a hash's fields, as Redisson has them.
const held = `local hash, token = false, redis.pcall('GET', KEYS[1])
if type(token) == 'table' then
  if not string.find(token.err, 'WRONGTYPE', 1, true) then return token end
  hash, token = true, redis.call('HKEYS', KEYS[1])
  table.sort(token)
  token = table.concat(token, '\n')
end
`

// tokenIn is the token that the key carries, or redis.Nil.
func tokenIn(ctx context.Context, c *redis.Client, k *undo.Key) (string, error) {
	return c.Eval(ctx, held+"return token", []string{k.Name}).Text()
}

// takeAway changes the key only while it carries the token that was read.
// KEYS: lock.  ARGV: the holder's token, the stranger's token (” = delete), ttl in ms.
const takeAway = held + `if token ~= ARGV[1] then return 0 end
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
if hash then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
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
		token, err := tokenIn(ctx, c, k)
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
	switch token, err := tokenIn(ctx, c, k); {
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

const (
	holderEnds  = 5 * time.Second // until a holder is gone that was told to end
	holderEvery = 5 * time.Millisecond
)

// holder finds the one of this moment: it must be the one that the shot is aimed at.
func holder(ctx context.Context, h *Hit) error {
	aimed := h.Rec.Shot.Epoch
	name, epoch, token, err := h.Store.(stores.Holders).Holder(ctx, h.Keys+h.Rec.Shot.Key)
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
	none, err := h.Store.(stores.Holders).End(ctx, h.Rec.Key.Name, h.Rec.Key.Epoch)
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
		alive, err := h.Store.(stores.Holders).Lives(ctx, h.Rec.Key.Name, h.Rec.Key.Epoch)
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
