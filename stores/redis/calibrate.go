package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores"
)

const (
	calibrateLimit = 900 * time.Millisecond
	slowLimit      = 6 * time.Second // of a store whose leases are whole seconds
	pings          = 400
	timers         = 60
	timerLength    = 2 * time.Millisecond
	calibrated     = 20
	expiryTTL      = 15 * time.Millisecond
)

// Calibrate measures what no time scale shrinks: the round trip to the locks' store, the lateness of timers in this process,
// and the lateness of expiry at the store (an upper bound: a round trip and the polling are in it). It takes less than a
// second in a Redis, and a few where leases are whole seconds; Start is left to the caller.
func (s *Stores) Calibrate(ctx context.Context) (history.Calibration, error) {
	limit := calibrateLimit
	if s.Locks == nil {
		limit = slowLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var c history.Calibration
	trips, err := roundTrips(ctx, s.Held)
	if err != nil {
		return c, fmt.Errorf("measure round trip: %w", err)
	}
	var late time.Duration
	if store, ends := s.Held.(stores.Expiring); ends {
		if late, err = store.ExpiryLateness(ctx); err != nil {
			return c, fmt.Errorf("measure expiry: %w", err)
		}
	}
	c.RTT50, c.RTT99 = int64(quantile(trips, 0.50)), int64(quantile(trips, 0.99))
	late99, _ := TimerLateness()
	c.Timer99 = int64(late99)
	c.Expiry = int64(late)
	return c, nil
}

// RoundTrip implements stores.Store.
func (s *Store) RoundTrip(ctx context.Context) error { return s.client.Exists(ctx, s.marker()).Err() }

func roundTrips(ctx context.Context, s stores.Store) ([]time.Duration, error) {
	trips := make([]time.Duration, 0, pings)
	for end := time.Now().Add(calibrateLimit / 4); len(trips) < pings && time.Now().Before(end); {
		sent := time.Now()
		if err := s.RoundTrip(ctx); err != nil {
			return nil, err
		}
		trips = append(trips, time.Since(sent))
	}
	return trips, nil
}

// ExpiryLateness sets keys that expire one after the other and polls each until it is gone.
func (s *Store) ExpiryLateness(ctx context.Context) (worst time.Duration, err error) {
	due := make([]time.Time, calibrated)
	key := func(i int) string { return s.Prefix + "calibrate:" + strconv.Itoa(i) }
	for i := range due {
		ttl := expiryTTL + time.Duration(i)*3*time.Millisecond
		due[i] = time.Now().Add(ttl)
		if err := s.client.Set(ctx, key(i), "1", ttl).Err(); err != nil {
			return 0, err
		}
	}
	for i := range due {
		for {
			n, err := s.client.Exists(ctx, key(i)).Result()
			if err != nil {
				return 0, err
			}
			if n == 0 {
				break
			}
		}
		worst = max(worst, time.Since(due[i]))
	}
	return worst, nil
}

// TimerLateness is by how much timers are late in this process: at p99, and at p10, which is the machine at its best however busy it is.
// It takes an eighth of a second and touches nothing.
func TimerLateness() (p99, p10 time.Duration) {
	late := make([]time.Duration, timers)
	for i := range late {
		due := time.Now().Add(timerLength)
		<-time.After(timerLength)
		late[i] = time.Since(due)
	}
	return quantile(late, 0.99), quantile(late, 0.10)
}

// quantile is the smallest value that is not below a share p of all.
func quantile(values []time.Duration, p float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
