package drill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/probes"
	"github.com/lockdrill/lockdrill/probes/holders"
)

// lookUpHolders asks each source who holds the keys of loops now. It reads, and opens a window of MONITOR only where the file allows that
// and no other source knows.
func lookUpHolders(ctx context.Context, e *experiments.Experiment, plan *forecast.Plan) error {
	if len(e.System.Holder) == 0 || e.System.Processes == nil || e.Redis.Cluster || e.Redis.Sentinel != nil {
		return nil
	}
	options := func() (*holders.RedisOptions, error) { return testbed.OptionsOf(e.Redis) }
	o, err := options()
	if err != nil {
		return fmt.Errorf("look up holders: %w", err)
	}
	fleet := testbed.NewLocalFleet(testbed.LocalOptions{Processes: e.System.Processes, Clock: monotime.Now, OnEvent: func(history.Event) {}})
	defer func() { _ = fleet.Stop(ctx) }()
	a := &asking{e: e, replicas: fleet.Replicas, redis: options, clock: monotime.Now}
	chain, _, err := a.chain()
	if err != nil {
		return fmt.Errorf("look up holders: %w", err)
	}
	defer func() { _ = chain.Close() }()
	keys := probes.NewLockKeys(o, "")
	defer func() { _ = keys.Close() }()
	for i := range e.System.Locks {
		if l := &e.System.Locks[i]; l.Loop() && l.Lease == "" {
			plan.Holders = append(plan.Holders, holderNow(ctx, chain, keys, l, fleet.Replicas()))
		}
	}
	return nil
}

// planWithin bounds the question about one key.
const planWithin = 12 * time.Second

// holderNow is what the sources say of one key.
func holderNow(ctx context.Context, chain *holders.Chain, keys *probes.LockKeys, l *experiments.Lock, replicas []testbed.Living) forecast.PlannedHolder {
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	p := forecast.PlannedHolder{Lock: l.Name, Key: l.Key}
	now, _, held, err := keys.Now(ctx, l.Name, l.Key)
	switch {
	case err != nil:
		p.Why = "not known: " + err.Error()
		return p
	case !held:
		p.Why = "nobody holds it now"
		return p
	}
	named, lacks := chain.Now(ctx, now)
	switch {
	case named.Disputed != "":
		p.Disputed, p.Why = true, "the sources disagree: "+named.Disputed
	case named.Holder == "":
		p.Why = "no source says who holds it: " + lacks
	default:
		p.By, p.Why = named.By, lacks
		at := slices.IndexFunc(replicas, func(r testbed.Living) bool { return r.Incarnation == named.Holder })
		if at >= 0 {
			p.Name, p.PID = replicas[at].Name, replicas[at].PID
		}
	}
	return p
}
