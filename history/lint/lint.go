// Package lint holds what a worker says against the rules of the worker protocol, line by line as it was recorded: what no measure asks
// for, and what makes a judgement rest on nothing. It decides about no promise.
// Its one invariant: a line that a right worker may write, on a machine however busy, in a drill with whatever faults, is no finding.
package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Finding is a line that breaks a rule: by whom, and the numbers of the events that show it.
type Finding struct {
	Code, Source, What string
	Evidence           []int64
}

// Lock is what the rules need to know of a lock.
type Lock struct {
	Policy   lockcore.Policy // durations as they were run
	Unfenced bool
	NoLook   bool // finished jobs are done again
}

// Linter reads one history, in its order. It is not safe for concurrent use.
type Linter struct {
	locks  map[string]Lock
	found  []Finding
	said   map[[2]string]bool
	open   map[opID]*open
	used   map[opID]bool
	wrote  map[[2]string]*wrote // by source and operation of an effect
	epochs map[string]*epoch
	lives  map[string]*life
	keys   map[string]*key

	seen     map[string]int64  // epochs that keys carried, and when that was surely so
	pending  []pendingEffect   // their epochs had not been asked for when they were read
	silent   map[string]int64  // epochs whose lease was extended before any renewal was announced: the look
	finished map[string]string // job: epoch that finished it
	done     map[string]bool   // jobs whose terminal state the ledger has
	asked    map[string]int64  // incarnations that a fault has sent SIGTERM: its line
	final    int64             // line of the phase in which the replicas are told to end; 0 = not yet
	withheld map[string]int64  // shots under which replies may be kept back: line of each
	kept     int64             // until when some reply may have been kept back, ns
	late     []history.Span    // in which the machine was late
	clocks   bool              // a fault has set wall clocks off: a lock core may then stop before it is fenced
	touched  bool              // a fault has changed keys, or the store
	ids      bool              // the store has ids of its own for its grants
	stepped  bool              // see Stepped
}

// wrote is an effect as its writer announced it.
type wrote struct {
	effect   string
	asked    int
	replayed int64 // the answer to a single asking says that it was there; 0 = none does
	entered  bool  // the ledger has the operation
}

type opID struct{ source, op, what string }

type open struct {
	n, from, at int64
	lock        string
}

type epoch struct {
	source, lock      string
	grantedAt         int64 // the answer
	invoked, granted  int64 // lines; 0 = none yet
	renewed           bool  // a renewal was announced
	entered, exited   int64 // lines
	exitTo            int64
	releasing         bool
	skipped, observed bool
	lost, lostAt      int64 // the line that told its holder that the lock was gone
	freed             int64 // when its release was over
	begins            int
	begun             bool  // the answer to its begin came
	again             int64 // the begin that it wrote for a job that was finished
}

// life is one incarnation.
type life struct {
	started     history.Span
	ready       int64 // line; 0 = not yet
	disarmed    bool
	unanswered  map[string]int64 // jobs whose terminal state it wrote, and no answer yet
	delays      []history.Span   // of its lines: from the stamp to the recording
	slow        slowCalls
	early       *Finding           // its first key that was seen before its announcement
	overran     *Finding           // its first call beyond its limit
	asks, ticks map[string][]int64 // by loop: instants
	wrote       int64              // newest stamp of a line that was written at its stamp
	stamps      [64]int64          // the newest of them
	n           int
}

// slowCalls are the calls of a life that took at least slowCall: on a machine that reads lines late, as many of their ends as of their
// announcements come late.
type slowCalls struct {
	all, long           int   // calls; those of at least leastDelay
	n, announced, ended int   // of at least slowCall: all; those whose announcement came when they were over; those whose end came as late
	first               int64 // line of the first announcement that came so late
}

type key struct {
	epoch string
	ends  int64        // of the TTL, as last seen
	other history.Span // when it was last seen to carry another epoch than before
}

type pendingEffect struct {
	epoch, writer string
	n             int64
}

// Shot is the shot that replicas are armed with when the work is over, of a fault that no experiment has and that selects no call: they
// answer with its end.
const (
	ShotFault = "protocol"
	Shot      = ShotFault + "#1"
)

// Stepped says that the runner took the replicas through the steps of system.check_worker.
func (l *Linter) Stepped() *Linter {
	l.stepped = true
	return l
}

// New returns a linter of histories in which these locks are drilled, by name.
func New(locks map[string]Lock) *Linter {
	return &Linter{locks: locks, said: map[[2]string]bool{}, open: map[opID]*open{}, used: map[opID]bool{}, wrote: map[[2]string]*wrote{},
		epochs: map[string]*epoch{}, lives: map[string]*life{}, keys: map[string]*key{}, seen: map[string]int64{}, silent: map[string]int64{},
		finished: map[string]string{}, done: map[string]bool{}, asked: map[string]int64{}, withheld: map[string]int64{}}
}

// find says it once for each replica.
func (l *Linter) find(code, source, what string, evidence ...int64) {
	if id := [2]string{code, source}; !l.said[id] {
		l.said[id] = true
		l.found = append(l.found, Finding{code, source, what, evidence})
	}
}

