package redis

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// chirps are the canaries of one server: numbers that are written to a key of the run's own. They are written beside the looks, since a
// server that takes no writes for a while is looked at all the same.
type chirps struct {
	number int64 // of the last one
	at     int64 // when that was sent

	mu   sync.Mutex
	busy bool
	done int64           // the last one that was answered
	err  error           // why the server will not have it
	sent map[int64]chirp // by number; of those from the last on that was asked for
}

// chirp is one canary: when it was sent, and how many had been told of by then.
type chirp struct{ at, told int64 }

// chirp writes a canary when it is time to.
func (n *node) chirp() {
	c, now, every := &n.chirps, n.p.o.Clock(), canaryEvery
	if n.p.o.Replica != nil {
		every = replicaEvery
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy || c.at > 0 && now-c.at < int64(every) || n.canary == "" || n.events == nil && n.p.o.Replica == nil {
		return
	}
	c.number++
	c.busy, c.at, c.sent[c.number] = true, now, chirp{at: now, told: n.told()}
	n.commands++
	go c.write(n.p.o.Client, n.canary, c.number)
}

// told is how many canaries events have told of.
func (n *node) told() int64 {
	if n.events == nil {
		return 0
	}
	return n.events.canaries()
}

func (c *chirps) write(to redis.UniversalClient, key string, number int64) {
	ctx, cancel := context.WithTimeout(context.Background(), canaryTTL/2)
	defer cancel()
	err := to.Set(ctx, key, number, canaryTTL).Err()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	switch {
	case err == nil:
		c.done = number
	case refused(err): // where it does not answer, looks show that
		c.err = err
	}
}

// answered is the last canary that surely is written; an error says that the server will not have it.
func (c *chirps) answered() (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done, c.err
}

// of is the canary of that number, and forgets those before it; the zero chirp: it is none of these.
func (c *chirps) of(number int64) chirp {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.sent[number]
	for other := range c.sent {
		if known && other < number {
			delete(c.sent, other)
		}
	}
	return found
}

// refused reports a server that will not do something for us, as against one that cannot now.
func refused(err error) bool {
	said := redis.Error(nil)
	if !errors.As(err, &said) {
		return false
	}
	for _, passing := range []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN"} {
		if strings.HasPrefix(said.Error(), passing) {
			return false
		}
	}
	return true
}
