package rehearsal

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// Many rehearses e with the seeds 1 to n, on all cores, and judges each. done, which may be nil, counts those that are finished; it is
// called from several goroutines. Where ctx ends first, what was gathered by then is returned with ctx's error.
func Many(ctx context.Context, e *experiments.Experiment, net sim.Net, n int64, done func(seeds int64)) (*forecast.Rehearsed, error) {
	all := forecast.NewRehearsed(e)
	var adding sync.Mutex
	err := each(ctx, e, net, n, func(seed int64, j *verdict.Judgement, h *history.History) {
		adding.Lock()
		defer adding.Unlock()
		all.Add(seed, j, h)
	}, done)
	return all, err
}

// Predict rehearses e with the seeds 1 to n, or as many of them as ctx gives time for, and gathers the takeovers. Where there was no
// time for a single one, the error is ctx's.
func Predict(ctx context.Context, e *experiments.Experiment, net sim.Net, n int64) (*history.Prediction, error) {
	all, err := Many(ctx, e, net, n, nil)
	if err != nil && (ctx.Err() == nil || all.Seeds == 0) {
		return nil, err
	}
	return all.Prediction(), nil
}

// each rehearses and judges the seeds 1 to n on all cores. take is called by several goroutines.
func each(ctx context.Context, e *experiments.Experiment, net sim.Net, n int64, take func(seed int64, j *verdict.Judgement, h *history.History), done func(seeds int64)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, finished atomic.Int64
	var wg sync.WaitGroup
	for range min(int64(runtime.GOMAXPROCS(0)), n) {
		wg.Go(func() {
			r, judger := New(e, net), analysis.NewJudger(e)
			for seed := next.Add(1); seed <= n && ctx.Err() == nil; seed = next.Add(1) {
				d, err := r.Run(ctx, seed)
				if err != nil {
					stop(err)
					return
				}
				take(seed, judger.Judge(d.History), d.History)
				if all := finished.Add(1); done != nil {
					done(all)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("rehearse: %w", context.Cause(ctx))
	}
	return nil
}
