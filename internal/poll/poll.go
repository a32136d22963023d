// Package poll asks again and again. It knows neither what is asked nor whom.
package poll

import (
	"context"
	"time"
)

// Every is a loop that goes round at once, whatever ctx says, and then each time that an interval is over, until ctx ends:
//
//	for range poll.Every(ctx, askAgain) {
//		if answered() {
//			return nil
//		}
//	}
//	return ctx.Err()
func Every(ctx context.Context, interval time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for yield() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}
