package analysis

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Judge judges h, which is whole. e is the experiment as loaded.
func Judge(e *experiments.Experiment, h *history.History) *verdict.Judgement {
	return FactsOf(e, h).Judge()
}

// atLeast is the bound of a figure from below.
func atLeast[T int | float64 | time.Duration](limit T) *experiments.Bound[T] {
	return &experiments.Bound[T]{Min: &limit}
}

// tape writes a history by hand: each verb records what a real run would have, with brackets of realistic width. Times are
// seconds since the origin; an epoch goes by the name that grant gave it.
type tape struct {
	says    string
	schema  int // 0 = the first that has what is on the tape
	events  []history.Event
	epochs  map[string]*taped
	ops     int
	shots   map[string]history.Fault
	deadAt  map[string]float64
	class   string  // of the jobs that are offered from here on
	windows int     // into which each probe's coverage is cut
	bounds  float64 // by which each end of a claim's bracket is off; 0 = one clock for all
}

// taped is an epoch on the tape.
type taped struct {
	lock, key, id, rep string
	fence              int64
	ttl                float64
	works              []string // ops of work that is not over
}

const ms = 0.001

func newTape(says string) *tape {
	t := &tape{says: says, windows: 2, epochs: map[string]*taped{}, shots: map[string]history.Fault{}, deadAt: map[string]float64{}}
	t.add(0, 0, history.Event{Kind: history.RunEnvironment, Environment: &history.Environment{OS: "linux/amd64", CPUs: 2, Fleet: "processes", Replicas: 2,
		Store: history.StoreInfo{Kind: "spawned", Version: "7.0.15"}, Ledger: history.StoreInfo{Kind: "spawned", Version: "7.0.15"}}})
	t.add(0, 0, history.Event{Kind: history.RunCalibration, Calibration: &history.Calibration{RTT50: 100e3, RTT99: 500e3, Timer99: 1e6, Expiry: 2e6}})
	return t
}

func ns(sec float64) int64 { return int64(math.Round(sec * 1e9)) }

// add records an event with the bracket [from, to].
func (t *tape) add(from, to float64, ev history.Event) {
	ev.Span = history.Span{From: ns(from), To: ns(to)}
	if ev.Source == "" {
		ev.Source = "runner"
	}
	if !strings.HasPrefix(ev.Source, "probe") && ev.Source != "runner" {
		ev.Clock = history.ClockShared
		if t.bounds > 0 {
			ev.Clock = history.ClockBounds
			ev.Span = history.Span{From: ns(from - t.bounds), To: ns(to + t.bounds)}
		}
	}
	t.events = append(t.events, ev)
}

func (t *tape) op(what string) string {
	t.ops++
	return fmt.Sprintf("%s-%d", what, t.ops)
}

func (t *tape) start(at float64, reps ...string) {
	for _, r := range reps {
		name, _, _ := strings.Cut(r, ".")
		t.add(at, at+10*ms, history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: name, Incarnation: r, PID: 100}})
		t.add(at+50*ms, at+50*ms, history.Event{Kind: history.ReplicaReady, Source: r, Replica: &history.Replica{Name: name, Incarnation: r}})
	}
}

func (t *tape) phase(at float64, name string) {
	p := history.Phase{Name: name}
	if name == history.PhaseFaults {
		holds := true
		p.Holds = &holds
	}
	t.add(at, at, history.Event{Kind: history.RunPhase, Phase: &p})
}

// envelope of a claim about the epoch.
func (e *taped) event(kind history.Kind, op string) history.Event {
	return history.Event{Kind: kind, Source: e.rep, Lock: e.lock, Key: e.key, Epoch: e.id, Op: op}
}

// call records an operation at the store that took 1 ms, or took until a timeout.
func (t *tape) call(at, took float64, e *taped, verb string, out history.Outcome, c history.Call) {
	op := t.op(verb)
	invoke := e.event(history.Kind(verb+".invoke"), op)
	invoke.Call = &history.Call{TTL: ns(e.ttl)}
	t.add(at, at, invoke)
	ret := e.event(history.Kind(verb+".return"), op)
	ret.Outcome, ret.Call = out, &c
	if c.Result == history.ResultGranted {
		ret.Fence = e.fence
	}
	if t.bounds > 0 {
		c.Answered = ns(at + took - t.bounds)
	}
	t.add(at, at+took, ret)
}

