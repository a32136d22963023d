package history

import "strings"

// Environment is what the run stood on.
type Environment struct {
	OS       string    `json:"os"` // GOOS/GOARCH
	CPUs     int       `json:"cpus"`
	Store    StoreInfo `json:"store"`
	Ledger   StoreInfo `json:"ledger"`
	Proxy    string    `json:"proxy,omitempty"`   // between replicas and the locks' store: embedded, external; "" = none
	Fleet    string    `json:"fleet"`             // one of the Fleet words
	Cluster  string    `json:"cluster,omitempty"` // version of the Kubernetes API server
	Replicas int       `json:"replicas"`
	Calls    string    `json:"lock_calls,omitempty"` // CallsBatched, CallsSingle; "" = the replicas are not lockdrill's own, or an older history
}

// How workers send lock operations.
const (
	CallsBatched = "batched" // what is asked at one time travels together
	CallsSingle  = "single"  // each is a command of its own: a proxy on the way can fail it alone
)

// StoreInfo describes a store without addresses or secrets.
type StoreInfo struct {
	Kind    string `json:"kind"`              // embedded, spawned, external
	Version string `json:"version,omitempty"` // as the server says
	RunID   string `json:"run_id,omitempty"`
}

// Called is the server's name and version, kind being the name of one that says only its version.
func (s StoreInfo) Called(kind string) string {
	if s.Version == "" || s.Version[0] >= '0' && s.Version[0] <= '9' {
		return strings.TrimRight(kind+" "+s.Version, " ")
	}
	return s.Version
}

// Calibration is what does not scale with time_scale, measured before the run. All in nanoseconds.
type Calibration struct {
	RTT50   int64 `json:"rtt_p50"`     // round trip to the locks' store
	RTT99   int64 `json:"rtt_p99"`     //
	Timer99 int64 `json:"timer_p99"`   // lateness of a timer in this process
	Expiry  int64 `json:"expiry_late"` // the worst seen lateness of a key's expiry at the store
}

// Prediction is what rehearsals of the same file, at the same time scale and with the round trip just calibrated, came to before the
// drill began.
type Prediction struct {
	Seeds     int64       `json:"seeds"`         // rehearsed drills
	Why       string      `json:"why,omitempty"` // why there are none
	Takeovers []Predicted `json:"takeovers,omitempty"`
}

// Predicted is one series of rehearsed takeovers: those of one lock and one class. Durations in nanoseconds.
type Predicted struct {
	Lock   string `json:"lock"`
	Class  string `json:"class"`
	Values int64  `json:"values"`         // takeovers
	Open   int64  `json:"open,omitempty"` // of these, not seen to end
	Lo     int64  `json:"lo"`             // the least
	P50    int64  `json:"p50"`            // quantiles of the middles; what was not seen to end counts as longer than the rest
	P95    int64  `json:"p95"`
	Hi     *int64 `json:"hi,omitempty"` // the greatest; absent: open
}

// Phase names of a run, in order. The recorder writes one run.phase event at the beginning of each.
const (
	PhaseSteady = "steady" // the steady state must hold before anything is broken
	PhaseFaults = "faults"
	PhaseRevert = "revert" // every fault undone, every paused thing resumed
	PhaseSettle = "settle" // until the horizon: leases and timeouts run out, owed work is finished
	PhaseFinal  = "final"  // the final reads of the ledger and of the keys
)

// Phase is the beginning of a phase of the run.
type Phase struct {
	Name string `json:"name"`
	Why  string `json:"why,omitempty"`
	// Holds is set on the first faults phase: whether the steady state was reached (false: it was not, and Why says what was missing).
	Holds *bool `json:"holds,omitempty"`
	// Lacks is what was missing, where Holds is false.
	Lacks Unsteady `json:"lacks,omitempty"`
}

// Note is the body of run.abort, run.cleanup and run.end.
type Note struct {
	What string `json:"what"`          // abort: one of the Abort constants; cleanup: the thing cleaned; end: completed, aborted, error
	Why  string `json:"why,omitempty"` // one sentence for a person
	OK   bool   `json:"ok"`            // cleanup: verified; end: nothing left behind
	// Last is on end, since schema 3: the number of the last event of each stream. The recorder writes it.
	Last map[string]int64 `json:"last,omitempty"`
}

