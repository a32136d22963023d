package reports

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// drill is an experiment with a loop, a job lock and two faults.
func drill() *experiments.Experiment {
	loop := experiments.Lock{Name: "reconciler", Key: "cordum:reconciler:default"}
	loop.Policy.Loop = new(lockcore.Loop)
	return &experiments.Experiment{
		Name:   "first-drill",
		System: experiments.System{Locks: []experiments.Lock{loop, {Name: "job", KeyPrefix: "job:"}}, Work: []experiments.Work{{Lock: "job", Jobs: 200}}},
		Faults: []experiments.Fault{
			{ID: "kill-holder", Repeat: experiments.Repeat{Count: 6}, Spec: &fault.Kill{HolderOf: "reconciler"}},
			{ID: "burst", Repeat: experiments.Repeat{Count: 1}, Spec: &fault.Failures{Of: lockcore.OpRenew, Aim: fault.Aim{HolderOf: "job"}}},
		},
		Limits: experiments.RunLimits{MaxRun: time.Minute},
	}
}

func when(seconds float64) history.Span { return history.At(int64(seconds * 1e9)) }

// runEvents is a short run, one event of each kind that is told and some that are not.
func runEvents() []history.Event {
	const reconciler, key = "reconciler", "cordum:reconciler:default"
	kill := &history.Fault{ID: "kill-holder", Shot: 1, Kind: "kill", Form: "crash", Victim: "r1.1"}
	held := &history.Fault{ID: "kill-holder", Shot: 1, Kind: "kill", Form: "crash", Victim: "r1.1", Detail: "waitpid says SIGKILL"}
	void := &history.Fault{ID: "kill-holder", Shot: 2, Kind: "kill", Why: "no_target", Detail: "nobody held the key for 2s"}
	burst := &history.Fault{ID: "burst", Shot: 1, Kind: "renew_failures", Form: "error", Victim: "r2.1", Want: 3}
	spent := &history.Fault{ID: "burst", Shot: 1, Kind: "renew_failures", Form: "error", Victim: "r2.1", Hits: 3}
	runner := func(s float64, e history.Event) history.Event { e.Span, e.Source = when(s), "runner"; return e }
	return []history.Event{
		runner(0, history.Event{Kind: history.RunEnvironment, Environment: &history.Environment{OS: "linux/amd64", CPUs: 2,
			Store: history.StoreInfo{Kind: "spawned", Version: "7.0.15"}, Ledger: history.StoreInfo{Kind: "spawned", Version: "7.0.15"},
			Fleet: "processes", Replicas: 3}}),
		runner(0, history.Event{Kind: history.RunCalibration, Calibration: &history.Calibration{RTT50: 81_234, RTT99: 312_345, Timer99: 1_123_456, Expiry: 2_098_765}}),
		runner(0.1, history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", PID: 4711}}),
		{Kind: history.ReplicaReady, Span: when(0.2), Source: "r1.1", Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", PID: 4711}},
		runner(0.3, history.Event{Kind: history.RunPhase, Phase: &history.Phase{Name: history.PhaseSteady}}),
		{Kind: history.AcquireInvoke, Span: when(0.4), Source: "r1.1", Lock: reconciler, Key: key, Epoch: "aa", Op: "1", Call: &history.Call{}},
		{Kind: history.AcquireReturn, Span: when(0.5), Source: "r1.1", Lock: reconciler, Key: key, Epoch: "aa", Op: "1", Fence: 17, Outcome: history.OK, Call: &history.Call{Result: history.ResultGranted}},
		{Kind: history.LookKind, Span: when(0.6), Source: "probe:lock_keys", Lock: reconciler, Key: key, Epoch: "aa", Look: &history.Look{Present: true, PTTL: 3e9}},
		{Kind: history.AcquireReturn, Span: when(0.7), Source: "r2.1", Lock: "job", Key: "job:1", Epoch: "bb", Op: "1", Fence: 18, Outcome: history.OK, Call: &history.Call{Result: history.ResultGranted}},
		{Kind: history.LookKind, Span: when(0.7), Source: "probe:lock_keys", Lock: "job", Key: "job:1", Epoch: "bb", Look: &history.Look{Present: true, PTTL: 3e9}},
		{Kind: history.LedgerEntry, Span: when(0.9), Source: "probe:ledger", Lock: "job", Key: "job:0", Epoch: "cc", Op: "w", Entry: &history.Entry{Pos: 1, Subject: "0", State: "done", Terminal: true, Accepted: true}},
		runner(1, history.Event{Kind: history.RunPhase, Phase: &history.Phase{Name: history.PhaseFaults}}),
		runner(1.5, history.Event{Kind: history.FaultIntent, Op: "kill-holder#1", Lock: reconciler, Key: key, Epoch: "aa", Fault: kill}),
		runner(1.5, history.Event{Kind: history.FaultApplied, Op: "kill-holder#1", Lock: reconciler, Key: key, Epoch: "aa", Fault: kill}),
		runner(1.6, history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", PID: 4711, Exit: "signal: killed"}}),
		runner(1.7, history.Event{Kind: history.FaultConfirmed, Op: "kill-holder#1", Lock: reconciler, Key: key, Epoch: "aa", Fault: held}),
		{Kind: history.LedgerEntry, Span: when(1.9), Source: "probe:ledger", Lock: "job", Key: "job:1", Epoch: "bb", Op: "w", Fence: 18, Entry: &history.Entry{Pos: 2, Subject: "1", State: "done", Terminal: true, Reason: history.ReasonFenced}},
		runner(2, history.Event{Kind: history.FaultVerified, Op: "kill-holder#1", Fault: kill}),
		runner(2.5, history.Event{Kind: history.FaultVoid, Op: "kill-holder#2", Fault: void}),
		runner(3, history.Event{Kind: history.FaultApplied, Op: "burst#1", Lock: "job", Key: "job:1", Epoch: "bb", Fault: burst}),
		{Kind: history.AbandonKind, Span: when(3.4), Source: "r2.1", Lock: "job", Key: "job:1", Epoch: "bb", Abandon: &history.Abandon{Reason: "count", Failures: 3}},
		{Kind: history.FaultReverted, Span: when(3.5), Source: "r2.1", Op: "burst#1", Fault: spent},
		{Kind: history.UnownedEnter, Span: when(3.6), Source: "r2.1", Lock: "job", Key: "job:1", Epoch: "bb", Abandon: &history.Abandon{}},
		{Kind: history.GapKind, Span: history.Span{From: 3.6e9, To: 3.7e9}, Source: "probe:lock_keys", Coverage: &history.Coverage{Probe: "lock_keys", Why: "i/o timeout"}},
		{Kind: history.ReplicaReady, Span: when(3.9), Source: "runner", Replica: &history.Replica{Name: "r3", Incarnation: "r3.1", PID: 4713, Called: "sched-c"}},
		runner(4, history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: "r3", Incarnation: "r3.1", Called: "sched-c", Exit: "exit status 3"}}),
		runner(4.5, history.Event{Kind: history.StoreIncarnation, Incarnation: &history.Incarnation{Store: "locks", Life: 2, Why: "marker_lost"}}),
		runner(5, history.Event{Kind: history.RunAbort, Note: &history.Note{What: "signal", Why: "interrupt"}}),
		runner(5.5, history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: "r2", Incarnation: "r2.1", Exit: "exit status 0"}}),
		runner(5.6, history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: "r4", Incarnation: "r4.1", Exit: "exit status 0", Bad: 2, BadLine: "no JSON"}}),
		runner(6, history.Event{Kind: history.RunCleanup, Note: &history.Note{What: "store of the ledger", OK: true}}),
		runner(6, history.Event{Kind: history.RunCleanup, Note: &history.Note{What: "store of the locks", Why: "it did not end within 5s"}}),
		runner(6.1, history.Event{Kind: history.RunEnd, Note: &history.Note{What: "aborted"}}),
	}
}

