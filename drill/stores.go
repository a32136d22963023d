package drill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	"github.com/lockdrill/lockdrill/probes"
	"github.com/lockdrill/lockdrill/probes/effects"
	"github.com/lockdrill/lockdrill/stores"
	"github.com/lockdrill/lockdrill/stores/redis"
)

// pair is the two stores of a drill, and how replicas get there.
type pair struct {
	*Drill
	*redis.Stores
	seen            endpoints
	tapped, proxied stores.Hop // on the way of a replica to the locks' store, tapped next to the store
}

// endpoints are the stores as replicas see them from where they are.
type endpoints struct {
	locks, ledger func(protocol.Endpoint) protocol.Endpoint
}

// direct is a way with nothing on it.
func direct(_ string, behind protocol.Endpoint) protocol.Endpoint { return behind }

// asHere: a process of this host sees what the runner sees.
var asHere = endpoints{locks: same, ledger: same}

func same(e protocol.Endpoint) protocol.Endpoint { return e }

// kindOf is the kind of an experiment's store. A usage error names the build that has it.
func kindOf(e *experiments.Experiment) (stores.Kind, error) {
	kind, err := stores.Of(e.StoreKind())
	if err != nil {
		err = usagef("%s: %w", e.Name, err)
	}
	return kind, err
}

// Built is a usage error where this build has no driver of what an experiment is about; it names the build that has it.
func Built(e *experiments.Experiment) error {
	if _, err := kindOf(e); err != nil {
		return err
	}
	for i := range e.System.Effects {
		if x := &e.System.Effects[i]; x.SQL != nil && !effects.HasSQL() {
			return refusedEffects(x, effects.ErrBuild)
		}
	}
	return nil
}

// openLocks opens both stores, and what looks at the locks' own. The keys of an observed system are somebody's: no prefix of the run goes
// before them.
func (s *pair) openLocks(ctx context.Context) (err error) {
	kind, err := kindOf(s.e)
	if err != nil {
		return err
	}
	s.Stores, err = redis.OpenStores(ctx, redis.Options{
		Redis: s.e.Redis, Store: s.e.Store, Kind: kind, Cluster: s.cluster, Ledger: s.e.Ledger, NoLedger: s.e.Observed(), Faults: s.e.Faults, TTL: shortest(s.e), Run: s.run, Folder: s.dir, Dir: s.storesDir(), Journal: s.journal,
	})
	if held := new(stores.HeldError); errors.As(err, &held) {
		return &Error{verdict.ExitRefused, err}
	} else if errors.Is(err, stores.ErrSettings) {
		return &Error{verdict.ExitUsage, err}
	} else if err != nil {
		return fmt.Errorf("open stores: %w", err)
	}
	locks := s.Held
	prefix := locks.Endpoint().Prefix
	s.stands, s.notices, s.env.Store = append(s.stands, s.Close), append(s.notices, s.Notice), locks.About()
	if err := s.ownContexts(ctx); err != nil {
		return err
	}
	s.cfg.Stores = append(s.cfg.Stores, runner.Store{Name: runner.LocksStore, Life: locks.Life, Mark: locks.Mark, Away: s.mayBeAway()})
	s.strikes.Prefix, s.strikes.Glob, s.strikes.Bare = prefix, s.glob, s.bare
	s.strikes.Store, s.strikes.Open = locks, kind.Outside
	s.locks = s.Locks
	if guest, ok := locks.(interface{ Held() error }); ok {
		s.guards = append(s.guards, func() (word, why string) {
			if err := guest.Held(); err != nil {
				return history.AbortTargetLost, err.Error()
			}
			return "", ""
		})
	}
	if own, ok := locks.(stores.Server); ok {
		s.standsHere(history.WaitsStore, own)
	}
	if s.e.Observed() {
		prefix = ""
	}
	s.strikes.Keys = prefix
	s.keyMetric = func(m experiments.Metric) (*probes.Metrics, error) {
		client, _, err := s.Locks.Looks(experiments.Redis{})
		if err != nil {
			return nil, fmt.Errorf("open metric %s: %w", m.Name, err)
		}
		return probes.NewKeyMetric(m.Name, client, s.stored(prefix, m.Key), probes.Question(m.Ask)), nil
	}
	if s.e.Observed() { // whose keys are looked at once it is known who the replicas are
		return nil
	}
	keys, err := locks.Watch(s.clock)
	if err != nil {
		return fmt.Errorf("open probes: %w", err)
	}
	for i := range s.e.System.Locks {
		if l := &s.e.System.Locks[i]; l.Loop() {
			keys.Watch(l.Name, l.Key)
		}
	}
	s.cfg.Watch = keys.Watch
	if near, ok := keys.(stores.Near); ok {
		s.cfg.Watch, s.cfg.Asked = near.Expect, near.Asked
	}
	s.look(keys, keys, s.e.Probes.LockKeys, func(string) bool { return true })
	return nil
}