// What ended a run early.
const (
	AbortSignal       = "signal"        // the operator
	AbortLimit        = "limit"         // limits.max_run is over
	AbortCondition    = "condition"     // abort_when came about
	AbortKillSwitch   = "kill_switch"   // limits.kill_switch is there
	AbortWindow       = "window"        // the calendar closed
	AbortTargetLost   = "target_lost"   // the pods are another cluster's, or cannot be asked
	AbortStoreLost    = "store_lost"    // for good
	AbortReplicasLost = "replicas_lost" // for good
	AbortError        = "error"         // the tool broke
)

// Incarnation is one life of a store's data, noticed by a vanished marker key or a new server run id.
type Incarnation struct {
	Store string `json:"store"` // "locks" or "ledger"
	RunID string `json:"run_id"`
	Life  int    `json:"life"` // 1 is the first
	Why   string `json:"why"`  // start, marker_lost, run_id_changed, or EntriesLost
}

// EntriesLost is the Incarnation.Why of a ledger of which entries are gone that were there.
const EntriesLost = "entries_lost"

// ReplicaOf is the name of the replica that an incarnation is a life of: "r1" of "r1.2".
func ReplicaOf(incarnation string) string {
	name, _, _ := strings.Cut(incarnation, ".")
	return name
}

// Replica is the body of replica.start, replica.ready and replica.exit.
type Replica struct {
	Name        string `json:"name"`        // "r1": stays over restarts
	Incarnation string `json:"incarnation"` // "r1.2": one life, never reused
	PID         int    `json:"pid,omitempty"`
	Started     string `json:"started,omitempty"`  // the system's start time of the process: tells apart reused pids
	Called      string `json:"called,omitempty"`   // start, ready, exit: its owner's word for it, where it is somebody's own process
	Exit        string `json:"exit,omitempty"`     // "signal: killed", "exit status 3"
	Wanted      bool   `json:"wanted,omitempty"`   // exit: the runner ended it (fault or shutdown)
	Lines       int    `json:"lines,omitempty"`    // exit: events that it wrote
	Bad         int    `json:"bad,omitempty"`      // exit: lines that were no events; they are dropped
	BadLine     string `json:"bad_line,omitempty"` // exit: the first of them, with what is wrong with it
	Metrics     string `json:"metrics,omitempty"`  // ready: host:port on loopback where it serves /metrics, or, of somebody's own, its whole address
	Pod         *Pod   `json:"pod,omitempty"`      // start, exit: where a life is that of a container
	By          string `json:"by,omitempty"`       // exit of a life that is not the runner's child: what showed its end, one of the By words
	Unheard     int    `json:"unheard,omitempty"`  // exit of a life in a pod: lines that its log shows as acknowledged, and that never came
}

// Pod is the pod that a life is in. A pod of the same name with another UID is another.
type Pod struct {
	Name     string            `json:"name"`
	UID      string            `json:"uid"`
	Node     string            `json:"node,omitempty"`
	Restarts int32             `json:"restarts,omitempty"` // of its container, before this life
	Labels   map[string]string `json:"labels,omitempty"`
	Created  string            `json:"created,omitempty"` // as the object says, to the second: a label, and an order
}

// What the replicas of a run are.
const (
	FleetProcesses         = "processes"          // workers that the runner starts
	FleetPods              = "pods"               // workers in pods
	FleetObservedPods      = "observed"           // somebody's own pods
	FleetObservedProcesses = "observed_processes" // somebody's own processes of this host
)

// What showed the end of a life.
const (
	ByKernel    = "kernel"     // of a process of this host: a handle of the kernel's on that very process
	ByStatus    = "status"     // the container's status says terminated
	ByLogStream = "log_stream" // a stream of its log, opened before the fault, came to its end
	BySuccessor = "successor"  // the next life of the same container has spoken
)

// Job is the body of job.offer, job.redeliver and job.ack.
type Job struct {
	ID    string `json:"id"`
	Class string `json:"class,omitempty"`
	Hold  int64  `json:"hold,omitempty"` // ns of work that the job needs, time scale applied
	To    string `json:"to,omitempty"`   // offer, redeliver: the incarnation it was given to
	Ack   string `json:"ack,omitempty"`  // ack: done, busy, skipped
	// Due is on offer: the job is not owed before this instant, ns since the origin; nil = from the offer on. Since schema 3.
	Due *Span `json:"due,omitempty"`
}

// Answers of a job.ack.
const (
	AckDone    = "done"    // terminal write accepted
	AckBusy    = "busy"    // the lock was held by another, or the wait budget ran out
	AckSkipped = "skipped" // already terminal when looked at under the lock
)

