package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// Lock is the instruments of one lock: a client.Instruments, and what the protected resource says of its writes.
type Lock struct {
	acquires, renewals, abandoned, notOwned, releases, stale *prometheus.CounterVec
	waits, held, debt                                        prometheus.ObserverVec
	orphans, regressions, unownedWork, overrun               prometheus.Counter
	rtt, margin                                              prometheus.Observer
	holders, unowned                                         prometheus.Gauge

	fences fences
}

var _ client.Instruments = (*Lock)(nil)

// For gives the instruments of one lock. Its counters are there from the beginning, at 0, with every value that their labels can
// have: a series that is missing then means that nobody counts. Observations by class come with their class.
func (m *Metrics) For(of Labels) *Lock {
	l := prometheus.Labels{labelNamespace: of.Namespace, labelProfile: of.Profile, labelPolicy: of.Policy}
	k := &Lock{
		acquires: m.acquires.MustCurryWith(l), renewals: m.renewals.MustCurryWith(l), abandoned: m.abandoned.MustCurryWith(l),
		notOwned: m.notOwned.MustCurryWith(l), releases: m.releases.MustCurryWith(l), stale: m.stale.MustCurryWith(l),
		waits: m.waits.MustCurryWith(l), held: m.held.MustCurryWith(l), debt: m.debt.MustCurryWith(l),
		orphans: m.orphans.With(l), regressions: m.regressions.With(l), unownedWork: m.unownedWork.With(l), overrun: m.overrun.With(l),
		rtt: m.rtt.With(l), margin: m.margin.With(l), holders: m.holders.With(l), unowned: m.unowned.With(l),
		fences: newFences(),
	}
	for _, r := range []lockcore.Result{lockcore.OK, lockcore.Held, lockcore.Unknown, lockcore.Failed, lockcore.Cancelled} {
		for _, mode := range []lockcore.AcquireMode{lockcore.AcquireTry, lockcore.AcquireWait} {
			k.acquires.WithLabelValues(string(mode), word("granted", r))
		}
	}
	for _, r := range []lockcore.Result{lockcore.OK, lockcore.Absent, lockcore.Other, lockcore.Failed, lockcore.Unknown} {
		k.renewals.WithLabelValues(word("renewed", r))
		k.releases.WithLabelValues(word("released", r))
	}
	k.releases.WithLabelValues(string(lockcore.Skipped))
	for _, r := range []lockcore.Reason{lockcore.ReasonCount, lockcore.ReasonDeadline, lockcore.ReasonNotOwned, lockcore.ReasonContext} {
		k.abandoned.WithLabelValues(string(r))
	}
	for _, op := range []lockcore.Op{lockcore.OpRenew, lockcore.OpRelease, lockcore.OpUndo} {
		k.notOwned.WithLabelValues(string(op), string(lockcore.Absent))
		k.notOwned.WithLabelValues(string(op), string(lockcore.Other))
	}
	for _, d := range []client.Debt{client.DebtReleaseFailed, client.DebtReleaseSkipped, client.DebtOrphan} {
		k.debt.WithLabelValues(string(d))
	}
	for _, outcome := range []string{staleRefused, staleApplied} {
		k.stale.WithLabelValues(outcome)
	}
	return k
}

// Sought implements client.Instruments.
func (k *Lock) Sought(s client.Seeking) {
	k.acquires.WithLabelValues(string(s.Mode), word("granted", s.Result)).Inc()
	k.waits.WithLabelValues(s.Class).Observe(s.Took.Seconds())
	if s.Result == lockcore.OK && k.fences.wentBack(s.Key, s.Fence) {
		k.regressions.Inc()
	}
}

// Called implements client.Instruments.
func (k *Lock) Called(op lockcore.Op, r lockcore.Result, took time.Duration) {
	if op == lockcore.OpRenew {
		k.renewals.WithLabelValues(word("renewed", r)).Inc()
		k.rtt.Observe(took.Seconds())
	}
	if op != lockcore.OpAcquire && (r == lockcore.Absent || r == lockcore.Other) {
		k.notOwned.WithLabelValues(string(op), string(r)).Inc()
	}
}

// Holding implements client.Instruments.
func (k *Lock) Holding(delta int) { k.holders.Add(float64(delta)) }

// Unowned implements client.Instruments.
func (k *Lock) Unowned(delta int, worked time.Duration) {
	k.unowned.Add(float64(delta))
	k.unownedWork.Add(max(0, worked.Seconds()))
}

// Abandoned implements client.Instruments.
func (k *Lock) Abandoned(r lockcore.Reason) { k.abandoned.WithLabelValues(string(r)).Inc() }

// Overran implements client.Instruments.
func (k *Lock) Overran() { k.overrun.Inc() }

// Stopped implements client.Instruments.
func (k *Lock) Stopped(s client.Stopping) {
	k.held.WithLabelValues(s.Class).Observe(s.Held.Seconds())
	k.margin.Observe(s.Margin.Seconds())
}

// Released implements client.Instruments.
func (k *Lock) Released(r lockcore.Result) { k.releases.WithLabelValues(word("released", r)).Inc() }

// Indebted implements client.Instruments.
func (k *Lock) Indebted(d client.Debt, owed time.Duration) {
	k.debt.WithLabelValues(string(d)).Observe(owed.Seconds())
	if d == client.DebtOrphan {
		k.orphans.Inc()
	}
}

// Outcomes of stale writes.
const (
	staleRefused = "refused"
	staleApplied = "applied"
)

// StaleWrite counts a write that the protected resource knew to come from a superseded holder: refused, or applied because it does
// not compare fences.
func (k *Lock) StaleWrite(refused bool) {
	outcome := staleApplied
	if refused {
		outcome = staleRefused
	}
	k.stale.WithLabelValues(outcome).Inc()
}