func TestStory(t *testing.T) {
	story := NewStory(drill())
	var b strings.Builder
	for _, e := range runEvents() {
		if line := story.Line(e); line != "" {
			b.WriteString(line + "\n")
		}
	}
	isGolden(t, "story.txt", b.String())
}

// Where the lock is of a profile whose errors are published, the story has them as its callers read them; elsewhere a wait that ends
// busy is no news.
func TestStoryHasTheErrorsOfPublishedLocks(t *testing.T) {
	for _, c := range []struct{ profile, gaveUp, waited string }{
		{"cordum/scheduler-job", `; its work reads "job lock abandoned: renewal failed"`, ""},
		{"cordum/approval", "", `waited for k in vain: its caller reads "approval lock busy"`},
		{"lockdrill/critical", "", ""},
	} {
		story := NewStory(&experiments.Experiment{System: experiments.System{Locks: []experiments.Lock{{Name: "l", Profile: c.profile}}}})
		line := story.Line(history.Event{Kind: history.AbandonKind, Source: "r1.1", Lock: "l", Key: "k", Abandon: &history.Abandon{Reason: "count", Failures: 3}})
		if want := "gave up k: count, after 3 failed renewals in a row" + c.gaveUp; !strings.HasSuffix(line, want) {
			t.Errorf("%s: %q", c.profile, line)
		}
		for _, outcome := range []history.Outcome{history.Fail, history.OK} {
			line := story.Line(history.Event{Kind: history.WaitEnd, Source: "r1.1", Lock: "l", Key: "k", Outcome: outcome, Call: &history.Call{}})
			if told := outcome == history.Fail && c.waited != ""; told != strings.HasSuffix(line, "  "+c.waited) || !told && line != "" {
				t.Errorf("%s, %s: %q", c.profile, outcome, line)
			}
		}
	}
}