// Call is the body of the .invoke and .return events of acquire, renew, release and undo (and of release.skipped).
type Call struct {
	TTL     int64  `json:"ttl,omitempty"`     // ns asked for (acquire, renew)
	Result  string `json:"result,omitempty"`  // .return: one of the Result constants
	Holder  string `json:"holder,omitempty"`  // held, other: fingerprint of the token that the key carries
	PTTL    int64  `json:"pttl,omitempty"`    // held: ns that the store still owes the holder; -1 = no expiry
	Err     string `json:"err,omitempty"`     // text of the error, without addresses
	Attempt int    `json:"attempt,omitempty"` // 1 is the first try of this operation
	Fault   string `json:"fault,omitempty"`   // the shot ("burst#1") that made this call fail, where it was made to fail on purpose
	Why     string `json:"why,omitempty"`     // release.skipped: after_abandon, ttl_hold
	Demand  bool   `json:"demand,omitempty"`  // acquire.invoke: somebody wants the lock (always true for our own workers)
	// Answered is for .return on a clock of bounds, ns: the answer came no sooner. Elsewhere it came at the end of the bracket.
	Answered int64 `json:"answered,omitempty"`
	// ID is for acquire.return, granted: the store's own id of the epoch, by which looks and refusals name it; "" = they have the epoch's.
	ID string `json:"id,omitempty"`
}

// Results of calls.
const (
	ResultGranted  = "granted"
	ResultHeld     = "held" // acquire: another holds it
	ResultRenewed  = "renewed"
	ResultReleased = "released"
	ResultAbsent   = "absent" // not owned: the key is gone
	ResultOther    = "other"  // not owned: the key carries another token
	ResultError    = "error"  // an error; the outcome says whether its effect is known
)

// Abandon is the body of abandon, fence.observed and unowned.enter.
// fence.observed ends the belief: the instant from which the holder knows that it may no longer rely on the lock.
// abandon says that work in progress was given up (it is not written for a planned end such as ttl_hold's).
type Abandon struct {
	Reason   string `json:"reason"`             // count, deadline, not_owned, context, expired (a planned hold ran out)
	Failures int    `json:"failures,omitempty"` // consecutive renewal failures at that moment
}

// Work is the body of work.enter and work.exit. Op pairs the two.
type Work struct {
	Subject string `json:"subject"`       // the job's id, or the loop's name
	Why     string `json:"why,omitempty"` // exit: done, fenced, refused, error, stopped
	// Valid is on work.exit: ns left until the validity end on the worker's own clock (negative = worked on past it).
	Valid int64 `json:"valid,omitempty"`
	// HasValid tells a Valid of 0 from a worker that does not say.
	HasValid bool `json:"has_valid,omitempty"`
}

// States that the ledger knows by themselves. Any other word is a state of a job.
const (
	StateBegin = "begin" // an epoch entered work: raises the high-water fence
	StateTick  = "tick"  // one tick of a loop
)

// Write is the body of write.invoke and write.return: a worker's claim about an effect at the ledger.
type Write struct {
	Subject  string `json:"subject"`
	State    string `json:"state"`
	Terminal bool   `json:"terminal,omitempty"`
	Accepted bool   `json:"accepted,omitempty"` // return
	Reason   string `json:"reason,omitempty"`   // return, refused: fenced, terminal
	Current  string `json:"current,omitempty"`  // return: the job's state before this write
	Err      string `json:"err,omitempty"`
}

// Reasons of the ledger's answer.
const (
	ReasonFenced   = "fenced"   // refused: a higher fence has been seen for this key
	ReasonTerminal = "terminal" // refused: strict, and the job is terminal
	ReasonReplay   = "replay"   // accepted before under the same operation id: no new effect
)

