package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// keepWatching calls watch, which returns when it breaks, until ctx ends. It tells heard of each break, and of each time that the watch
// stands, as watch says.
func keepWatching(ctx context.Context, watch func(stands func()) error, heard func(error)) {
	pauses := pausesOfWatches()
	for ctx.Err() == nil {
		err := watch(func() {
			pauses = pausesOfWatches()
			heard(nil)
		})
		if ctx.Err() != nil {
			return
		}
		heard(err)
		select {
		case <-time.After(pauses.Step()):
		case <-ctx.Done():
		}
	}
}

// pausesOfWatches are those between a watch that broke and the next: short at first, since what is not watched is a gap, and growing
// by half while all fail, so that they make no break much longer than it was; with jitter, since an API server that was away has lost
// the watches of many.
func pausesOfWatches() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Cap: 2 * time.Second, Steps: 100}
}
