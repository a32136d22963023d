package rehearsal

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// Many rehearses e with the seeds 1 to n, on all cores, and judges each. done, which may be nil, counts those that are finished; it is
// called from several goroutines. Where ctx ends first, what was gathered by then is returned with ctx's error.
func Many(ctx context.Context, e *experiments.Experiment, net sim.Net, n int64, done func(seeds int64)) (*analysis.Rehearsed, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	workers := int(min(int64(runtime.GOMAXPROCS(0)), n))
	parts := make([]analysis.Rehearsed, workers)
	var next, finished atomic.Int64
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			r, judger := New(e, net), analysis.NewJudger(e)
			for seed := next.Add(1); seed <= n && ctx.Err() == nil; seed = next.Add(1) {
				d, err := r.Run(ctx, seed)
				if err != nil {
					stop(err)
					return
				}
				parts[i].Add(seed, judger.Judge(d.History))
				if all := finished.Add(1); done != nil {
					done(all)
				}
			}
		})
	}
	wg.Wait()
	all := &parts[0]
	for i := 1; i < workers; i++ {
		all.Merge(&parts[i])
	}
	if ctx.Err() != nil {
		return all, fmt.Errorf("rehearse: %w", context.Cause(ctx))
	}
	return all, nil
}
