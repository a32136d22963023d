package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"

	"github.com/spf13/cobra"
)

// tuneFlags are what the user has measured, and wants.
type tuneFlags struct {
	p99, p50, jitter, guard, takeover, stop time.Duration
	window                                  time.Duration
	loop, fenced, idempotent, mustFinish    bool
	from, series, lock, class, profile      string
	labels                                  []string
	replicas, locks                         int
	seeds                                   int64
	write                                   string
	output                                  *output
}

// tuneSeeds is how many drills are rehearsed of each policy and fault: a chance of breach to 1 %.
const tuneSeeds = 100

const tuneLong = `tune works out TTL, renewal, failure budget, poll and class of a lock by the rules of the articles:

  ttl = p99 of the work + jitter + guard. The lock renews every ttl / 3, or more often if two failed renewals in a row are not safe (L1).
  takeover = ttl + jitter + poll. The poll is what remains of the takeover that you want.

It writes every sum out and says what the renewals cost the store. It rehearses your present policy and the recommended one, and
prints the fields for an experiment file. It touches nothing.

You give the p99 with --p99, or --from reads it: from the folder of a run, from a saved scrape of a Prometheus histogram, or from a
Prometheus itself, over the last --window. Without --jitter the p99 of lockcore_renew_rtt_seconds there is the tail. A histogram knows the p99 to its bucket only; the upper end counts. If there are several classes of jobs, the longest p99 decides.

With --profile and neither --jitter nor --from it prints the budget sums L1 to L8 of that shipped profile as it is, under --p99 and
--takeover where they are given.

Exit status 14: no policy can keep what you ask, and tune names the sum that fails. 11: the data do not tell the p99.
10: the recommended policy breaks a promise in its own rehearsals.`

func newTuneCmd(io streams) *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:     "tune (--p99 D | --from DIR|FILE|URL) [--jitter D] [--guard D] [--takeover D]",
		Short:   "Work out TTL, renewal and poll from measured work and the takeover that you want",
		Long:    tuneLong,
		Example: "  lockdrill tune --p99 18s --jitter 4s --guard 2s --takeover 30s --profile cordum/scheduler-job\n  lockdrill tune --profile cordum/scheduler-job",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.p99, "p99", 0, "p99 of the work under the lock; loops: of a tick")
	flags.DurationVar(&f.p50, "p50", 0, "its median, for the rehearsals (default p99 / 3)")
	flags.StringVar(&f.from, "from", "", "read them from a run's folder, a saved scrape, or a Prometheus: http://HOST:9090")
	flags.DurationVar(&f.window, "window", time.Hour, "--from http://...: what it has seen in so long up to now")
	flags.StringVar(&f.series, "series", heldSeries, "scrape: the histogram of hold times, in seconds")
	flags.StringArrayVar(&f.labels, "label", nil, "scrape: only series with name=value; may be repeated")
	flags.StringVar(&f.lock, "lock", "", "run: the lock; scrape: the label namespace")
	flags.StringVar(&f.class, "class", "", "only jobs of this class")
	flags.DurationVar(&f.jitter, "jitter", 0, "tail of network and store, there and back (default: the p99 of "+tripSeries+", where --from has it)")
	flags.DurationVar(&f.guard, "guard", 0, "on top of p99 and jitter (default: the least with which two failed renewals in a row are safe)")
	flags.DurationVar(&f.takeover, "takeover", 0, "the longest takeover wanted (default: as it comes)")
	flags.DurationVar(&f.stop, "stop", 0, "time that the work needs to stop (default ttl / 30, at most 1s)")
	flags.BoolVar(&f.loop, "loop", false, "a leader loop; else a lock taken for each job")
	flags.BoolVar(&f.fenced, "fenced", false, "the resource refuses writes with an old fence")
	flags.BoolVar(&f.idempotent, "idempotent", false, "work done twice is as good as done once")
	flags.BoolVar(&f.mustFinish, "must-finish", false, "work must not stop when its lock is lost: asks for --fenced and --idempotent")
	flags.StringVar(&f.profile, "profile", "", "compare with this shipped profile (default: the run's own policy, if --from is a run)")
	flags.IntVar(&f.replicas, "replicas", 3, "how many may ask for one key at once")
	flags.IntVar(&f.locks, "locks", 1000, "locks held at once, for what renewals cost")
	flags.Int64Var(&f.seeds, "seeds", tuneSeeds, "rehearsals of each policy and fault")
	flags.StringVar(&f.write, "write", "", "write the rehearsed drill of the recommended policy to this new file")
	f.output = documentFlags(cmd, io)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if f.asItIs() {
			return f.sums(io)
		}
		return f.tune(cmd.Context(), io)
	}
	return cmd
}

// asItIs reports whether the sums of a profile are asked for, and no policy.
func (f *tuneFlags) asItIs() bool { return f.profile != "" && f.jitter == 0 && f.from == "" }