// want is a lock key as a replica asks for it.
type want struct {
	lock, key string
	ttl       float64
}

func (t *tape) grant(at float64, rep string, w want, id string, fence int64) {
	e := &taped{lock: w.lock, key: w.key, id: id, rep: rep, fence: fence, ttl: w.ttl}
	t.epochs[id] = e
	t.call(at, ms, e, "acquire", history.OK, history.Call{Result: history.ResultGranted})
}

// refuse is an acquire that is told that holder has the key.
func (t *tape) refuse(at float64, rep string, w want, holder string) {
	e := &taped{lock: w.lock, key: w.key, id: t.op("try"), rep: rep, ttl: w.ttl}
	t.call(at, ms, e, "acquire", history.Fail, history.Call{Result: history.ResultHeld, Holder: holder, PTTL: 1e9})
}

// lostGrant is an acquire whose reply never came.
func (t *tape) lostGrant(at float64, rep string, w want, id string) {
	e := &taped{lock: w.lock, key: w.key, id: id, rep: rep, ttl: w.ttl}
	t.epochs[id] = e
	t.call(at, 2, e, "acquire", history.Unknown, history.Call{Result: history.ResultError, Err: "timeout"})
}

func (t *tape) renew(at float64, id string) {
	t.call(at, ms, t.epochs[id], "renew", history.OK, history.Call{Result: history.ResultRenewed})
}

// renewGone is a renewal that is told: not yours.
func (t *tape) renewGone(at float64, id, result string) {
	t.call(at, ms, t.epochs[id], "renew", history.Fail, history.Call{Result: result})
}

// renewHit is a renewal that a burst made fail before it reached the store.
func (t *tape) renewHit(at float64, id, shot string) {
	e := t.epochs[id]
	t.call(at, 0, e, "renew", history.Fail, history.Call{Result: history.ResultError, Err: "injected", Fault: shot})
	hit := e.event(history.FaultHit, shot)
	f := t.shots[shot]
	hit.Fault = &f
	t.add(at, at, hit)
}

func (t *tape) release(at float64, id string) {
	t.call(at, ms, t.epochs[id], "release", history.OK, history.Call{Result: history.ResultReleased})
}

func (t *tape) undo(at float64, id string) {
	t.call(at, ms, t.epochs[id], "undo", history.OK, history.Call{Result: history.ResultReleased})
}

// fence ends the belief; abandoned says that work in progress was given up.
func (t *tape) fence(at float64, id, reason string, abandoned bool) {
	e := t.epochs[id]
	kinds := []history.Kind{history.FenceObserved}
	if abandoned {
		kinds = append(kinds, history.AbandonKind)
	}
	for _, k := range kinds {
		ev := e.event(k, "")
		ev.Abandon = &history.Abandon{Reason: reason}
		t.add(at, at, ev)
	}
}

func (t *tape) skipRelease(at float64, id, why string) {
	ev := t.epochs[id].event(history.ReleaseSkipped, "")
	ev.Call = &history.Call{Why: why}
	t.add(at, at, ev)
}

func (t *tape) enter(at float64, id, subject string) {
	e := t.epochs[id]
	op := t.op("work")
	e.works = append(e.works, op)
	ev := e.event(history.WorkEnter, op)
	ev.Work = &history.Work{Subject: subject}
	t.add(at, at, ev)
}

func (t *tape) exit(at float64, id, subject, why string) {
	e := t.epochs[id]
	op := e.works[len(e.works)-1]
	e.works = e.works[:len(e.works)-1]
	ev := e.event(history.WorkExit, op)
	ev.Work = &history.Work{Subject: subject, Why: why}
	t.add(at, at, ev)
}

