package drill

import (
	"context"
	"fmt"

	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/lease"
	"github.com/lockdrill/lockdrill/stores/redis"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// watchLocks looks at all locks of an observed system: at Lease objects, and at keys of a Redis.
func (d *Drill) watchLocks(fleet observedFleet, names witness.Names) error {
	objects, keys := map[string]string{}, []experiments.Lock{}
	for _, l := range d.e.System.Locks {
		if l.Lease == "" {
			keys = append(keys, l)
		} else if objects[l.Lease] == "" {
			objects[l.Lease] = l.Name
		}
	}
	in := func(objects bool) func(lock string) bool {
		return func(lock string) bool {
			l := d.e.Lock(lock)
			return l != nil && (l.Lease != "") == objects
		}
	}
	if len(objects) > 0 {
		w := lease.NewNamed(d.cluster, objects, fleet.HolderOf, d.clock)
		d.look(w, signing{w, fleet, history.Ends{}}, d.e.Probes.Leases, in(true))
	}
	if len(keys) > 0 {
		w, err := d.watchKeys(keys, names)
		if err != nil {
			return fmt.Errorf("open probes: %w", err)
		}
		d.look(w, w, d.e.Probes.LockKeys, in(false))
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

// watchKeys watches locks that are keys of a Redis: those of loops by their names, those of jobs by their patterns.
func (d *Drill) watchKeys(locks []experiments.Lock, names witness.Names) (*redis.Keyspace, error) {
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