// shortest is the shortest lease of the drill's locks.
func shortest(e *experiments.Experiment) (ttl time.Duration) {
	for i := range e.System.Locks {
		if own := e.System.Locks[i].Policy.TTL; ttl == 0 || own < ttl {
			ttl = own
		}
	}
	return ttl
}

// openLedger looks at the ledger, and tells replicas of it.
func (s *pair) openLedger(context.Context) error {
	options, err := s.Ledger.Options()
	if err != nil {
		return fmt.Errorf("open probes: %w", err)
	}
	ledger := redis.NewLedger(options, redisstore.KeysOf(s.Ledger.Prefix).Entries, s.lockOf)
	s.env.Ledger, s.looks, s.cfg.Configure = s.Ledger.Info, append(s.looks, ledger.Close), s.configure
	s.standsHere(history.WaitsLedger, s.Ledger)
	s.cfg.Stores = append(s.cfg.Stores, runner.Store{Name: "ledger", Life: s.Ledger.Life, Mark: s.Ledger.Mark})
	s.cfg.Probes = append(s.cfg.Probes, runner.Sampled{Name: "ledger", Source: "probe:ledger", Probe: ledger, ProbeSettings: s.e.Probes.Ledger})
	return nil
}

// failsOver is how long a primary may be away until its Sentinels, or its cluster, have made another: these wait for
// down-after-milliseconds, 30 s where nobody has said otherwise, or for cluster-node-timeout, 15 s, and vote.
const failsOver = time.Minute

// mayBeAway: a fail-over is a gap of the looks, and no loss of the store.
func (s *pair) mayBeAway() time.Duration {
	if s.e.Redis.Sentinel != nil || s.e.Redis.Cluster {
		return failsOver
	}
	return 0
}

// standsHere lets the machine's watcher know of a store's server, where the run has started one.
func (s *pair) standsHere(name string, store stores.Server) {
	s.stand(func() (ps []runner.Process, busy bool) {
		pids, busy := store.Processes()
		for _, pid := range pids {
			ps = append(ps, runner.Process{Name: name, PID: pid})
		}
		return ps, busy
	})
}

// calibrateWithin bounds the calibration.
const calibrateWithin = 8 * time.Second

// calibrateTries is how often the calibration may take too long: a store or a machine that was busy once is no reason to end a run.
const calibrateTries = 4

// patiently repeats what took longer than it may, as long as ctx allows. Another error is no matter of time.
func patiently[T any](ctx context.Context, tries int, do func(context.Context) (T, error)) (got T, err error) {
	for try := 1; ; try++ {
		got, err = do(ctx)
		switch {
		case err == nil || !overdue(err):
			return got, err
		case ctx.Err() != nil || try == tries:
			return got, fmt.Errorf("it took too long %s in a row, so the machine or the store is too busy to measure anything: %w", figures.Plural(try, "time"), err)
		}
	}
}

