package kube

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A watch that breaks is tried again soon, and while that fails less and less often; one that stood is tried again soon.
func TestPausesBetweenWatches(t *testing.T) {
	const ms = time.Millisecond
	wants := []time.Duration{100 * ms, 150 * ms, 225 * ms, 337 * ms, 506 * ms, 759 * ms, 1139 * ms, 1708 * ms, 2000 * ms, 2000 * ms, 100 * ms, 150 * ms}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var tried []time.Time
		stood, broke := 0, 0
		keepWatching(ctx, func(stands func()) error {
			switch tried = append(tried, time.Now()); len(tried) {
			case slices.Index(wants[1:], wants[0]) + 2:
				stands()
			case len(wants) + 1:
				stop()
			}
			return errors.New("away")
		}, func(err error) {
			if err == nil {
				stood++
			} else {
				broke++
			}
		})
		if len(tried) != len(wants)+1 || stood != 1 || broke != len(wants) {
			t.Fatalf("%d tries, stood %d times, broke %d times", len(tried), stood, broke)
		}
		exact := true
		for i, want := range wants {
			got := tried[i+1].Sub(tried[i])
			if got < want || got > want*12/10+ms {
				t.Errorf("pause %d is %v, want %v and up to a fifth more", i+1, got, want)
			}
			exact = exact && got.Truncate(ms) == want
		}
		if exact {
			t.Error("there is no jitter")
		}
	})
}
