// Package redisstore is lockcore's Store and Ledger on Redis, through go-redis and embedded scripts: Store makes each call by
// itself, Batched makes those of many goroutines together, and lets waiters stand in line.
//
// It keeps nothing about locks in memory and never retries: whether a call may be repeated is the lock machine's decision, made with the
// same token. Its one invariant: an error wraps lockcore.ErrNotSent only where the script surely changed nothing.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockdrill/lockdrill/lockcore"
)

// NewClient returns a client of the server at addr with the settings of Tune. The caller closes it.
func NewClient(addr string) *redis.Client {
	return redis.NewClient(Tune(&redis.Options{Addr: addr}))
}

// Tune sets what lock traffic needs, and returns o. go-redis's own defaults ignore a context's deadline, and repeat a command
// whose reply was lost (so that a grant is answered "held"); both are wrong for locks.
func Tune(o *redis.Options) *redis.Options {
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.ReadTimeout = callLimit
	o.WriteTimeout = callLimit
	o.PoolSize = max(o.PoolSize, 64) // one connection a call in flight; a call that waits for one eats its own timeout
	o.DisableIdentity = true         // fewer round trips before the first call on a connection
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o
}

// callLimit bounds calls whose context has no deadline.
const callLimit = 30 * time.Second

// Quiet turns off what go-redis writes to standard error by itself, a line for each refused dial: its calls return these errors
// anyway. It is global to the process, so it is for programs and not for libraries to call.
func Quiet() { redis.SetLogger(quiet{}) }

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// refusals are the error replies that Redis gives before a script has written anything: it checks for them at the start or at
// the first write.
var refusals = [...]string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "NOAUTH", "WRONGPASS", "NOPERM", "BUSY ", "NOSCRIPT",
}

// wrap names the operation, and says where the effect is surely none; everything else stays unknown.
func wrap(op string, err error) error {
	if unsent(err) {
		return fmt.Errorf("%s: %w: %w", op, lockcore.ErrNotSent, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

func unsent(err error) bool {
	var dial *net.OpError
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		return slices.ContainsFunc(refusals[:], func(p string) bool { return strings.HasPrefix(reply.Error(), p) })
	case errors.As(err, &dial):
		return dial.Op == "dial"
	}
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed)
}

// flag is a boolean as the scripts take it.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