func (f *tuneFlags) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"--p99", f.p99}, {"--p50", f.p50}, {"--jitter", f.jitter}, {"--guard", f.guard}, {"--takeover", f.takeover}, {"--stop", f.stop}} {
		if d.value < 0 || d.value > mostWork {
			return usagef("lockdrill tune: %s %s: want 0s to 24h", d.name, d.value)
		}
	}
	switch {
	case f.asItIs() && (f.guard != 0 || f.write != ""):
		return usagef("lockdrill tune: --jitter: give the tail of network and store: --guard and --write are about a policy that is worked out with it")
	case f.asItIs() && f.replicas >= 2 && f.replicas <= 100:
		return nil
	case f.p99 == 0 && f.from == "":
		return usagef("lockdrill tune: how long is the work? Give --p99, or --from a run's folder or a saved scrape; see lockdrill tune --help")
	case f.p99 > 0 && f.from != "":
		return usagef("lockdrill tune: --p99 and --from: give one of them")
	case f.p99 > 0 && f.p99 < time.Millisecond:
		return usagef("lockdrill tune: --p99 %s: want at least 1ms", f.p99)
	case f.p50 > 0 && (f.p99 == 0 || f.p50 > f.p99):
		return usagef("lockdrill tune: --p50 goes with a --p99 that is not below it")
	case f.p50 > 0 && f.p50 < time.Millisecond:
		return usagef("lockdrill tune: --p50 %s: want at least 1ms", f.p50)
	case f.from == "" && (f.lock != "" || f.class != "" || len(f.labels) > 0 || f.series != heldSeries):
		return usagef("lockdrill tune: --lock, --class, --label and --series choose from what --from reads")
	case f.from != "" && f.loop && f.series == heldSeries:
		return usagef("lockdrill tune: how long a leader loop was held is not how long a tick is: give --p99, or --series with a histogram of ticks")
	case f.window < time.Minute || f.window > 30*24*time.Hour:
		return usagef("lockdrill tune: --window %s: want 1m to 720h", f.window)
	case f.jitter == 0 && f.from == "":
		return usagef("lockdrill tune: --jitter is missing: give the tail of network and store, there and back, at least %s: timeouts are made of it", lockcore.LeastJitter)
	case f.jitter != 0 && f.jitter < lockcore.LeastJitter:
		return usagef("lockdrill tune: --jitter %s: give the tail of network and store, at least %s: timeouts are made of it", f.jitter, lockcore.LeastJitter)
	case f.mustFinish && !(f.fenced && f.idempotent):
		return usagef("lockdrill tune: --must-finish: work that goes on without its lock must be --fenced and --idempotent")
	case f.replicas < 2 || f.replicas > 100:
		return usagef("lockdrill tune: --replicas %d: want 2 to 100", f.replicas)
	case f.locks < 1:
		return usagef("lockdrill tune: --locks %d: want at least 1", f.locks)
	case f.seeds < 1 || f.seeds > mostSeeds:
		return usagef("--seeds %d: want 1 to %d", f.seeds, mostSeeds)
	}
	return nil
}

func (f *tuneFlags) tune(ctx context.Context, io streams) error {
	doc := &forecast.Tuning{SchemaVersion: 1, Measured: []forecast.MeasuredWork{}, Broken: []lockcore.Sum{}, Trade: []forecast.TradeRow{}, Locks: f.locks, Seeds: f.seeds}
	m := &measured{}
	if f.from != "" {
		var err error
		if m, err = f.read(ctx, io.Err); err != nil {
			return err
		}
		c, err := m.choose()
		if err != nil {
			return err
		}
		if f.jitter == 0 {
			if f.jitter = max(m.trip, lockcore.LeastJitter); m.trip == 0 {
				return usagef("lockdrill tune: --jitter is missing: %s has no %s, so give the tail of network and store, at least %s", f.from, tripSeries, lockcore.LeastJitter)
			}
			fmt.Fprintf(io.Err, "jitter %s: the p99 of %s\n", f.jitter, tripSeries)
		}
		f.leases(m.classes)
		doc.Measured, doc.Chosen = m.classes, c.Class
		f.p99, f.p50 = max(upper(c.P99), time.Millisecond), max(upper(c.P50), time.Millisecond)
		if m.warning != "" {
			fmt.Fprintln(io.Err, "warning:", m.warning)
		}
	}
	if f.p50 == 0 {
		f.p50, doc.P50Assumed = max((f.p99/3).Round(time.Millisecond), time.Millisecond), true
	}
	f.p50 = min(f.p50, f.p99)
	if ttl := f.p99 + f.jitter + f.guard; ttl > mostWork {
		return usagef("lockdrill tune: p99 %s + --jitter %s + --guard %s = %s is the lease, and a lease of more than 24h is not rehearsed: lower %s",
			f.p99, f.jitter, f.guard, ttl, f.largest())
	}
	doc.P99, doc.P50 = f.p99.Seconds(), f.p50.Seconds()
	before, err := f.before(m)
	if err != nil {
		return err
	}
	t := lockcore.Tune(lockcore.Wish{Work: f.p99, Jitter: f.jitter, Guard: f.guard, Takeover: f.takeover, StopBudget: f.stop, Loop: f.loop,
		Contenders: f.replicas, Fenced: f.fenced, Idempotent: f.idempotent, MustFinish: f.mustFinish})
	if t.Policy.TTL > mostWork {
		return usagef("lockdrill tune: the guard that the jitter asks for makes a lease of %s, and a lease of more than 24h is not rehearsed: lower --jitter", t.Policy.TTL)
	}
	doc.Possible, doc.Policy, doc.Pickup, doc.TakeoverMax, doc.Steps = len(t.Broken) == 0, t.Policy, t.Pickup.Seconds(), t.TakeoverMax.Seconds(), t.Steps
	doc.Broken = append(doc.Broken, t.Broken...)
	if doc.Possible {
		if err := f.rehearse(ctx, io, doc, &t, before, m); err != nil {
			return err
		}
	}
	return f.conclude(io, doc)
}