// Entry is the body of ledger.entry: evidence, in the ledger's own order. The envelope's span is the bracket in which the
// probe first saw it: absent at From, present at To.
type Entry struct {
	Pos      int64  `json:"pos"` // 1, 2, 3 ... in the ledger's order, refused ones included
	Subject  string `json:"subject"`
	Loop     bool   `json:"loop,omitempty"` // the subject is a loop, else a job
	State    string `json:"state"`
	Terminal bool   `json:"terminal,omitempty"`
	Accepted bool   `json:"accepted"`
	Reason   string `json:"reason,omitempty"`
	Named    string `json:"named,omitempty"` // whom the lock named at that moment: self, other, none; empty = not asked (separate stores)
	Writer   string `json:"writer,omitempty"`
	// Of a system that is not ours: epoch, fence and op are there only where the source names them.
	Foreign bool `json:"foreign,omitempty"`
	// Unordered: the position is that of reading alone. Entries of one read have no order; of two, the order of the reads, where they
	// say their numbers, else that of brackets that do not touch.
	Unordered bool  `json:"unordered,omitempty"`
	Read      int64 `json:"read,omitempty"`
	// Due: the job is not owed before this instant, ns since the origin, as its source says; the bracket has in it by how much the source's
	// clock may be off. nil = it does not say. Since schema 3.
	Due *Span `json:"due,omitempty"`
	// Trace is the W3C traceparent under which it was written, as its source says; "" = it does not say.
	Trace string `json:"trace,omitempty"`
}

// Look is the body of look: one state of a lock key as the probe saw it. A look is recorded when the state changed
// (appeared, vanished, other token, lease extended) and in the final reads; the envelope's span is the look that
// first showed this state, and Prev the last look that still showed the one before. Where a watch told of the change, the span
// is the change's own: after Prev began, and before the watch told of it.
type Look struct {
	Present bool  `json:"present"`
	PTTL    int64 `json:"pttl"`           // ns left; -1 = no expiry, -2 = absent
	Server  int64 `json:"server"`         // the server's clock, microseconds: a label
	Prev    *Span `json:"prev,omitempty"` // nil on the key's first look
	// PrevPTTL is what Prev showed to be left of the lease that was there then, ns; 0 = it does not say.
	PrevPTTL int64 `json:"prev_pttl,omitempty"`
	Final    bool  `json:"final,omitempty"`
	// Where nobody claims (observed systems) the lock itself names its holder.
	Named    string `json:"named,omitempty"`    // as the lock spells it
	Holder   string `json:"holder,omitempty"`   // the incarnation that this is; "" = none that is known
	By       string `json:"by,omitempty"`       // the source that named Holder: a word of system.holder; "" = the lock's own word
	Disputed string `json:"disputed,omitempty"` // Holder is "", since sources name several: which of them says what
	Slack    int64  `json:"slack,omitempty"`    // ns by which PTTL may be too much: the holder extended it before the look saw that
	Released bool   `json:"released,omitempty"` // absent, because its holder said so
	// Direct: the state came right after the one that Prev shows, since a watch told every change; else others may lie between.
	Direct bool `json:"direct,omitempty"`
	// Hash: the key is a hash without expiry, as libraries write it that keep a lock as one. Since schema 3.
	Hash bool `json:"hash,omitempty"`
}

// Match is the body of logmatch: a line of a pod's log. Source is the pod's incarnation.
type Match struct {
	Pattern string `json:"pattern"`        // its name in the experiment
	Text    string `json:"text"`           // the line, cut to 200 characters
	File    string `json:"file,omitempty"` // path of the file that it was written to; "" = it was a pod's log
}

// Object is the body of object: a state of a pod that was seen. The span is the bracket in which it began, as far as is known.
type Object struct {
	Kind        string `json:"kind"` // "pod"
	Name        string `json:"name"`
	UID         string `json:"uid"`
	Incarnation string `json:"incarnation,omitempty"` // the life in it, where there is one
	Phase       string `json:"phase,omitempty"`       // as in its status
	Ready       bool   `json:"ready,omitempty"`
	Restarts    int32  `json:"restarts,omitempty"`
	Waiting     string `json:"waiting,omitempty"` // not ready: for what, such as "worker: ImagePullBackOff (image example/w:1)"
	Ending      bool   `json:"ending,omitempty"`  // it has a deletion timestamp
	Gone        bool   `json:"gone,omitempty"`    // the object is deleted: no word on its process
}

// Coverage is the body of coverage and gap. A coverage event says that over its span the probe looked every time that it
// meant to; one is written about every second, so that a history cut off anywhere shows where evidence ends.
// A gap event's span reaches from the last good look to the next one (or to the end).
type Coverage struct {
	Probe   string `json:"probe"`             // "lock_keys", "ledger"
	Samples int64  `json:"samples,omitempty"` // good looks in the span
	Largest int64  `json:"largest,omitempty"` // ns, the longest stretch between two good looks in the span
	Why     string `json:"why,omitempty"`     // gap
	Lost    bool   `json:"lost,omitempty"`    // gap: something may have been there to be seen, and is gone, however short the gap is
	Failed  bool   `json:"failed,omitempty"`  // gap: looks were tried and failed; Why is what the last of them got
	Partial bool   `json:"partial,omitempty"` // gap: answers came, and Why is what they said that they lack; since schema 3
	Final   bool   `json:"final,omitempty"`   // coverage: the probe's final read is in this span and was complete

	Observer *Observer `json:"observer,omitempty"` // final coverage of observed lock keys: what watching them has cost
}

