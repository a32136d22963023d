package drill

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/probes/holders"
	"github.com/lockdrill/lockdrill/stores/redis"
)

// lookUpHolders asks each source who holds each lock of an observed system now: of jobs, one of the keys that are there. It reads, and
// opens a window of MONITOR only where the file allows that and no other source knows.
func lookUpHolders(ctx context.Context, e *experiments.Experiment, c Consent, plan *forecast.Plan) error {
	now := replicasNow{}
	if e.Kubernetes == nil {
		fleet := testbed.NewLocalFleet(testbed.LocalOptions{Processes: e.System.Processes, Clock: monotime.Now, OnEvent: func(history.Event) {}})
		defer func() { _ = fleet.Stop(ctx) }()
		now.all = fleet.Replicas
	} else if len(plan.Pods) == 0 {
		return nil // why, the guards say
	} else if err := now.pods(ctx, e, c); err != nil {
		return fmt.Errorf("look up holders: %w", err)
	}
	for i := range e.System.Locks {
		if l := &e.System.Locks[i]; l.Lease != "" {
			plan.Holders = append(plan.Holders, now.lease(ctx, e, l))
		}
	}
	now.beliefs(ctx, e, plan)
	if e.Redis.Mode != experiments.RedisExternal {
		return nil
	}
	return now.keys(ctx, e, plan)
}

// beliefs is what the replicas say now of whether they hold each lock of which the file says what tells that.
func (n *replicasNow) beliefs(ctx context.Context, e *experiments.Experiment, plan *forecast.Plan) {
	a := &asking{e: e, replicas: n.living, clock: monotime.Now}
	for i := range e.System.Locks {
		if l := &e.System.Locks[i]; l.Belief != nil {
			plan.Beliefs = append(plan.Beliefs, n.beliefNow(ctx, a, l))
		}
	}
}

// beliefNow is one look by the probe that a run would look with.
func (n *replicasNow) beliefNow(ctx context.Context, a *asking, l *experiments.Lock) forecast.PlannedBelief {
	p := forecast.PlannedBelief{Lock: l.Name, Source: l.Belief.Word(), Leads: []string{}}
	if !l.Loop() {
		p.Why = "its lines tell of each key as they come"
		return p
	}
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	probe, end := a.belief(l, func(string) bool { return true })
	if end != nil {
		defer func() { _ = end() }() // it has only read
	}
	if log, ok := probe.(*holders.BeliefLog); ok && n.cluster != nil {
		for _, pod := range n.found {
			at := history.Span{From: a.clock()}
			text, err := n.cluster.LastLines(ctx, pod.Name, a.e.Kubernetes.Container, lastLines)
			at.To = a.clock()
			past, _ := testbed.NewPast(at, text, err, lastLines, false)
			log.Past(pod.Name, past.At, past.Lines, past.Why)
		}
	}
	said, err := probe.Look(ctx, false)
	if err != nil {
		p.Why = "not known: " + err.Error()
		return p
	}
	events := said(history.At(a.clock()))
	slices.SortStableFunc(events, func(x, y history.Event) int { return cmp.Compare(x.Belief.Incarnation, y.Belief.Incarnation) })
	for _, ev := range events {
		b := ev.Belief
		switch {
		case b.Gone != "":
			p.Says = append(p.Says, b.Incarnation+" cannot be asked: "+cmp.Or(b.Why, b.Gone))
		case b.Holds:
			p.Leads = append(p.Leads, b.Incarnation)
			p.Says = append(p.Says, b.Incarnation+" says that it leads")
		default:
			p.Says = append(p.Says, b.Incarnation+" says that it does not")
		}
	}
	if len(events) == 0 {
		p.Why = "there is no replica to ask"
	}
	return p
}

// replicasNow are the replicas at the moment of planning. Their owner's words for them are their incarnations.
type replicasNow struct {
	all     func() []testbed.Living
	cluster *kube.Cluster // nil = they are processes
	found   []kube.Pod
}

func (n *replicasNow) pods(ctx context.Context, e *experiments.Experiment, c Consent) (err error) {
	if n.cluster, err = c.Cluster.open(e); err != nil {
		return err
	}
	if n.found, err = drillPods(ctx, e, n.cluster); err != nil {
		return err
	}
	n.found = slices.DeleteFunc(n.found, func(p kube.Pod) bool { return !p.Container.Running })
	n.all = func() (all []testbed.Living) {
		for i := range n.found {
			all = append(all, testbed.LivingPod(&n.found[i]))
		}
		return all
	}
	return nil
}

func (n *replicasNow) living() []testbed.Living {
	all := slices.Clone(n.all())
	for i := range all {
		all[i].Incarnation = cmp.Or(all[i].Name, fmt.Sprint("process ", all[i].PID))
	}
	return all
}

