package poll

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryGoesRoundAtOnceAndUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Millisecond)
		defer cancel()
		began, rounds := time.Now(), []time.Duration(nil)
		for range Every(ctx, 10*time.Millisecond) {
			rounds = append(rounds, time.Since(began))
		}
		if len(rounds) != 4 || rounds[0] != 0 || rounds[3] != 30*time.Millisecond {
			t.Errorf("rounds at %v, want one at once and then every 10 ms", rounds)
		}
		n := 0
		for range Every(ctx, time.Hour) { // it has ended
			n++
		}
		if n != 1 {
			t.Errorf("%d rounds under a context that has ended, want 1", n)
		}
	})
}
