package injectors

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
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
			return nil, void(history.NoTarget, "the store does not say its %s: %v", name, err)
		}
	}
	return m, nil
}

// fill lets nothing be evicted first: a full store would evict locks.
func fill(ctx context.Context, _ *Hit, c *redis.Client) error {
	if err := c.ConfigSet(ctx, evictionPolicy, filled.Policy).Err(); err != nil {
		return err
	}
	return c.ConfigSet(ctx, maxMemory, filled.Max).Err()
}

// stillFull sees whether the store is as a fault has filled it. A pause ends by itself.
func (h *Hit) stillFull(ctx context.Context) error {
	if h.Rec.Store.Memory == nil {
		return nil
	}
	return h.overRedis(func(c *redis.Client) error {
		now, err := memoryOf(ctx, c)
		if err == nil && *now == filled {
			err = fmt.Errorf("%w: the store is full; give it its memory back, unless another run fills it now", undo.ErrStill)
		}
		return err
	})
}

// emptied gives a full store what it had, the memory first, and reads that it has it. What is not as the fault set it is somebody else's
// by now, and stays.
func emptied(ctx context.Context, c *redis.Client, s *undo.Store) error {
	if s.Memory == nil {
		return nil
	}
	had := *s.Memory
	now, err := memoryOf(ctx, c)
	if err == nil && now.Max != filled.Max {
		had.Max = now.Max
	}
	if err == nil && now.Policy != filled.Policy {
		had.Policy = now.Policy
	}
	if err == nil {
		err = c.ConfigSet(ctx, maxMemory, had.Max).Err()
	}
	if err == nil {
		err = c.ConfigSet(ctx, evictionPolicy, had.Policy).Err()
	}
	if err == nil {
		now, err = memoryOf(ctx, c)
	}
	if err == nil && *now != had {
		err = fmt.Errorf("it has %s with policy %s, and had %s with %s", now.Max, now.Policy, had.Max, had.Policy)
	}
	if err != nil {
		err = fmt.Errorf("give the store its memory back: %w", err)
	}
	return err
}
