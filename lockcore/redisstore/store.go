package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
)

//go:embed acquire.lua
var acquireScript string

//go:embed renew.lua
var renewScript string

//go:embed release.lua
var releaseScript string

// Store is a lockcore.Store on Redis. A lock is the plain key prefix+key whose value is the token, so that anybody's GET and
// PTTL see it; its fence is kept beside it, in the same slot of a cluster.
type Store struct {
	redis                   redis.Scripter
	prefix                  string
	acquire, renew, release *redis.Script
}

// NewStore returns the locks under prefix. The client should have the settings of Tune.
func NewStore(c redis.Scripter, prefix string) *Store {
	return &Store{
		redis: c, prefix: prefix,
		acquire: redis.NewScript(acquireScript), renew: redis.NewScript(renewScript), release: redis.NewScript(releaseScript),
	}
}

// Acquire implements lockcore.Store.
func (s *Store) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	if err := callable(ctx, ttl); err != nil {
		return lockcore.Grant{}, err
	}
	lock := s.prefix + key
	reply, err := s.acquire.Run(ctx, s.redis, []string{lock, fenceKey(lock)}, token, millis(ttl), millis(fenceTTL(ttl))).Slice()
	if err != nil {
		return lockcore.Grant{}, wrap("acquire", err)
	}
	return parseAcquire(reply)
}

func parseAcquire(reply []any) (lockcore.Grant, error) {
	switch {
	case len(reply) == 4 && reply[0] == int64(1):
		var n [3]int64
		for i := range n {
			text, _ := reply[i+1].(string)
			v, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return lockcore.Grant{}, fmt.Errorf("read acquire reply %v: %w", reply, err)
			}
			n[i] = v
		}
		return lockcore.Grant{Fence: n[0], Server: time.Unix(n[1], n[2]*1000)}, nil
	case len(reply) == 3 && reply[0] == int64(0):
		holder, _ := reply[1].(string)
		pttl, _ := reply[2].(int64)
		return lockcore.Grant{}, &lockcore.HeldError{Holder: lockcore.Fingerprint(holder), PTTL: time.Duration(pttl) * time.Millisecond}
	case len(reply) == 1 && reply[0] == int64(2):
		return lockcore.Grant{}, errors.New("acquire: the key carries this token, but its fence is no longer kept")
	}
	return lockcore.Grant{}, fmt.Errorf("read acquire reply %v: unexpected shape", reply)
}

// Renew implements lockcore.Store.
func (s *Store) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	if err := callable(ctx, ttl); err != nil {
		return err
	}
	return owned("renew", s.renew.Run(ctx, s.redis, []string{s.prefix + key}, token, millis(ttl)))
}

// Release implements lockcore.Store.
func (s *Store) Release(ctx context.Context, key, token string) error {
	if err := alive(ctx); err != nil {
		return err
	}
	return owned("release", s.release.Run(ctx, s.redis, []string{s.prefix + key}, token))
}

// owned reads the reply of the scripts that compare the token first.
func owned(op string, cmd *redis.Cmd) error {
	reply, err := cmd.Result()
	if err != nil {
		return wrap(op, err)
	}
	switch r := reply.(type) {
	case int64:
		if r == 1 {
			return nil
		}
		return &lockcore.NotOwnedError{}
	case string:
		return &lockcore.NotOwnedError{Other: true, Holder: lockcore.Fingerprint(r)}
	}
	return fmt.Errorf("read %s reply %v: unexpected shape", op, reply)
}

func callable(ctx context.Context, ttl time.Duration) error {
	if err := lockcore.CheckTTL(ttl); err != nil {
		return err
	}
	return alive(ctx)
}

// alive refuses a call whose context has ended before it began.
func alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", lockcore.ErrNotSent, err)
	}
	return nil
}

// millis rounds up: a lease may be longer than what was asked for, never shorter.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// fenceTTL is how long a fence outlives its epoch's grant. It need not be kept for ever, because the server's microseconds
// take over; it must outlive the lease, so that a lost grant can be read back.
func fenceTTL(ttl time.Duration) time.Duration { return max(24*time.Hour, 10*ttl) }

// fenceKey names the fence of a lock so that both share a cluster's slot: a key without a {tag} hashes whole, hence the whole
// key becomes the tag. (A key with a closing brace outside a
// tag cannot become one; a cluster then refuses the script, CROSSSLOT.)
func fenceKey(lock string) string {
	if open := strings.IndexByte(lock, '{'); open >= 0 {
		if strings.IndexByte(lock[open+1:], '}') > 0 {
			return lock + ":fence"
		}
	}
	return "{" + lock + "}:fence"
}