// Observer is what watching keys has cost their store.
type Observer struct {
	Way      string `json:"way"`              // ByEvents or ByPolling
	Why      string `json:"why,omitempty"`    // ByPolling: why not by events
	Commands int64  `json:"commands"`         // sent
	Events   int64  `json:"events,omitempty"` // told
	Window   int64  `json:"window"`           // ns
	// Processor time of the servers in the window, ns: in all, and about how much of it went to the watching. 0 = they do not tell.
	Server int64 `json:"server,omitempty"`
	Ours   int64 `json:"ours,omitempty"`
}

// Words of Observer.Way.
const (
	ByEvents  = "events"  // keyspace events said what to look at
	ByPolling = "polling" // keys were looked at in turn
)

// ProbeMonitor is the Probe of coverage events that are windows of MONITOR: Samples are the commands that the server told.
const ProbeMonitor = "monitor"

// VictimStore is the Victim of a fault of the locks' store itself.
const VictimStore = "store"

// Fault is the body of all fault events. Op of the envelope is the shot: "kill-holder#3".
type Fault struct {
	ID       string     `json:"id"`                 // of the experiment's file
	Shot     int        `json:"shot"`               // 1, 2, 3 ... attempts of this fault, void ones included
	Kind     string     `json:"kind"`               // as in the file: kill, pause, latency ...
	Form     string     `json:"form,omitempty"`     // kill: crash; failures: error, timeout ...; store: pause, flush ...; network: the stream; delete_key: vanish, stranger
	Victim   string     `json:"victim,omitempty"`   // incarnation, where the fault strikes one; "store" = the locks' store
	Victims  []string   `json:"victims,omitempty"`  // incarnations, where it strikes several or their ways to the store: alive at fire time
	Anchor   int64      `json:"anchor,omitempty"`   // before_renew: end of the renewal or grant that the moment was counted from, ns
	Timing   string     `json:"timing,omitempty"`   // kill: after_grant, after_renew, before_renew, random, acquired
	Why      VoidReason `json:"why,omitempty"`      // void
	Detail   string     `json:"detail,omitempty"`   // one sentence for a person
	Declared int64      `json:"declared,omitempty"` // ns, `for`; or 0 for an instant
	Want     int64      `json:"want,omitempty"`     // operations that the burst was asked to hit; 0 = bounded by time only
	Hits     int64      `json:"hits,omitempty"`     // operations that it did hit, counted where it was done

	Configured string `json:"configured,omitempty"` // its magnitude in a person's words: "+400ms ± 50ms downstream"
	Via        string `json:"via,omitempty"`        // failures: worker or proxy
	// What was measured from outside, ns: the round trip to the store (network faults), the standstill (pauses), the offset (clock).
	Baseline int64 `json:"baseline,omitempty"` // before the fault
	Expected int64 `json:"expected,omitempty"` // during it, from what was configured; network: at least so long; 0 = no answer is expected
	Observed int64 `json:"observed,omitempty"` // during it

	Death *Death `json:"death,omitempty"` // confirmed kills of pods, and of processes that were asked to end
}

// Death is what was seen of the end of a pod's process: a call, an object and a process end at three different times. A process that was
// asked to end has no object.
type Death struct {
	Call   Span   `json:"call"`             // the request that was to end it
	Object *Span  `json:"object,omitempty"` // the API object was gone; nil = not seen, or not asked for
	Sign   int64  `json:"sign"`             // the last sign of life, ns: it surely lived then
	End    *Span  `json:"end,omitempty"`    // the process was surely dead at To, and not at From; nil = nobody saw it
	By     string `json:"by,omitempty"`     // what showed the end, one of the By words
	Means  string `json:"means"`            // api: a delete; worker: told to crash; exec: a command in its container; signal: a process was asked to end
}

// MeansSignal is what Death.Means says of a process that was asked to end.
const MeansSignal = "signal"
