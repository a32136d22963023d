package experiments

import (
	"fmt"
	"strings"
	"time"
)

// Fault is one fault of the timeline: a typed union. Exactly one of the kind pointers is set.
type Fault struct {
	ID     string
	At     time.Duration // after the steady state
	For    time.Duration // 0 for instants; mandatory where a fault would go on by itself
	Repeat Repeat

	Kill            *Kill
	Pause           *Pause
	RenewFailures   *OpFailures
	AcquireFailures *OpFailures
	ReleaseFailures *OpFailures
	Latency         *Latency
	Jitter          *Jitter
	Bandwidth       *Bandwidth
	BlackHole       *Cut
	Reset           *Cut
	SlowClose       *SlowClose
	Down            *Cut
	Store           *StoreFault
	DeleteKey       *DeleteKey
	Clock           *Clock
}

// Words of Fault.Kind.
const (
	KindKill            = "kill"
	KindPause           = "pause"
	KindRenewFailures   = "renew_failures"
	KindAcquireFailures = "acquire_failures"
	KindReleaseFailures = "release_failures"
	KindLatency         = "latency"
	KindJitter          = "jitter"
	KindBandwidth       = "bandwidth"
	KindBlackHole       = "black_hole"
	KindReset           = "reset"
	KindSlowClose       = "slow_close"
	KindDown            = "down"
	KindStore           = "store"
	KindDeleteKey       = "delete_key"
	KindClock           = "clock"
)

// Kind is the YAML name of the fault's kind.
func (f *Fault) Kind() string {
	switch {
	case f.Kill != nil:
		return KindKill
	case f.Pause != nil:
		return KindPause
	case f.RenewFailures != nil:
		return KindRenewFailures
	case f.AcquireFailures != nil:
		return KindAcquireFailures
	case f.ReleaseFailures != nil:
		return KindReleaseFailures
	case f.Latency != nil:
		return KindLatency
	case f.Jitter != nil:
		return KindJitter
	case f.Bandwidth != nil:
		return KindBandwidth
	case f.BlackHole != nil:
		return KindBlackHole
	case f.Reset != nil:
		return KindReset
	case f.SlowClose != nil:
		return KindSlowClose
	case f.Down != nil:
		return KindDown
	case f.Store != nil:
		return KindStore
	case f.DeleteKey != nil:
		return KindDeleteKey
	case f.Clock != nil:
		return KindClock
	}
	return ""
}

// Aim says whom a fault strikes: exactly one field is set. For network faults the default is all.
type Aim struct {
	HolderOf string // lock: the replica that holds it, or a key of it, at the moment of firing
	Replica  string // one by its name, "r2", whatever it holds
	All      bool   // every replica

	Pods string `file:"-"` // kills: labels of the pods of which one is struck, as Labels spells them
}

// Aim is whom the fault strikes; the zero Aim is the locks' store itself.
func (f *Fault) Aim() Aim {
	switch {
	case f.Kill != nil:
		return Aim{HolderOf: f.Kill.HolderOf, Pods: Labels(f.Kill.Pods)}
	case f.DeleteKey != nil:
		return Aim{HolderOf: f.DeleteKey.HolderOf}
	}
	if a := f.aim(); a != nil {
		return *a
	}
	return Aim{}
}

// aim is the part of the fault that says whom it strikes, of the kinds that leave a choice; or nil.
func (f *Fault) aim() *Aim {
	switch {
	case f.Pause != nil:
		return &f.Pause.Aim
	case f.Failures() != nil:
		return &f.Failures().Aim
	case f.Latency != nil:
		return &f.Latency.Aim
	case f.Jitter != nil:
		return &f.Jitter.Aim
	case f.Bandwidth != nil:
		return &f.Bandwidth.Aim
	case f.SlowClose != nil:
		return &f.SlowClose.Aim
	case f.Cut() != nil:
		return &f.Cut().Aim
	case f.Clock != nil:
		return &f.Clock.Aim
	}
	return nil
}

// Lock is the name of the lock whose holder the fault is aimed at; "" = it is aimed at no holder.
func (f *Fault) Lock() string { return f.Aim().HolderOf }

