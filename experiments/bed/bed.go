// Package bed is what a drill stands on: the stores of the locks and of the ledger, and the fleet of replicas.
//
// It starts, measures, signals and ends them; it decides nothing about the drill and records nothing. Everything that it
// starts listens on the loopback interface only.
//
// Its one invariant: what it started is gone after Close or Stop, and whatever is a process of its own is also gone when the
// runner is killed with -9 (Linux: by the kernel; elsewhere replicas end when their standard input closes).
package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/lockdrill/lockdrill/experiments"
)

// Options of OpenStores.
type Options struct {
	Mode experiments.RedisMode // auto, embedded or spawn; external is an error here
	Run  string                // run id: part of every key's prefix
	Dir  string                // folders of spawned servers are made below it; "" = the system's temporary folder
}

// Stores are the two stores of a drill, each on its own: a fault at the locks' store cannot reach the ledger.
type Stores struct {
	Locks, Ledger *Store
	Notice        string // which kind of store was chosen, one line for a person
	spawner       *spawner
}

// OpenStores opens both stores and sets their markers. On an error nothing is left behind.
func OpenStores(ctx context.Context, o Options) (*Stores, error) {
	if o.Run == "" {
		return nil, errors.New("open stores: the run has no id")
	}
	s := &Stores{}
	open, err := s.opener(o)
	if err != nil {
		return nil, fmt.Errorf("open stores: %w", err)
	}
	for _, part := range []struct {
		name string
		into **Store
	}{{"locks", &s.Locks}, {"ledger", &s.Ledger}} {
		store, err := open(ctx, part.name)
		if err != nil {
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
			defer cancel()
			return nil, fmt.Errorf("open store of the %s: %w", part.name, errors.Join(err, s.Close(undo)))
		}
		*part.into = store
	}
	if s.spawner != nil {
		s.Notice = fmt.Sprintf("two redis-servers %s of this run's own, on loopback", s.Locks.Info.Version)
	}
	return s, nil
}

// opener chooses how stores are opened, and says so in Notice.
func (s *Stores) opener(o Options) (func(context.Context, string) (*Store, error), error) {
	prefix := "lockdrill:" + o.Run + ":"
	binary, missing := exec.LookPath("redis-server")
	mode := o.Mode
	if mode == experiments.RedisAuto || mode == "" {
		mode = experiments.RedisSpawn
		if missing != nil {
			mode = experiments.RedisEmbedded
			s.Notice = "no redis-server on the PATH: the embedded store is used (inside the runner, for small drills)"
		}
	}
	switch mode {
	case experiments.RedisEmbedded:
		if s.Notice == "" {
			s.Notice = "the embedded store is used (inside the runner, for small drills)"
		}
		return func(ctx context.Context, _ string) (*Store, error) { return openEmbedded(ctx, prefix) }, nil
	case experiments.RedisSpawn:
		if missing != nil {
			return nil, fmt.Errorf("redis.mode is spawn: %w", missing)
		}
		s.spawner = newSpawner()
		dir := o.Dir
		if dir == "" {
			dir = os.TempDir()
		}
		return func(ctx context.Context, name string) (*Store, error) {
			return openSpawned(ctx, s.spawner, binary, dir, name, prefix)
		}, nil
	}
	return nil, fmt.Errorf("redis.mode %q cannot be started by a run", mode)
}

// Close ends both stores, the ledger last, and verifies that their processes and folders are gone. It may be called again,
// and then tries what is left.
func (s *Stores) Close(ctx context.Context) error {
	var errs []error
	for _, store := range []*Store{s.Locks, s.Ledger} {
		if store != nil {
			errs = append(errs, store.Close(ctx))
		}
	}
	err := errors.Join(errs...)
	if err == nil && s.spawner != nil { // its thread's end kills what it has spawned: only after all of that is gone
		s.spawner.close()
		s.spawner = nil
	}
	return err
}