// before is the lock that the recommended policy is held against; nil = none.
func (f *tuneFlags) before(m *measured) (*experiments.Lock, error) {
	l := m.lock
	if f.profile != "" {
		var err error
		if l, err = experiments.Profile(f.profile); err != nil {
			return nil, usagef("lockdrill tune: %w", err)
		}
	}
	if l != nil && l.Loop() != f.loop {
		want := map[bool]string{true: "it is a leader loop: give --loop", false: "it is a lock of jobs: leave out --loop"}[l.Loop()]
		return nil, usagef("lockdrill tune: %s cannot be compared: %s", f.beforeName(), want)
	}
	if l != nil && l.Policy.TTL > mostWork {
		return nil, usagef("lockdrill tune: %s cannot be compared: its lease of %s is longer than 24h, which is not rehearsed", f.beforeName(), l.Policy.TTL)
	}
	return l, nil
}

// largest is the flag that has the largest share in the lease.
func (f *tuneFlags) largest() string {
	switch rest := max(f.jitter, f.guard); {
	case f.p99 < rest && f.jitter == rest:
		return "--jitter"
	case f.p99 < rest:
		return "--guard"
	case f.from != "":
		return "the work's p99 (lock a part of it only, or choose with --class)"
	}
	return "--p99"
}

func (f *tuneFlags) beforeName() string {
	if f.profile != "" {
		return f.profile
	}
	return "the policy of " + f.from
}

// rehearse fills in what there is to say about a policy that is possible.
func (f *tuneFlags) rehearse(ctx context.Context, io streams, doc *forecast.Tuning, t *lockcore.Tuned, before *experiments.Lock, m *measured) error {
	promised := f.takeover
	if promised == 0 {
		promised = t.TakeoverMax
	}
	lock := experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: t.Policy}
	if f.loop {
		lock = experiments.Lock{Name: "leader", Key: "leader", Policy: t.Policy}
	}
	if before != nil {
		lock.Key, lock.KeyPrefix = before.Key, before.KeyPrefix
		if before.Name != "" {
			lock.Name = before.Name
		}
	}
	after := draft.Tuned{Lock: lock, Replicas: f.replicas, P50: f.p50, P99: f.p99, Offered: t.Pickup, Takeover: promised, Fenced: f.fenced || !f.idempotent}
	doc.Trade, doc.YAML, doc.Drill = forecast.TradeOf(t.Policy, f.locks), draft.LockYAML(&lock), after.Kill()
	var err error
	if before != nil {
		was := after
		was.Lock.Policy = before.Policy
		if m.lock != nil && f.profile == "" && m.offered > 0 {
			was.Offered = m.offered
		}
		if doc.Before, err = rehearsedPolicy(ctx, io, &was, f.beforeName(), f.locks, f.seeds); err != nil {
			return err
		}
	}
	doc.After, err = rehearsedPolicy(ctx, io, &after, "recommended", f.locks, f.seeds)
	return err
}

// conclude prints the document, writes the drill, and gives the exit status.
func (f *tuneFlags) conclude(io streams, t *forecast.Tuning) error {
	if f.write != "" && t.Possible {
		if err := writeNew(f.write, []byte(t.Drill)); err != nil {
			return err
		}
	}
	err := present(io, *f.output, t, reports.Tuning(t, f.write), doc.Full, doc.Full)
	switch {
	case err != nil:
		return err
	case !t.Possible:
		return status(verdict.ExitImpossible)
	}
	for _, b := range t.After.Breaches {
		switch {
		case b.Breach > 0:
			return status(verdict.ExitSLOFailed)
		case b.Seeds == 0:
			return noFigure("no rehearsal of the recommended policy reached the question: %s", b.Promise)
		}
	}
	return nil
}

// writeNew writes a file that must not be there yet.
func writeNew(path string, data []byte) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return usagef("%s: is there already; nothing is written over", path)
	case !errors.Is(err, fs.ErrNotExist):
		return usagef("%s: write: %w", path, reason(err))
	}
	if err := writeAtomically(path, data); err != nil {
		return usagef("%w", err)
	}
	return nil
}