// What keeps a pod from being ready is told once, and not what it passes through anyway.
func TestStoryTellsWhatPodsWaitFor(t *testing.T) {
	const pull = "worker: ImagePullBackOff (image example/w:1)"
	story, got := NewStory(drill()), ""
	for _, o := range []history.Object{{Waiting: "worker: ContainerCreating"}, {Waiting: pull}, {Waiting: pull, Restarts: 1}, {Ready: true}, {Waiting: "worker: CrashLoopBackOff (last exit status 1)"}, {Gone: true}} {
		o.Kind, o.Name, o.UID = "pod", "w-0", "u"
		if line := story.Line(history.Event{Kind: history.ObjectKind, Source: "runner", Object: &o}); line != "" {
			got += line[strings.Index(line, "pod"):] + "\n"
		}
	}
	if fields := strings.Join(strings.Fields(got), " "); fields != "pod w-0 waits: "+pull+" pod w-0 waits: worker: CrashLoopBackOff (last exit status 1)" {
		t.Errorf("%s", got)
	}
}

func TestStatus(t *testing.T) {
	status := NewStatus(drill())
	var b strings.Builder
	show := func(at time.Duration) {
		b.WriteString("--- " + at.String() + "\n" + strings.Join(status.Render(80, at), "\n") + "\n")
	}
	show(0)
	for _, e := range runEvents() {
		status.Observe(e)
		switch e.Kind {
		case history.FaultApplied, history.FaultConfirmed, history.RunEnd:
			show(time.Duration(e.To) + 250*time.Millisecond)
		}
	}
	isGolden(t, "status.txt", b.String())
}

func TestStatusForgetsAKeyThatIsGone(t *testing.T) {
	status := NewStatus(drill())
	look := func(epoch string, present bool) {
		status.Observe(history.Event{Kind: history.LookKind, Span: when(1), Lock: "reconciler", Key: "cordum:reconciler:default", Epoch: epoch, Look: &history.Look{Present: present, PTTL: -1}})
	}
	holder := func() string { return status.Render(80, 2*time.Second)[1] }
	look("zz", true)
	if got := holder(); !strings.Contains(got, "a stranger for 1.0s") || strings.Contains(got, "lease") {
		t.Errorf("a key without expiry in strange hands: %q", got)
	}
	look("", false)
	if got := holder(); !strings.Contains(got, "nobody") {
		t.Errorf("a key that is gone: %q", got)
	}
}

func TestRenderKeepsTheWidth(t *testing.T) {
	status := NewStatus(drill())
	for _, e := range runEvents() {
		status.Observe(e)
	}
	for width := 1; width < 120; width++ {
		for _, line := range status.Render(width, time.Minute) {
			if doc.Width(line) > width {
				t.Fatalf("width %d: %q has %d columns", width, line, doc.Width(line))
			}
		}
	}
}

