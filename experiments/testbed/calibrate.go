package testbed

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

const (
	calibrateLimit = 900 * time.Millisecond
	pings          = 400
	timers         = 60
	timerLength    = 2 * time.Millisecond
	expiries       = 20
	expiryTTL      = 15 * time.Millisecond
)

// Calibrate measures what no time scale shrinks: the round trip to the locks' store, the lateness of timers in this process,
// and the lateness of expiry at the store (an upper bound: a round trip and the polling are in it). It takes less than a
// second; Start is left to the caller.
func (s *Stores) Calibrate(ctx context.Context) (history.Calibration, error) {
	ctx, cancel := context.WithTimeout(ctx, calibrateLimit)
	defer cancel()
	var c history.Calibration
	trips, err := s.Locks.roundTrips(ctx)
	if err != nil {
		return c, fmt.Errorf("measure round trip: %w", err)
	}
	late, err := s.Locks.expiryLateness(ctx)
	if err != nil {
		return c, fmt.Errorf("measure expiry: %w", err)
	}
	c.RTT50, c.RTT99 = int64(quantile(trips, 0.50)), int64(quantile(trips, 0.99))
	late99, _ := TimerLateness()
	c.Timer99 = int64(late99)
	c.Expiry = int64(late)
	return c, nil
}

func (s *Store) roundTrips(ctx context.Context) ([]time.Duration, error) {
	trips := make([]time.Duration, 0, pings)
	for end := time.Now().Add(calibrateLimit / 4); len(trips) < pings && time.Now().Before(end); {
		sent := time.Now()
		if err := s.client.Exists(ctx, s.marker()).Err(); err != nil {
			return nil, err
		}
		trips = append(trips, time.Since(sent))
	}
	return trips, nil
}

// expiryLateness sets keys that expire one after the other and polls each until it is gone.
func (s *Store) expiryLateness(ctx context.Context) (worst time.Duration, err error) {
	due := make([]time.Time, expiries)
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