// lease is who holds a Lease object.
func (n *replicasNow) lease(ctx context.Context, e *experiments.Experiment, l *experiments.Lock) forecast.PlannedHolder {
	p := forecast.PlannedHolder{Lock: l.Name, Key: l.Lease}
	pod, _, why := leaseNow(ctx, e, n.cluster, l.Lease, n.found)
	if p.Why = why; pod != nil {
		p.Name, p.By = pod.Name, "lease"
	}
	return p
}

// keys is who holds keys of a Redis.
func (n *replicasNow) keys(ctx context.Context, e *experiments.Experiment, plan *forecast.Plan) error {
	options := func() (*holders.RedisOptions, error) { return redis.OptionsOf(e.Redis) }
	a := &asking{e: e, replicas: n.living, redis: options, clock: monotime.Now}
	chain, logs, err := a.chain()
	if err != nil {
		return fmt.Errorf("look up holders: %w", err)
	}
	if len(e.System.Holder) == 0 {
		chain = holders.NewChain(monotime.Now, &holders.Value{Lives: a.lives, Is: n.isNamed(e, a.lives)})
	}
	defer func() { _ = chain.Close() }()
	keys, err := redis.ReadLockKeys(e.Redis)
	if err != nil {
		return fmt.Errorf("look up holders: %w", err)
	}
	defer func() { _ = keys.Close() }()
	for i := range e.System.Locks {
		if l := &e.System.Locks[i]; l.Lease == "" {
			plan.Holders = append(plan.Holders, n.key(ctx, chain, logs, keys, e, l))
		}
	}
	return nil
}

// isNamed is how the value of a key names its holder where no source is declared.
func (n *replicasNow) isNamed(e *experiments.Experiment, lives func() []holders.Life) holders.Fits {
	if n.cluster == nil {
		return fits("", lives)
	}
	return func(l holders.Life, name string) bool {
		p := holderPod(e.Kubernetes.Holder, name, n.found)
		return p != nil && p.Name == l.Name
	}
}

// planWithin bounds the question about one key.
const planWithin = 12 * time.Second

// key is what the sources say of one key of a lock.
func (n *replicasNow) key(ctx context.Context, chain *holders.Chain, logs []*holders.Log, keys *redis.LockKeys, e *experiments.Experiment, l *experiments.Lock) forecast.PlannedHolder {
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	p := forecast.PlannedHolder{Lock: l.Name, Key: l.Key}
	var err error
	if !l.Loop() {
		if p.Key, err = keys.Any(ctx, l.Pattern()); err == nil && p.Key == "" {
			p.Key, p.Why = l.Pattern(), "there is no such key now"
			return p
		}
	}
	now, _, held, errNow := keys.Now(ctx, l.Name, p.Key)
	switch err = cmp.Or(err, errNow); {
	case err != nil:
		p.Why = "not known: " + err.Error()
		return p
	case !held:
		p.Why = "nobody holds it now"
		return p
	}
	unread := n.readLogs(ctx, e, logs)
	named, says := chain.Now(ctx, now)
	p.Says = append(says, unread...)
	switch {
	case named.Disputed != "":
		p.Disputed, p.Why = true, "the sources disagree: "+named.Disputed
	case named.Holder == "":
		p.Why = "no source says who holds it"
	default:
		p.By, p.Name = named.By, named.Holder
		for _, r := range n.living() {
			if r.Incarnation == named.Holder {
				p.PID = r.PID
			}
		}
	}
	return p
}

// lastLines of each pod's log are looked at by plan.
const lastLines = 5000

// readLogs lets what pods' logs have by now answer, and says which of them cannot be read.
func (n *replicasNow) readLogs(ctx context.Context, e *experiments.Experiment, logs []*holders.Log) (unread []string) {
	if n.cluster == nil || len(logs) == 0 {
		return nil
	}
	return n.eachLine(ctx, e, history.Span{To: monotime.Now()}, func(pod string, l follow.Line) {
		for _, g := range logs {
			g.Line(pod, l)
		}
	})
}

// eachLine gives the last lines of the pods' logs, and says which of these cannot be read.
func (n *replicasNow) eachLine(ctx context.Context, e *experiments.Experiment, at history.Span, tell func(pod string, l follow.Line)) (unread []string) {
	for _, p := range n.found {
		text, err := n.cluster.LastLines(ctx, p.Name, e.Kubernetes.Container, lastLines)
		if err != nil {
			unread = append(unread, fmt.Sprintf("the log of pod %s cannot be read: %v", p.Name, err))
			continue
		}
		for l := range strings.Lines(string(text)) {
			tell(p.Name, follow.Plain([]byte(strings.TrimSuffix(l, "\n")), false, at))
		}
	}
	return unread
}
