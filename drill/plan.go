package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/stores"
	"github.com/lockdrill/lockdrill/stores/redis"
)

// Plan is the plan of e with what can be known of this moment: the guards, and who holds what.
func Plan(ctx context.Context, e *experiments.Experiment, c Consent, notify func(string)) (plan *forecast.Plan, err error) {
	if err = Built(e); err != nil {
		return nil, err
	}
	plan = forecast.PlanOf(e)
	if plan.Guards, err = guards(ctx, e, c, time.Now(), true); err != nil {
		return nil, err
	}
	warnOfClosing(e, plan, time.Now())
	if g, busy := targetGuard(ctx, e, c, plan, notify); busy {
		plan.Guards = append(plan.Guards, g)
	}
	if !slices.ContainsFunc(plan.Guards, stops) {
		g, err := sourcesGuard(ctx, e)
		if err != nil {
			return nil, err
		}
		if g.Refuses {
			plan.Guards = append(plan.Guards, g)
		}
	}
	switch {
	case e.Kubernetes != nil:
		lookUpPods(ctx, e, c, plan)
	case e.Observed():
		lookUpProcesses(ctx, e, plan)
	case e.Redis.Mode == experiments.RedisExternal:
		lookUp(ctx, e, plan)
	}
	if !slices.ContainsFunc(plan.Guards, func(g Guard) bool { return stops(g) && g.Name == environmentGuardName }) {
		if e.Observed() {
			if err = lookUpHolders(ctx, e, c, plan); err == nil {
				err = lookUpEffects(ctx, e, c, plan)
			}
		}
		if err == nil {
			err = lookUpSignals(ctx, e, plan)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(e.BlockedBy) > 0 {
		g, err := blockGuard(ctx, e)
		if err != nil {
			return nil, err
		}
		plan.Guards = append(plan.Guards, g)
	}
	return plan, nil
}

// sourcesGuard opens what a run reads, as the run would, and closes it again: a run refuses where one cannot be read. The error is one of
// settings.
func sourcesGuard(ctx context.Context, e *experiments.Experiment) (Guard, error) {
	d := &Drill{loaded: e, e: experiments.Scale(e), clock: monotime.Now}
	defer func() {
		for _, end := range d.looks {
			_ = end() // it has only read
		}
	}()
	for _, open := range d.sources() {
		err := open(ctx)
		if said := new(Error); errors.As(err, &said) && said.Status == verdict.ExitUsage {
			return Guard{}, err
		}
		if err != nil {
			return Guard{Name: sourcesGuardName, Refuses: true, Says: err.Error()}, nil
		}
	}
	return Guard{}, nil
}

// warnOfClosing says so where the calendar closes before the expected end.
func warnOfClosing(e *experiments.Experiment, plan *forecast.Plan, now time.Time) {
	at := slices.IndexFunc(plan.Guards, func(g Guard) bool { return g.Name == calendarGuardName })
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
func targetGuard(ctx context.Context, e *experiments.Experiment, c Consent, plan *forecast.Plan, notify func(string)) (_ Guard, busy bool) {
	var cluster *kube.Cluster
	var err error
	if !slices.ContainsFunc(plan.Guards, stops) { // nothing is asked of a cluster that a guard has refused
		cluster, err = c.Cluster.open(e)
	}
	if err == nil {
		err = guardTargets(notify, e, targets(ctx, e, cluster), RunsFolder)
	}
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	for _, r := range externals(e) {
		if err != nil {
			break
		}
		if taken := redis.Taken(ctx, r); errors.As(taken, new(*stores.HeldError)) {
			err = taken // one that cannot be asked is the environment guard's matter
		}
	}
	if no := new(Refusal); errors.As(err, &no) {
		return no.guards[0], true
	}
	if err != nil {
		return Guard{Name: targetGuardName, Refuses: true, Says: err.Error()}, true
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
			f.Now = []string{"a lock for each job: keys " + l.KeyOf("<job>") + " exist while jobs run"}
			continue
		}
		f.Now = []string{holdsNow(ctx, e.Redis, l.Key)}
		f.Now = append(f.Now, "the run does not use that key: its own is lockdrill:<run>:"+l.Key)
	}
}

// holdsNow says who holds a key that stands in a Redis.
func holdsNow(ctx context.Context, r experiments.Redis, key string) string {
	c, err := redis.Reach(r)
	if err != nil {
		return "not known: " + err.Error()
	}
	defer func() { _ = c.Close() }()
	token, left, err := redis.Peek(ctx, c, key)
	switch {
	case err != nil:
		return "not known: " + err.Error()
	case token == "":
		return "nobody holds the key " + key
	case left < 0:
		return fmt.Sprintf("the key %s is held by token %s, without an end", key, token)
	}
	return fmt.Sprintf("the key %s is held by token %s for another %s", key, token, left)
}