// However much is declared and active, the block stays small enough to be drawn again in place.
func TestRenderKeepsTheHeight(t *testing.T) {
	e := drill()
	for i := range 20 {
		l, f := e.System.Locks[0], e.Faults[0]
		l.Name, f.ID = fmt.Sprintf("lock-%d", i), fmt.Sprintf("fault-%d", i)
		e.System.Locks, e.Faults = append(e.System.Locks, l), append(e.Faults, f)
	}
	status := NewStatus(e)
	for i := range 20 {
		f := &history.Fault{ID: fmt.Sprintf("fault-%d", i), Shot: 1, Kind: "renew_failures", Victim: "r1.1"}
		status.Observe(history.Event{Kind: history.FaultApplied, Op: f.ID + "#1", Fault: f})
	}
	lines := status.Render(80, time.Second)
	if last := lines[len(lines)-1]; len(lines) > 12 || !strings.Contains(last, "and 18 more active faults") {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

// A drill of a minute has at most 57 lines at the main level, whatever happens in it; of what is not as it should be none is crowded out by
// the rest, and the end says how many were left out.
func TestStoryOfAMinuteIsShort(t *testing.T) {
	for _, length := range []float64{60, 180} {
		story, lines, bad, last := NewStory(drill()), 0, 0, ""
		story.Level = TellMain
		tell := func(e history.Event) {
			if line := story.Line(e); line != "" {
				lines, last = lines+1, line
				if strings.Contains(line, "without owning") {
					bad++
				}
			}
		}
		for i := range 5 {
			tell(history.Event{Kind: history.RunPhase, Span: when(float64(i)), Phase: &history.Phase{Name: fmt.Sprint("phase ", i)}})
		}
		for at := 0.0; at < length; at += 0.25 {
			tell(history.Event{Kind: history.AcquireReturn, Span: when(at), Source: "r1.1", Lock: "reconciler", Key: "k", Outcome: history.OK})
		}
		if grants := lines - 5; grants < int(10*length/60) {
			t.Errorf("%gs: %d grants told", length, grants)
		}
		before := lines
		for i := range 20 { // as many as a drill of a minute may well have
			tell(history.Event{Kind: history.AbandonKind, Span: when(length - float64(20-i)/4), Source: "r1.1", Key: "k", Abandon: &history.Abandon{Reason: "count"}})
		}
		if lines-before != 20 {
			t.Errorf("%gs: %d of 20 lines told after many grants", length, lines-before)
		}
		for at := 0.0; at < length; at += 0.25 {
			tell(history.Event{Kind: history.AbandonKind, Span: when(at), Source: "r1.1", Key: "k", Abandon: &history.Abandon{Reason: "count"}})
		}
		tell(history.Event{Kind: history.UnownedEnter, Span: when(length), Source: "r2.1", Key: "k"})
		tell(history.Event{Kind: history.RunEnd, Span: when(length), Note: &history.Note{What: "completed", OK: true}})
		if most := int(57 * length / 60); lines > most || lines < most/2 || bad != 1 || !strings.Contains(last, "lines left out (--log-level debug") {
			t.Errorf("%gs: %d lines, %d bad ones, at the end %q", length, lines, bad, last)
		}
	}
}

// The time that is left is what the plan expects, from the steady state on.
func TestStatusSaysWhatIsLeft(t *testing.T) {
	status := NewStatus(drill())
	status.Expected = 20 * time.Second
	for _, c := range []struct {
		at   time.Duration
		want string
	}{{2 * time.Second, "at most 58.0s left"}, {5 * time.Second, "about 18.0s left"}, {30 * time.Second, "longer than expected, at most 30.0s left"}} {
		if c.at == 5*time.Second {
			status.Observe(history.Event{Kind: history.RunPhase, Span: when(3), Phase: &history.Phase{Name: history.PhaseSteady}})
		}
		if got := status.Heartbeat(c.at); !strings.Contains(got, c.want) {
			t.Errorf("at %s: %s", c.at, got)
		}
	}
}