// Failures is the burst of failing operations that the fault is, or nil.
func (f *Fault) Failures() *OpFailures {
	switch {
	case f.RenewFailures != nil:
		return f.RenewFailures
	case f.AcquireFailures != nil:
		return f.AcquireFailures
	}
	return f.ReleaseFailures
}

// Cut is the fault of the network without a magnitude that the fault is, or nil.
func (f *Fault) Cut() *Cut {
	switch {
	case f.BlackHole != nil:
		return f.BlackHole
	case f.Reset != nil:
		return f.Reset
	}
	return f.Down
}

// Net reports a fault of the way between replicas and the locks' store: it needs a Toxiproxy.
func (f *Fault) Net() bool {
	return f.Latency != nil || f.Jitter != nil || f.Bandwidth != nil || f.SlowClose != nil || f.Cut() != nil
}

// Form is the fault's variant within its kind, as events carry it; "" where there is only one.
func (f *Fault) Form() string {
	switch {
	case f.Kill != nil:
		return f.Kill.Form
	case f.Failures() != nil:
		return string(f.Failures().Mode)
	case f.Latency != nil:
		return string(f.Latency.Stream)
	case f.Jitter != nil:
		return string(f.Jitter.Stream)
	case f.Bandwidth != nil:
		return string(f.Bandwidth.Stream)
	case f.SlowClose != nil:
		return string(f.SlowClose.Stream)
	case f.Store != nil:
		return string(f.Store.Do)
	case f.DeleteKey != nil && f.DeleteKey.To != "":
		return f.DeleteKey.To
	case f.DeleteKey != nil:
		return "vanish"
	}
	return ""
}

// Magnitude is what is configured, in a person's words; "" where the kind and form say all.
func (f *Fault) Magnitude() string {
	switch {
	case f.Latency != nil:
		text := "+" + formatDuration(f.Latency.Add)
		if f.Latency.Jitter > 0 {
			text += " ± " + formatDuration(f.Latency.Jitter)
		}
		return text + " " + string(f.Latency.Stream)
	case f.Jitter != nil:
		return "± " + formatDuration(f.Jitter.By) + " " + string(f.Jitter.Stream)
	case f.Bandwidth != nil:
		return fmt.Sprintf("%d kB/s %s", f.Bandwidth.Rate, f.Bandwidth.Stream)
	case f.SlowClose != nil:
		return formatDuration(f.SlowClose.Delay) + " " + string(f.SlowClose.Stream)
	case f.Clock != nil:
		return formatDuration(f.Clock.Offset)
	case f.Store != nil && f.Store.Lag > 0:
		return "lag " + formatDuration(f.Store.Lag)
	case f.Failures() != nil:
		return f.Failures().magnitude()
	}
	return ""
}

// magnitude is "+200ms 50% of lock job", or as much of it as is declared.
func (b *OpFailures) magnitude() string {
	var parts []string
	if b.Mode == FailDelay {
		parts = append(parts, "+"+formatDuration(b.Delay))
	}
	if b.Share > 0 && b.Share < 1 {
		parts = append(parts, fmt.Sprintf("%.3g%%", 100*b.Share))
	}
	if b.Lock != "" {
		parts = append(parts, "of lock "+b.Lock)
	}
	return strings.Join(parts, " ")
}

// Repeat says how many shots a fault has. Settled: the next shot waits until the last one has settled; else every Every.
type Repeat struct {
	Count   int // at least 1
	Settled bool
	Every   time.Duration
}

// Kill ends the replica that holds a key of the lock at the moment of firing: a process by SIGKILL, a pod in one of three forms. A pod
// can also be chosen by its labels, whatever it holds.
type Kill struct {
	HolderOf string            // the lock; "" = Pods
	Pods     map[string]string // labels: one pod that has them
	Pick     PickPod           // which of those
	Phase    KillPhase         // with Pods: random
	Form     string            // one of the Form words
	Exec     []string          // crash of a pod that is not our worker: a command that ends the process, run in its container
}

