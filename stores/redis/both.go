// Package redis is Redis as a store of locks and of ledgers: servers of a run's own, a store inside the runner, or somebody's server, primary
// behind Sentinels or cluster; watches of its keys and of a ledger. The ledger of a drill is always one, so both stores of a drill are
// opened here (OpenStores), whatever kind that of the locks is.
//
// Everything that it starts listens on the loopback interface only. Its watches have connections of their own that never lead through a
// proxy, and they write nothing but canaries of the run's own. Its one invariant: a state or an entry that was not shown is never reported,
// and one that was is reported with a bracket that surely contains its beginning.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/spawn"
	"github.com/lockdrill/lockdrill/stores"
)

// Options of OpenStores.
type Options struct {
	Redis    experiments.Redis
	Store    *experiments.Store // of the locks, where that is no Redis; nil = Redis says where they are
	Kind     stores.Kind        // of the locks' store; without one, a Redis
	Cluster  *kube.Cluster      // of that kind, where it is one
	Ledger   experiments.LedgerStore
	NoLedger bool                // nobody writes to one: none is opened
	Faults   []experiments.Fault // what the locks' store must be able to suffer
	TTL      time.Duration       // the shortest of the locks
	Run      string              // run id: part of every key's prefix
	Folder   string              // of the run, absolute: an external Redis shows it to whoever wants to run there as well
	Dir      string              // folders of spawned servers are made below it; "" = the system's temporary folder
	Journal  *undo.Journal       // what is started, and a stay at an external Redis, is written down here first; nil = nowhere
}

// Stores are the two stores of a drill, each a server of its own: a fault at the locks' store cannot reach the ledger.
type Stores struct {
	Held          stores.Store // of the locks, whatever kind it is
	Locks, Ledger *Store       // Locks: nil where Held is no Redis; Ledger: nil with NoLedger
	Notice        string       // which kind of store was chosen, one line for a person
	spawner       *spawn.Spawner
}