func (l *Linter) policy(lock string) *lockcore.Policy {
	p := l.locks[lock].Policy
	return &p
}

func (l *Linter) epoch(e *history.Event) *epoch {
	x := l.epochs[e.Epoch]
	if x == nil {
		x = &epoch{source: e.Source, lock: e.Lock}
		l.epochs[e.Epoch] = x
	}
	return x
}

func (l *Linter) life(source string) *life {
	x := l.lives[source]
	if x == nil {
		x = &life{unanswered: map[string]int64{}, asks: map[string][]int64{}, ticks: map[string][]int64{}}
		l.lives[source] = x
	}
	return x
}

// See takes the next event of the history.
func (l *Linter) See(e *history.Event) {
	claim := e.Clock == history.ClockShared || e.Clock == history.ClockBounds
	if claim && e.Fault == nil {
		l.line(e)
	}
	switch e.Kind {
	case history.ReplicaReady:
		l.life(e.Replica.Incarnation).ready = e.N
	case history.ReplicaStart:
		l.life(e.Replica.Incarnation).started = e.Span
	case history.RunPhase:
		if e.Phase.Name == history.PhaseFinal {
			l.final = e.N
		}
	case history.ReplicaExit:
		l.exit(e)
	case history.MachineLate:
		l.late = append(l.late, e.Span)
	case history.AcquireInvoke, history.RenewInvoke, history.ReleaseInvoke, history.UndoInvoke, history.WriteInvoke:
		l.invoke(e)
	case history.AcquireReturn, history.RenewReturn, history.ReleaseReturn, history.UndoReturn, history.WriteReturn:
		l.returned(e)
	case history.WorkEnter:
		x := l.epoch(e)
		if x.granted == 0 {
			l.find("work_before_grant", e.Source, "work is entered under epoch "+e.Epoch+", which was not granted", e.N)
		}
		x.entered, x.exited = e.N, 0
	case history.WorkExit:
		x := l.epoch(e)
		x.exited, x.exitTo = e.N, e.To
		if e.Work.Why == whyFenced && !x.observed && !l.clocks {
			x.lost, x.lostAt = e.N, e.To
		}
	case history.FenceObserved:
		l.epoch(e).observed = true
	case history.ReleaseSkipped:
		l.skip(e)
	case history.LedgerEntry:
		l.entry(e)
	case history.LookKind:
		l.look(e)
	case history.JobAck:
		delete(l.life(e.Source).unanswered, e.Job.ID)
		if e.Job.Ack == history.AckDone && l.finished[e.Job.ID] == "" {
			l.find("acked_undone", e.Source, "job "+e.Job.ID+" is answered done, and no terminal state of it was written", e.N)
		}
	case history.FaultApplied, history.FaultReverted:
		l.fault(e)
	}
}

// whyFenced is the why of a work.exit whose lock could not be relied on any more.
const whyFenced = "fenced"

// line takes a line that a replica wrote, whatever it says.
func (l *Linter) line(e *history.Event) {
	x := l.life(e.Source)
	x.delays = append(x.delays, history.Span{From: e.To, To: e.At})
	if e.Outcome == "" && e.From == e.To {
		x.wrote = max(x.wrote, e.To)
		x.stamps[x.n%len(x.stamps)] = e.To
		x.n++
	}
}

// ran reports that the replica surely ran at some time between two instants: it wrote a line then.
func (x *life) ran(from, to int64) bool {
	return slices.ContainsFunc(x.stamps[:min(x.n, len(x.stamps))], func(s int64) bool { return from <= s && s <= to })
}

func (l *Linter) fault(e *history.Event) {
	f, begins := e.Fault, e.Kind == history.FaultApplied
	if e.Op == Shot {
		l.life(e.Source).disarmed = true
		return
	}
	does := fault.Seen(f.Kind, f.Form, f.Via).Traits()
	l.touched = l.touched || does.AtKey || does.AtStore
	l.clocks = l.clocks || does.InVictim && !does.Kills && does.Fails == "" && does.Stands == 0
	if does.Kills && begins && f.Form == "graceful" {
		l.asked[f.Victim] = e.N
	}
	if !does.Cuts && !does.Drops && !does.Applied {
		return
	}
	if begins {
		l.withheld[e.Op] = e.N
	} else if delete(l.withheld, e.Op); e.Source == "runner" {
		l.kept = max(l.kept, e.To)
	}
}

func (l *Linter) skip(e *history.Event) {
	x := l.epoch(e)
	x.skipped, x.freed = true, e.At
	p := l.policy(e.Lock)
	releases := p.Release.Mode != lockcore.ReleaseNone && p.Release.Mode != ""
	if e.Call.Why == "ttl_hold" && releases && (p.Loop == nil || p.Loop.Mode != lockcore.LoopTTLHold) {
		l.find("left_against_policy", e.Source, "epoch "+e.Epoch+" is left to its TTL, and the policy releases it", e.N)
	}
}