// write is an effect with the ledger's answer; refused is the reason of a refusal, "" = accepted.
func (t *tape) write(at float64, id, subject, state, refused string) {
	e := t.epochs[id]
	op := t.op("write")
	terminal := state == "succeeded" || state == "failed"
	loop := !strings.HasPrefix(subject, "j")
	invoke := e.event(history.WriteInvoke, op)
	invoke.Write = &history.Write{Subject: subject, State: state, Terminal: terminal}
	t.add(at, at, invoke)
	ret := e.event(history.WriteReturn, op)
	ret.Outcome, ret.Write = history.OK, &history.Write{Subject: subject, State: state, Terminal: terminal, Accepted: refused == "", Reason: refused}
	t.add(at, at+ms, ret)
	entry := e.event(history.LedgerEntry, op)
	entry.Source, entry.Fence = "probe:ledger", e.fence
	entry.Entry = &history.Entry{Subject: subject, Loop: loop, State: state, Terminal: terminal, Accepted: refused == "", Reason: refused, Writer: e.rep}
	t.add(at-ms, at+3*ms, entry)
}

// begin enters work and writes the epoch's begin.
func (t *tape) begin(at float64, id, subject string) {
	t.enter(at, id, subject)
	t.write(at+ms, id, subject, history.StateBegin, "")
}

// tick is one tick of a loop that takes took.
func (t *tape) tick(at, took float64, id, subject string) {
	t.enter(at, id, subject)
	t.write(at+ms, id, subject, history.StateTick, "")
	t.exit(at+took, id, subject, "done")
}

func (t *tape) offer(at float64, w want, job, to string) {
	t.add(at, at, history.Event{Kind: history.JobOffer, Lock: w.lock, Key: w.key, Job: &history.Job{ID: job, Class: t.class, To: to}})
}

// job is a whole job without trouble: granted, worked for took, finished, released.
func (t *tape) job(at, took float64, rep string, w want, id, job string, fence int64) {
	t.offer(at-5*ms, w, job, rep)
	t.grant(at, rep, w, id, fence)
	t.begin(at+2*ms, id, job)
	t.finish(at+took, id, job)
}

// finish ends a job's work with its terminal write, and gives the lock back.
func (t *tape) finish(at float64, id, job string) {
	t.write(at-5*ms, id, job, "succeeded", "")
	t.exit(at-ms, id, job, "done")
	t.release(at, id)
	ack := t.epochs[id].event(history.JobAck, "")
	ack.Epoch, ack.Job = "", &history.Job{ID: job, Ack: history.AckDone}
	t.add(at+2*ms, at+2*ms, ack)
}

// fault records an event of a shot against the epoch.
func (t *tape) fault(from, to float64, kind history.Kind, shot, id string) {
	ev := history.Event{Kind: kind, Op: shot}
	if e := t.epochs[id]; e != nil {
		ev.Lock, ev.Key, ev.Epoch = e.lock, e.key, e.id
	}
	f := t.shots[shot]
	ev.Fault = &f
	t.add(from, to, ev)
}

// shot declares a shot; its name is "id#n".
func (t *tape) shot(name, kind, timing, victim string) {
	id, num, _ := strings.Cut(name, "#")
	f := history.Fault{ID: id, Kind: kind, Timing: timing, Victim: victim}
	fmt.Sscan(num, &f.Shot)
	t.shots[name] = f
}

// kill is SIGKILL of the replica that holds the epoch.
func (t *tape) kill(at float64, shot, timing, id string) {
	rep := t.epochs[id].rep
	t.shot(shot, "kill", timing, rep)
	t.fault(at-ms, at-ms, history.FaultResolve, shot, id)
	t.fault(at-0.5*ms, at-0.5*ms, history.FaultIntent, shot, id)
	t.fault(at, at+0.1*ms, history.FaultApplied, shot, id)
	name, _, _ := strings.Cut(rep, ".")
	t.add(at, at+2*ms, history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: name, Incarnation: rep, Exit: "signal: killed", Wanted: true}})
	t.fault(at, at+2*ms, history.FaultConfirmed, shot, id)
	t.deadAt[rep] = at
}

// killAndReturn is a kill that was verified, and the next life of its victim.
func (t *tape) killAndReturn(at float64, shot, timing, id, next string) {
	t.kill(at, shot, timing, id)
	t.start(at+0.5, next)
	t.fault(at+0.6, at+0.6, history.FaultVerified, shot, id)
}

// look records a change of a key as the probe saw it, every 5 ms. id "" = the key is gone.
func (t *tape) look(at float64, w want, id string, pttl float64) {
	l := history.Look{Present: id != "", PTTL: ns(pttl) / 1e6 * 1e6, Prev: &history.Span{From: ns(at - 5*ms), To: ns(at - 4*ms)}}
	if id == "" {
		l.PTTL = -2
	}
	t.add(at, at+ms, history.Event{Kind: history.LookKind, Source: "probe:lock_keys", Lock: w.lock, Key: w.key, Epoch: id, Look: &l})
}

