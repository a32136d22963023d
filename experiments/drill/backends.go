package drill

import (
	"context"
	"fmt"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/lease"
	"github.com/lockdrill/lockdrill/stores/redis"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// backend is a kind of store that locks of an observed system are in.
type backend struct {
	has      func(*experiments.Lock) bool
	open     func(d *Drill, locks []experiments.Lock, fleet observedFleet, names witness.Names) (witness.Watch, error)
	settings func(*experiments.Probes) experiments.ProbeSettings
}

// backends are all kinds; each lock is in one of them.
var backends = []backend{
	{
		has:      func(l *experiments.Lock) bool { return l.Lease != "" },
		open:     openLeases,
		settings: func(p *experiments.Probes) experiments.ProbeSettings { return p.Leases },
	},
	{
		has:      func(l *experiments.Lock) bool { return l.Lease == "" },
		open:     openKeyspace,
		settings: func(p *experiments.Probes) experiments.ProbeSettings { return p.LockKeys },
	},
}

// watchLocks looks at all locks of an observed system, by their kinds.
func (d *Drill) watchLocks(fleet observedFleet, names witness.Names) error {
	for _, kind := range backends {
		var locks []experiments.Lock
		for i := range d.e.System.Locks {
			if kind.has(&d.e.System.Locks[i]) {
				locks = append(locks, d.e.System.Locks[i])
			}
		}
		if len(locks) == 0 {
			continue
		}
		b, err := kind.open(d, locks, fleet, names)
		if err != nil {
			return fmt.Errorf("open probes: %w", err)
		}
		probe := runner.Probe(b)
		if b.Kind().Named {
			probe = signing{b, fleet, history.Ends{}}
		}
		d.look(b, probe, kind.settings(&d.e.Probes), func(lock string) bool {
			l := d.e.Lock(lock)
			return l != nil && kind.has(l)
		})
	}
	return nil
}

// look lets a probe of locks be sampled, and asks its store who holds the keys of these locks.
func (d *Drill) look(b witness.Watch, probe runner.Probe, every experiments.ProbeSettings, has func(lock string) bool) {
	kind, others := b.Kind(), d.cfg.Holder
	d.cfg.Probes = append(d.cfg.Probes, runner.Sampled{Name: kind.Probe, Source: kind.Source, Probe: probe, ProbeSettings: every})
	d.looks = append(d.looks, b.Close)
	d.cfg.Holder = func(ctx context.Context, key string) (string, bool, error) {
		lock := d.lockOf(key)
		if !has(lock) {
			return others(ctx, key)
		}
		_, epoch, held, err := b.Now(ctx, lock, key)
		return epoch, held, err
	}
	d.backends = append(d.backends, b)
}

// openLeases watches locks that are Lease objects.
func openLeases(d *Drill, locks []experiments.Lock, fleet observedFleet, _ witness.Names) (witness.Watch, error) {
	names := map[string]string{}
	for _, l := range locks {
		if names[l.Lease] == "" {
			names[l.Lease] = l.Name
		}
	}
	return lease.NewNamed(d.cluster, names, fleet.HolderOf, d.clock), nil
}

// openKeyspace watches locks that are keys of a Redis: those of loops by their names, those of jobs by their patterns.
func openKeyspace(d *Drill, locks []experiments.Lock, _ observedFleet, names witness.Names) (witness.Watch, error) {
	client, replica, err := d.locks.Looks(d.e.Redis)
	if err != nil {
		return nil, err
	}
	o := redis.KeyspaceOptions{
		Client: client, Replica: replica, DB: d.locks.Where().DB, Canary: d.locks.Prefix + "canary", Exact: map[string]string{}, Under: map[string]string{},
		MaxGap: d.e.Probes.LockKeys.MaxGap, Clock: d.clock,
	}
	for _, l := range locks {
		if l.Loop() {
			o.Exact[l.Key] = l.Name
		} else {
			o.Under[l.Pattern()] = l.Name
		}
	}
	keys := redis.NewKeyspace(o)
	keys.Name(names)
	return keys, nil
}