// OpenStores opens both stores and sets their markers. On an error nothing is left behind. An error may wrap stores.ErrSettings (a person
// mends it by a setting) or be a stores.HeldError (another run has the target).
func OpenStores(ctx context.Context, o Options) (*Stores, error) {
	if o.Run == "" {
		return nil, errors.New("open stores: the run has no id")
	}
	s := &Stores{}
	locks, ledger, err := s.choose(o)
	if err != nil {
		return nil, fmt.Errorf("open stores: %w", stores.Abandon(ctx, err, s.Close))
	}
	for _, part := range []struct {
		name string
		into **Store
		how  opening
	}{{"locks", &s.Locks, locks}, {"ledger", &s.Ledger, ledger}} {
		if part.how == nil {
			continue
		}
		store, err := part.how(ctx, part.name)
		if err == nil {
			*part.into = store
			err = store.Mark(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("open store of the %s: %w", part.name, stores.Abandon(ctx, err, s.Close))
		}
	}
	if s.Locks != nil {
		s.Held = s.Locks
	} else if err := s.openHeld(ctx, &o); err != nil {
		return nil, fmt.Errorf("open store of the locks: %w", stores.Abandon(ctx, err, s.Close))
	}
	if s.guest() && s.Locks.Info.RunID == s.Ledger.Info.RunID {
		return nil, fmt.Errorf("open stores: ledger.url %w: %s is the very server of the locks, by another name: the ledger needs one that no fault reaches",
			stores.ErrSettings, stores.Abandon(ctx, errors.New(target(s.Ledger.where)), s.Close))
	}
	s.notice()
	return s, nil
}

// openHeld opens the store of the locks, which is no Redis.
func (s *Stores) openHeld(ctx context.Context, o *Options) error {
	held, err := o.Kind.Open(ctx, s.ground(o))
	if err != nil {
		return err
	}
	s.Held = held
	return held.Mark(ctx)
}

// ground is what the run has for a store.
func (s *Stores) ground(o *Options) *stores.Ground {
	if s.spawner == nil {
		s.spawner = spawn.New()
	}
	return &stores.Ground{
		Own:   stores.Own{Spawner: s.spawner, Journal: o.Journal, Dir: cmp.Or(o.Dir, os.TempDir())},
		Store: o.Store, Cluster: o.Cluster, Run: o.Run, Folder: o.Folder, Prefix: prefixOf(o.Run), TTL: o.TTL,
	}
}

func prefixOf(run string) string { return "lockdrill:" + run + ":" }

// guest reports whether both stores are somebody's.
func (s *Stores) guest() bool {
	return s.Ledger != nil && s.Locks != nil && s.Locks.where.Addr != "" && s.Ledger.where.Addr != ""
}

// notice says what was chosen, where choose has not said it.
func (s *Stores) notice() {
	locks, ledger := s.Locks, s.Ledger
	switch {
	case locks == nil:
		about := s.Held.About()
		s.Notice = fmt.Sprintf("locks in %s (%s) at %s", about.Version, about.Kind, s.Held.Endpoint().Addr)
		if ledger != nil {
			s.Notice += fmt.Sprintf("; the ledger in a Redis of this run's own (%s)", ledger.Info.Kind)
		}
	case ledger == nil:
		s.Notice = fmt.Sprintf("locks at %s (%s), as a guest", target(locks.where), locks.Info.Called("Redis"))
	case s.guest():
		s.Notice = fmt.Sprintf("locks at %s (%s), the ledger at %s (%s), at both as a guest",
			target(locks.where), locks.Info.Called("Redis"), target(ledger.where), ledger.Info.Called("Redis"))
	case locks.where.Addr != "":
		s.Notice = fmt.Sprintf("locks at %s (%s), as a guest; the ledger in a store of this run's own (%s)", target(locks.where), locks.Info.Called("Redis"), ledger.Info.Kind)
	case ledger.where.Addr != "":
		s.Notice = fmt.Sprintf("the ledger at %s (%s), as a guest; locks in a store of this run's own (%s)", target(ledger.where), ledger.Info.Called("Redis"), locks.Info.Kind)
	case locks.Info.Kind == "spawned":
		s.Notice = fmt.Sprintf("two %s of this run's own, on loopback", locks.Info.Called("redis-servers"))
	}
}

// opening opens one store.
type opening func(ctx context.Context, name string) (*Store, error)

// choose says how both stores are opened; nil = it is no Redis of the locks, or there is no ledger.
func (s *Stores) choose(o Options) (locks, ledger opening, err error) {
	own := experiments.Redis{Mode: o.Redis.Mode} // of the ledger
	if o.Kind.Open != nil {
		own.Mode = experiments.RedisAuto
	} else if locks, err = s.how(&o, o.Redis, o.Faults); err != nil || o.NoLedger {
		return locks, nil, err
	}
	switch {
	case o.NoLedger:
		return locks, nil, nil
	case o.Ledger.URL != "":
		own = o.Ledger.AsRedis()
	case own.Mode == experiments.RedisExternal:
		own.Mode = experiments.RedisAuto
	}
	ledger, err = s.how(&o, own, nil)
	return locks, ledger, err
}

// how says how one store is opened: as a guest where it is somebody's, else by the run itself. Notice says of one inside the runner why.
func (s *Stores) how(o *Options, r experiments.Redis, faults []experiments.Fault) (opening, error) {
	binary, missing := exec.LookPath("redis-server")
	mode := cmp.Or(r.Mode, experiments.RedisAuto)
	if mode == experiments.RedisAuto && missing == nil {
		mode = experiments.RedisSpawn
	} else if mode == experiments.RedisAuto {
		mode = experiments.RedisEmbedded
		s.Notice = "no redis-server on the PATH: the embedded store is used (inside the runner, for small drills)"
	}
	switch {
	case mode == experiments.RedisExternal:
		return func(ctx context.Context, _ string) (*Store, error) { return openExternal(ctx, r, s.ground(o)) }, nil
	case mode == experiments.RedisEmbedded && cannot(faults) != "":
		return nil, fmt.Errorf("redis.mode %w: the embedded store cannot %s; put a redis-server on the PATH and say redis: {mode: spawn}", stores.ErrSettings, cannot(faults))
	case mode == experiments.RedisEmbedded:
		s.Notice = cmp.Or(s.Notice, "the embedded store is used (inside the runner, for small drills)")
		return func(context.Context, string) (*Store, error) { return openEmbedded(prefixOf(o.Run)) }, nil
	case mode != experiments.RedisSpawn:
		return nil, fmt.Errorf("redis.mode %q is unknown", mode)
	case missing != nil:
		return nil, fmt.Errorf("redis.mode is spawn: %w", missing)
	}
	common := &s.ground(o).Own
	common.Binary = binary
	return func(ctx context.Context, name string) (*Store, error) {
		keeps, failsOver := demands(faults)
		store, err := openSpawned(ctx, common, name, prefixOf(o.Run), keeps)
		if err == nil && failsOver {
			if store.standby, err = openStandby(ctx, common, store.Addr, keeps); err != nil {
				s.Locks = store // whoever closes what was opened closes it, too
			}
		}
		return store, err
	}, nil
}

// demands says what the locks' store must have for its faults: its data after a kill, and a standby.
func demands(faults []experiments.Fault) (keep, standby bool) {
	for i := range faults {
		t := faults[i].Traits()
		keep, standby = keep || t.KeepsData, standby || t.FailsOver
	}
	return keep, standby
}

// cannot names a fault of the store that the embedded one cannot suffer, or "".
func cannot(faults []experiments.Fault) string {
	for i := range faults {
		if what := faults[i].Traits().NotEmbedded; what != "" {
			return what + " (" + faults[i].ID + ")"
		}
	}
	return ""
}

// Close ends both stores, the ledger last, and verifies that their processes and folders are gone. It may be called again,
// and then tries what is left.
func (s *Stores) Close(ctx context.Context) error {
	var errs []error
	if s.Held != nil {
		errs = append(errs, s.Held.Close(ctx))
	} else if s.Locks != nil {
		errs = append(errs, s.Locks.Close(ctx))
	}
	if s.Ledger != nil {
		errs = append(errs, s.Ledger.Close(ctx))
	}
	err := errors.Join(errs...)
	if err == nil && s.spawner != nil { // its thread's end kills what it has spawned: only after all of that is gone
		s.spawner.Close()
		s.spawner = nil
	}
	return err
}