// overdue reports that a call did not end in time.
func overdue(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// CheckScale says beforehand what calibrate would refuse, as far as the timers of this machine tell: never is why the machine at its best is
// too slow for the time scale, busy why it is at present.
func CheckScale(e *experiments.Experiment) (never, busy error) {
	scaled := experiments.Scale(e)
	if scaled.Scaled == 0 || scaled.Scaled == 1 {
		return nil, nil
	}
	p99, p10 := redis.TimerLateness()
	err := experiments.CheckScale(scaled, p99)
	if experiments.CheckScale(scaled, p10) != nil {
		return err, nil // with the scale that does now
	}
	return nil, err
}

// calibrate measures what does not scale, and refuses a time scale at which it would matter.
func (s *pair) calibrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, calibrateWithin)
	defer cancel()
	c, err := patiently(ctx, calibrateTries, s.Calibrate)
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	check := func() error {
		return experiments.CheckScale(s.e, time.Duration(max(c.RTT99, c.Timer99)))
	}
	if check() != nil { // one busy moment is not the machine: measure again before refusing
		if c, err = patiently(ctx, calibrateTries, s.Calibrate); err != nil {
			return fmt.Errorf("calibrate: %w", err)
		}
	}
	if err := check(); err != nil {
		return &Error{verdict.ExitRefused, fmt.Errorf("%w; or run it when the machine is less busy", err)}
	}
	s.net = Network(c)
	s.facts = append(s.facts, history.Event{Kind: history.RunCalibration, Source: "runner", Calibration: &c})
	return nil
}

// storesFolder holds the folders of spawned servers; it is gone when the run is over.
const storesFolder = "stores"

func (d *Drill) storesDir() string { return filepath.Join(d.dir, storesFolder) }

// closeWithin bounds the end of the stores.
const closeWithin = 10 * time.Second

// closeStores ends the stores and what stands before them, that first, and removes their folder; it may be called again.
func (d *Drill) closeStores(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	var errs []error
	for _, end := range slices.Backward(d.stands) {
		errs = append(errs, end(ctx))
	}
	return errors.Join(append(errs, removeFolder(d.storesDir()))...)
}

// removeFolder removes an empty folder; one that is not there is removed already.
func removeFolder(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// closeProbes closes the connections of the probes.
func (d *Drill) closeProbes() error {
	var errs []error
	for _, end := range d.looks {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// configure is what a replica is told.
func (s *pair) configure(name, incarnation string) protocol.Configure {
	c := protocol.Configure{
		Name:        name,
		Incarnation: incarnation,
		Seed:        s.seed + seedOf(incarnation),
		Store:       s.reach(name),
		Ledger:      s.seen.ledger(s.Ledger.Endpoint()),
		Script:      redisstore.EffectScript(),
		Alone:       s.e.ViaProxy(),
	}
	for i := range s.e.System.Locks {
		l := &s.e.System.Locks[i]
		p := protocol.Lock{Name: l.Name, Profile: l.Profile, Key: l.Key, Policy: l.Policy, Unfenced: !s.e.Fenced(l.Name)}
		if w := s.e.WorkUnder(l.Name); w != nil {
			p.Strict, p.NoLook = w.Strict, !w.Look
		}
		c.Locks = append(c.Locks, p)
	}
	return c
}

// seedOf turns an incarnation's name into a number, so that each one makes its own choices, the same ones in every run.
func seedOf(incarnation string) int64 {
	var n int64
	for _, b := range []byte(incarnation) {
		n = n*131 + int64(b)
	}
	return n
}

// reach is where a replica finds the locks: at the first of the proxies on its way, or at the store as it is seen from there.
func (s *pair) reach(replica string) protocol.Endpoint {
	return s.proxied(replica, s.seen.locks(s.behind(replica)))
}

// behind is where a replica's Toxiproxy finds the locks.
func (s *pair) behind(replica string) protocol.Endpoint {
	return s.tapped(replica, s.Held.Endpoint())
}