// mostUnderWay is how long a line may be under way that was written before its call.
const mostUnderWay = 100 * time.Millisecond

// wasLate reports that the machine was late at some time between two instants.
func (l *Linter) wasLate(from, to int64) bool {
	return slices.ContainsFunc(l.late, func(s history.Span) bool { return s.From <= to && from <= s.To })
}

// End says what only the whole record shows, and gives all findings, by code and replica. It may be asked again.
func (l *Linter) End() []Finding {
	for _, p := range l.pending {
		x, w := l.epochs[p.epoch], l.lives[p.writer]
		if w != nil && w.ready != 0 && (x == nil || x.invoked == 0) {
			l.find("effect_of_nobody", p.writer, "an effect names the epoch "+p.epoch+", which nobody asked for", p.n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.silent)) {
		if x := l.epochs[name]; !x.renewed && !l.touched {
			l.find("renewed_in_silence", x.source, "the lease of epoch "+name+" was extended, and no renewal was announced", l.silent[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.epochs)) {
		x := l.epochs[name]
		if w := l.lives[x.source]; x.lost != 0 && !x.observed && w != nil && w.wrote > x.lostAt+int64(mostUnderWay) {
			l.find("lost_in_silence", x.source, "the lock was lost, and nothing says that epoch "+name+" is relied on no more", x.lost)
		}
	}
	for op, w := range l.wrote {
		if w.replayed != 0 && !w.entered {
			l.find("op_of_two_effects", op[0], "the ledger answers replay to operation "+op[1]+", which is asked for once, and does not have it", w.replayed)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(l.lives)) {
		l.endOf(source, l.lives[source])
	}
	slices.SortStableFunc(l.found, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Source, b.Source)) })
	return l.found
}

// leastLines is from how many lines of a replica on their delay says something, and leastDelay what three in four of them must
// have: a busy machine delays some. leastSlow is the same for calls of at least slowCall that were announced too late.
const (
	leastLines = 50
	leastDelay = 25 * time.Millisecond
	leastSlow  = 10
	slowCall   = 5 * time.Millisecond
)

func (l *Linter) endOf(source string, x *life) {
	for _, job := range slices.Sorted(maps.Keys(x.unanswered)) {
		if e := l.epochs[l.finished[job]]; e != nil && e.freed != 0 && x.wrote > e.freed+int64(l.policy(e.lock).TTL) {
			l.find("unanswered_offer", source, "it has finished "+job+" and never answers the offer", x.unanswered[job])
		}
	}
	if 2*x.slow.long > x.slow.all {
		return // it is starved: what comes late says nothing of it
	}
	if x.overran != nil {
		l.find(x.overran.Code, source, x.overran.What, x.overran.Evidence...)
	}
	var delays []time.Duration
	for _, d := range x.delays {
		if !l.wasLate(d.From, d.To) {
			delays = append(delays, time.Duration(d.To-d.From))
		}
	}
	slices.Sort(delays)
	if n := len(delays); n >= leastLines && delays[n/4] > leastDelay {
		l.find("late_lines", source, fmt.Sprintf("three in four of its lines came %s or more after their stamp", delays[n/4].Round(time.Millisecond)))
	}
	switch s := &x.slow; {
	case x.early != nil && s.ended <= s.announced: // else its lines are read late, whatever they say
		l.find(x.early.Code, source, x.early.What, x.early.Evidence...)
	case s.announced >= leastSlow && s.announced >= 3*s.ended:
		l.find("announced_late", source, fmt.Sprintf("of %d calls that took %s or more %d were announced when they were over", s.n, slowCall, s.announced), s.first)
	}
	for _, name := range slices.Sorted(maps.Keys(l.locks)) {
		if p := l.policy(name); p.Loop != nil && x.ready != 0 {
			l.pace(source, name, p, x)
		}
	}
}

// pace holds the ticks and the asking of one replica for one loop against loop.poll.
func (l *Linter) pace(source, name string, p *lockcore.Policy, x *life) {
	poll, ticks := int64(p.Loop.Poll), x.ticks[name]
	if n := len(ticks) - 1; n >= 10 {
		if took := ticks[n] - ticks[0]; float64(n) > 1.5*float64(took)/float64(poll)+2 {
			l.find("hasty_ticks", source, fmt.Sprintf("%d ticks of %s in %s, one every %s is asked for", n, name, time.Duration(took).Round(time.Millisecond), p.Loop.Poll))
		}
	}
	var gaps []int64 // while another led
	for i, at := range x.asks[name] {
		if i > 0 && (len(ticks) == 0 || at < ticks[0]) {
			gaps = append(gaps, at-x.asks[name][i-1])
		}
	}
	slices.Sort(gaps)
	if n := len(gaps); n >= 3 && gaps[n/2] > 2*poll+int64(p.Acquire.Timeout) {
		l.find("lazy_follower", source, fmt.Sprintf("it asks for %s every %s while another leads, one attempt every %s is asked for", name, time.Duration(gaps[n/2]).Round(time.Millisecond), p.Loop.Poll))
	}
}
