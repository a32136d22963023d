package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/testbed"
)

// Plan is the plan of e with what can be known of this moment: the guards, and who holds what.
func Plan(ctx context.Context, e *experiments.Experiment, c Consent, notify func(string)) (plan *forecast.Plan, err error) {
	plan = forecast.PlanOf(e)
	if plan.Guards, err = guards(ctx, e, c, time.Now()); err != nil {
		return nil, err
	}
	warnOfClosing(e, plan, time.Now())
	if g, busy := targetGuard(ctx, e, notify); busy {
		plan.Guards = append(plan.Guards, g)
	}
	switch {
	case e.Kubernetes != nil:
		lookUpPods(ctx, e, c, plan)
	case e.Observed():
		lookUpProcesses(ctx, e, plan)
	case e.Redis.Mode == experiments.RedisExternal:
		lookUp(ctx, e, plan)
	}
	if e.Observed() && !slices.ContainsFunc(plan.Guards, func(g Guard) bool { return g.Refuses && g.Name == "environment" }) {
		if err := lookUpHolders(ctx, e, plan); err != nil {
			return nil, err
		}
		if err := lookUpEffects(ctx, e, plan); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(plan.Guards, func(g Guard) bool { return g.Refuses && g.Name == "environment" }) {
		if err := lookUpSignals(ctx, e, plan); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// warnOfClosing says so where the calendar closes before the expected end.
func warnOfClosing(e *experiments.Experiment, plan *forecast.Plan, now time.Time) {
	at := slices.IndexFunc(plan.Guards, func(g Guard) bool { return g.Name == calendarName })
	if at < 0 || plan.Guards[at].Refuses {
		return
	}
	end := now.Add(time.Duration(plan.Duration.Expected * float64(time.Second)))
	for t := now; t.Before(end); t = t.Add(time.Minute) {
		if why, _ := e.Shut(t); why != "" {
			plan.Guards[at].Says += "; " + why + " before its expected end"
			return
		}
	}
}

// targetGuard tells of another run that has the target, or has not given it back, as the folders of runs and the target say.
func targetGuard(ctx context.Context, e *experiments.Experiment, notify func(string)) (Guard, bool) {
	err := guardTargets(notify, e, RunsFolder)
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	for _, r := range []experiments.Redis{e.Redis, e.Ledger.AsRedis()} {
		if err != nil || r.Mode != experiments.RedisExternal {
			continue
		}
		if taken := testbed.Taken(ctx, r); errors.As(taken, new(*testbed.HeldError)) {
			err = taken // one that cannot be asked is the environment guard's matter
		}
	}
	if err != nil {
		return Guard{Name: "target", Refuses: true, Says: err.Error()}, true
	}
	return Guard{}, false
}

// lookUp says of each fault that is aimed at the holder of a loop who holds the loop's key now. The run has keys of its own, below its
// prefix: whom a fault strikes is resolved there, at the moment of firing.
func lookUp(ctx context.Context, e *experiments.Experiment, plan *forecast.Plan) {
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	for i := range plan.Timeline {
		f := &plan.Timeline[i]
		at := slices.IndexFunc(e.System.Locks, func(l experiments.Lock) bool { return l.Name == f.Lock })
		if at < 0 {
			continue
		}
		l := &e.System.Locks[at]
		if !l.Loop() {
			f.Now = []string{"a lock for each job: keys " + l.KeyPrefix + "<job> exist while jobs run"}
			continue
		}
		seen, err := testbed.Peek(ctx, e.Redis, []string{l.Key})
		switch {
		case err != nil:
			f.Now = []string{"not known: " + err.Error()}
		case seen[0].Holder == "":
			f.Now = []string{"nobody holds the key " + l.Key}
		case seen[0].TTL < 0:
			f.Now = []string{fmt.Sprintf("the key %s is held by token %s, without an end", l.Key, seen[0].Holder)}
		default:
			f.Now = []string{fmt.Sprintf("the key %s is held by token %s for another %s", l.Key, seen[0].Holder, seen[0].TTL)}
		}
		f.Now = append(f.Now, "the run does not use that key: its own is lockdrill:<run>:"+l.Key)
	}
}
