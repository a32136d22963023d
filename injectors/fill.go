package injectors

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
)

// filled is the memory of a store that is full, whatever it holds.
var filled = undo.Memory{Max: "1", Policy: "noeviction"}

const maxMemory, evictionPolicy = "maxmemory", "maxmemory-policy"

// memoryOf is what a Redis may use, as it is configured now.
func memoryOf(ctx context.Context, c *redis.Client) (*undo.Memory, error) {
	m := &undo.Memory{}
	for name, value := range map[string]*string{maxMemory: &m.Max, evictionPolicy: &m.Policy} {
		got, err := c.ConfigGet(ctx, name).Result()
		if *value = got[name]; err != nil || *value == "" {
			return nil, &voidError{history.NoTarget, fmt.Sprintf("the store does not say its %s: %v", name, err)}
		}
	}
	return m, nil
}

// fill lets nothing be evicted first: a full store would evict locks.
func fill(ctx context.Context, c *redis.Client) error {
	if err := c.ConfigSet(ctx, evictionPolicy, filled.Policy).Err(); err != nil {
		return err
	}
	return c.ConfigSet(ctx, maxMemory, filled.Max).Err()
}

// emptied gives a full store what it had, the memory first, and reads that it has it. What is not as the fault set it is somebody else's
// by now, and stays.
func emptied(ctx context.Context, c *redis.Client, had undo.Memory) error {
	now, err := memoryOf(ctx, c)
	if err != nil {
		return err
	}
	if now.Max != filled.Max {
		had.Max = now.Max
	}
	if now.Policy != filled.Policy {
		had.Policy = now.Policy
	}
	if err := c.ConfigSet(ctx, maxMemory, had.Max).Err(); err != nil {
		return err
	}
	if err := c.ConfigSet(ctx, evictionPolicy, had.Policy).Err(); err != nil {
		return err
	}
	if now, err = memoryOf(ctx, c); err == nil && *now != had {
		err = fmt.Errorf("it has %s with policy %s, and had %s with %s", now.Max, now.Policy, had.Max, had.Policy)
	}
	return err
}

// confirmFull sees that a write is refused for want of memory until the time is up.
func (s *Store) confirmFull(ctx context.Context, r undo.Record, applied history.Span, lasts time.Duration) (history.Span, history.Fault, error) {
	c, err := s.Open(*r.Store)
	if err != nil {
		return applied, history.Fault{}, err
	}
	defer c.Close()
	return s.watchGone(ctx, applied, lasts, func(within time.Duration) error {
		if err := c.Put(ctx, s.witness(r, "fill"), lasts); !redis.IsOOMError(err) && ctx.Err() == nil {
			return fmt.Errorf("a write to the full store was not refused after %s of %s: %v", within, lasts, err)
		}
		return nil
	})
}