// watch records that both probes watched from 0 to the end without a gap, and the final reads.
func (t *tape) watch(end float64) {
	t.cover(experiments.ProbeKeys, end)
	t.cover(facts.ProbeLedger, end)
}

// cover records that the probe watched from 0 to the end without a gap, and its final read.
func (t *tape) cover(probe string, end float64) {
	step := max(1, end/float64(t.windows))
	for at := 0.0; at < end-step/2; at += step {
		t.add(at, at+step, history.Event{Kind: history.CoverageKind, Source: "probe:" + probe,
			Coverage: &history.Coverage{Probe: probe, Samples: int64(step * 200), Largest: 6e6}})
	}
	t.add(end, end+0.1, history.Event{Kind: history.CoverageKind, Source: "probe:" + probe,
		Coverage: &history.Coverage{Probe: probe, Samples: 20, Largest: 6e6, Final: true}})
}

// finale ends the run at the horizon: revert, settle, final reads, clean-up.
func (t *tape) finale(faultsOver, end float64, reps ...string) {
	t.phase(faultsOver, history.PhaseRevert)
	t.phase(faultsOver+ms, history.PhaseSettle)
	t.phase(end, history.PhaseFinal)
	t.watch(end)
	for _, r := range reps {
		name, _, _ := strings.Cut(r, ".")
		t.add(end+0.2, end+0.25, history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: name, Incarnation: r, Exit: "exit status 0", Wanted: true}})
	}
	t.add(end+0.3, end+0.3, history.Event{Kind: history.RunCleanup, Note: &history.Note{What: "replicas", OK: true}})
	t.add(end+0.4, end+0.4, history.Event{Kind: history.RunEnd, Note: &history.Note{What: "completed", OK: true}})
}

// lines gives history.jsonl, in the order of recording: by the end of each bracket. digest names the experiment's file.
// Recorded examples stay what they were: each is of the first schema that can say what it shows.
func (t *tape) lines(name, digest string) []byte {
	evs := slices.Clone(t.events)
	slices.SortStableFunc(evs, func(a, b history.Event) int { return cmp.Compare(a.To, b.To) })
	var pos int64
	for i := range evs {
		evs[i].N, evs[i].At = int64(i+1), evs[i].To
		if evs[i].Entry != nil {
			pos++
			entry := *evs[i].Entry
			entry.Pos = pos
			evs[i].Entry = &entry
		}
	}
	h := history.Header{Tool: "lockdrill test", Run: "20250101T000000Z-" + name, Experiment: name, Digest: digest, Seed: 1, Mode: history.Live,
		TimeScale: 1, Started: "2025-01-01T00:00:00Z", Recorded: t.says}
	if t.schema >= history.SchemaNumbered {
		return byRecorder(h, evs)
	}
	h.Schema = 1
	if slices.ContainsFunc(evs, func(ev history.Event) bool { return ev.Late != nil }) {
		h.Schema = 2
	}
	line, err := json.Marshal(h)
	for i := range evs {
		lines := append(line, '\n')
		one, failed := history.MarshalEvent(&evs[i])
		line, err = append(lines, one...), errors.Join(err, failed, evs[i].Check())
	}
	if err != nil {
		panic(err)
	}
	return append(line, '\n')
}

// byRecorder is what a run's recorder writes of such events.
func byRecorder(h history.Header, evs []history.Event) []byte {
	var buf bytes.Buffer
	at := int64(0)
	rec, err := history.NewRecorder(&buf, h, func() int64 { return at }, nil)
	for _, ev := range evs {
		if err == nil {
			at = ev.At
			_, err = rec.Record(ev)
		}
	}
	if err != nil {
		panic(err)
	}
	return buf.Bytes()
}

// history is what is read of the tape.
func (t *tape) history(tb testing.TB) *history.History {
	tb.Helper()
	h, err := history.Read(bytes.NewReader(t.lines("tape", "sha256:0")))
	if err != nil {
		tb.Fatal(err)
	}
	return h
}