// Words of Kill.Form.
const (
	FormCrash       = "crash"        // the process dies at once, without a word
	FormGraceful    = "graceful"     // pods: deleted with the grace that the pod declares
	FormForceDelete = "force_delete" // pods: deleted with grace 0, which is no SIGKILL: docs/kubernetes.md
)

// PickPod says which of several pods is struck.
type PickPod string

const (
	PickRandom PickPod = "random"
	PickOldest PickPod = "oldest"
	PickNewest PickPod = "newest"
)

// KillPhase is the moment within the lease at which a kill is fired.
type KillPhase string

const (
	KillAfterGrant  KillPhase = "after_grant"
	KillAfterRenew  KillPhase = "after_renew"
	KillBeforeRenew KillPhase = "before_renew"
	KillRandom      KillPhase = "random"
	KillAcquired    KillPhase = "acquired" // `on: acquired`: the next grant of any key of the lock, for locks too short to be held by chance
)

// Pause is SIGSTOP of a replica, and SIGCONT after For: a long garbage collection.
type Pause struct{ Aim }

// OpFailures makes operations on the lock fail: in the replica's own store client, or, for any client, on the way to the store.
// It is bounded by Count or by the fault's For. With HolderOf it strikes renewals and releases of the held key, and acquires of
// that replica.
type OpFailures struct {
	Aim
	Lock  string        // replica and all: only operations on this lock; "" = on every lock
	Mode  FailMode      //
	Count int           // so many operations; 0 = all during For
	Share float64       // of the operations, each by chance; 0 = all of them
	Delay time.Duration // mode delay: for so long
	Via   string        // worker (default) or proxy
}

// FailMode is how an operation fails.
type FailMode string

const (
	FailError     FailMode = "error"      // refused at once, surely without effect
	FailTimeout   FailMode = "timeout"    // never sent on; no answer
	FailDelay     FailMode = "delay"      // held back, then sent on
	FailLostReply FailMode = "lost_reply" // executed; no answer
)

// Where operations are made to fail.
const (
	ViaWorker = "worker"
	ViaProxy  = "proxy"
)

// Stream is the direction of a fault of the network, seen from the replica: upstream carries requests, downstream replies.
type Stream string

const (
	StreamUp   Stream = "upstream"
	StreamDown Stream = "downstream"
	StreamBoth Stream = "both"
)

// Latency delays what goes through by Add, give or take Jitter: in each direction that Stream names (default downstream).
type Latency struct {
	Aim
	Add, Jitter time.Duration
	Stream      Stream
}

// Jitter delays by anything from nothing to twice By.
type Jitter struct {
	Aim
	By     time.Duration
	Stream Stream
}

// Bandwidth limits what goes through.
type Bandwidth struct {
	Aim
	Rate   int // kB/s
	Stream Stream
}

// Cut is a fault of the network without a magnitude. black_hole: nothing gets through, connections stay open. reset: connections
// are reset. down: nobody listens. All of both directions.
type Cut struct{ Aim }

// SlowClose keeps connections from closing for Delay.
type SlowClose struct {
	Aim
	Delay  time.Duration
	Stream Stream
}

// StoreFault befalls the locks' store itself; the ledger is never touched.
type StoreFault struct {
	Do   StoreDo
	Keep bool          // restart and stop: the data survives
	Lag  time.Duration // failover: so much of the last writes is lost
}

// StoreDo is what is done to the store.
type StoreDo string

const (
	StorePause    StoreDo = "pause"    // CLIENT PAUSE for For
	StoreFreeze   StoreDo = "freeze"   // SIGSTOP of the server for For
	StoreRestart  StoreDo = "restart"  // killed and started again at once
	StoreStop     StoreDo = "stop"     // killed, and started again after For
	StoreFlush    StoreDo = "flush"    // FLUSHALL
	StoreFailover StoreDo = "failover" // the primary is killed, and a replica that lags becomes the primary
)

// DeleteKey removes the key of a held lock under its holder.
type DeleteKey struct {
	HolderOf string
	To       string // "stranger": for For the key carries a token that nobody knows; "" = it vanishes
}

// Clock moves the wall clock of a replica as its lock core sees it, for For.
type Clock struct {
	Aim
	Offset time.Duration // may be negative
}
