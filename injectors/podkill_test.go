package injectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// cluster is a namespace with one pod, and what was asked of it.
type cluster struct {
	uid      string
	ending   bool
	restarts int32
	deleted  []*int64
	run      [][]string
	exit     int
	err      error
	evicted  int
	Workloads
}

func (c *cluster) Pod(_ context.Context, name, _ string) (kube.Pod, bool, error) {
	return kube.Pod{Name: name, UID: c.uid, Ending: c.ending, Container: kube.Container{Restarts: c.restarts}}, name == "w-0" && c.uid != "", nil
}

func (c *cluster) DeletePod(_ context.Context, _, uid string, grace *int64) error {
	if c.err == nil && uid == c.uid {
		c.deleted = append(c.deleted, grace)
	}
	return c.err
}

func (c *cluster) Evict(_ context.Context, _, uid string) error {
	if c.err == nil && uid == c.uid {
		c.evicted++
	}
	return c.err
}

func (c *cluster) Exec(_ context.Context, _, _ string, command []string) (int, string, error) {
	c.run = append(c.run, command)
	return c.exit, "a word that nobody is to read", c.err
}

var (
	podStart  = history.Event{Kind: history.ReplicaStart, Span: history.At(1), Replica: &history.Replica{Incarnation: "r1.1", Pod: &history.Pod{Name: "w-0", UID: "u1"}}}
	podGone   = history.Event{Kind: history.ObjectKind, Span: history.Span{From: 104, To: 108}, Object: &history.Object{Kind: "pod", Name: "w-0", UID: "u1", Gone: true}}
	otherGone = history.Event{Kind: history.ObjectKind, Span: history.Span{From: 104, To: 108}, Object: &history.Object{Kind: "pod", Name: "w-0", UID: "u0", Gone: true}}
)

// podKill is a kill in a form; w-0 is the pod of r1.1.
func podKill(c *cluster, form string, events recorded, command ...string) *Hit {
	return (&Reach{Pods: c, Await: events.await, Past: events.past, Clock: func() int64 { return 7 }}).at(&fault.Kill{How: form, Exec: command},
		history.Event{Op: "k#1", Epoch: "e1", Fault: &history.Fault{ID: "k", Shot: 1, Kind: "kill", Form: form, Victim: "r1.1", Anchor: 90}})
}

// find looks for the victim anew.
func (h *Hit) find(ctx context.Context) error { return h.row.Find(ctx, h) }

// extended is a look at a lock that names the victim, which found the lease to end at until.
func extended(at, prev, until int64) history.Event {
	return history.Event{Kind: history.LookKind, Span: history.Span{From: at * 1e6, To: at * 1e6}, Key: "k",
		Look: &history.Look{Present: true, Holder: "r1.1", PTTL: (until - at) * 1e6, Prev: &history.Span{From: prev * 1e6, To: prev * 1e6}}}
}

// Of an observed system nobody says a line: it lived when it extended its lock, and not because the lock still names it.
func TestTheSignOfLifeOfAnObservedPodIsAnExtension(t *testing.T) {
	past := recorded{extended(1000, 900, 16000), extended(3000, 2900, 18000), extended(9000, 8900, 18000),
		{Kind: history.LogMatch, Source: "r1.1", Span: history.At(9500e6), Match: &history.Match{}}} // a line is read when it is read
	if at := lastSign(past, "r1.1"); at != 2900e6 {
		t.Errorf("it lived at %d, want at 2900 ms", at)
	}
	if at := lastSign(past, "r2.1"); at != 0 {
		t.Errorf("another lived at %d", at)
	}
	named := func(e history.Event, epoch, holder string) history.Event {
		e.Epoch, e.Look.Holder = epoch, holder
		return e
	}
	past = recorded{named(extended(1000, 900, 16000), "e1", ""), named(extended(1100, 1000, 16000), "e1", "r1.1"),
		named(extended(5000, 4900, 16000), "e2", ""), named(extended(5100, 5000, 16000), "e2", "r2.1")}
	if one, two := lastSign(past, "r1.1"), lastSign(past, "r2.1"); one != 900e6 || two != 4900e6 {
		t.Errorf("they lived at %d and %d, want at 900 and 4900 ms: each when it was granted the lock, which names it later", one, two)
	}
	again := history.Event{Kind: history.ReplicaStart, Span: history.Span{From: 2950e6, To: 3100e6}, Replica: &history.Replica{Incarnation: "r1.2", Pod: podStart.Replica.Pod}}
	past = recorded{podStart, extended(1000, 900, 16000), extended(2000, 1900, 17000), extended(3000, 2900, 18000), again}
	if at := lastSign(past, "r1.1"); at != 1900e6 {
		t.Errorf("it lived at %d, want at 1900 ms: what came then may be its successor's, of the same name", at)
	}
}

func line(kind history.Kind, at int64) history.Event {
	return history.Event{Kind: kind, Span: history.Span{From: at, To: at + 3}, Source: "r1.1", Epoch: "e1"}
}

// What a kill of a pod proves, by what was seen of it.
func TestPodKillTellsTheThreeInstantsAsFarAsTheyWereSeen(t *testing.T) {
	end := func(at int64) history.Event {
		return history.Event{Kind: history.ReplicaExit, Span: history.Span{From: at - 5, To: at}, Replica: &history.Replica{Incarnation: "r1.1", By: history.ByLogStream}}
	}
	applied := history.Span{From: 100, To: 105}
	for _, c := range []struct {
		name, form string
		command    string
		events     recorded
		want       string
		object     bool
		sign, end  int64 // end 0 = open
	}{
		{"forced, and seen to end later", fault.ForceDelete, "", recorded{line(history.RenewInvoke, 112), podGone, end(140)}, "", true, 135, 140},
		{"forced, and heard within its end's bracket", fault.ForceDelete, "", recorded{line(history.RenewInvoke, 137), podGone, end(140)}, "", true, 137, 140},
		{"forced, and its end not seen", fault.ForceDelete, "", recorded{line(history.RenewInvoke, 112), podGone}, "", true, 112, 0},
		{"graceful, and its end not seen", fault.Graceful, "", recorded{line(history.ReleaseInvoke, 107), podGone}, "", true, 107, 0},
		{"graceful, held up by a finalizer", fault.Graceful, "", recorded{end(130)}, "", false, 125, 130},
		{"the end of another pod of that name", fault.ForceDelete, "", recorded{otherGone}, "unconfirmed", false, 0, 0},
		{"nothing happened", fault.Graceful, "", recorded{}, "unconfirmed", false, 0, 0},
		{"crashed", fault.Crash, "", recorded{end(120)}, "", false, 115, 120},
		{"told to crash, and lives", fault.Crash, "", recorded{line(history.RenewInvoke, 112)}, "unconfirmed", false, 112, 0},
		{"process 1 does not hear it", fault.Crash, "kill", recorded{podGone}, "unconfirmed", false, 0, 0},
		{"ended in order", fault.Crash, "", recorded{{Kind: history.ReplicaExit, Span: history.Span{From: 115, To: 120},
			Replica: &history.Replica{Incarnation: "r1.1", By: history.ByLogStream, Exit: "exit status 0"}}}, "unconfirmed", false, 115, 120},
		{"ended by itself", fault.Crash, "", recorded{end(99)}, "unconfirmed", false, 94, 99},
		{"released before", fault.ForceDelete, "", recorded{line(history.ReleaseInvoke, 95), podGone, end(140)}, "moved", true, 135, 140},
		{"released at the same time", fault.ForceDelete, "", recorded{line(history.ReleaseInvoke, 98), podGone, end(140)}, "", true, 135, 140},
		{"renewed first", fault.Crash, "", recorded{line(history.RenewInvoke, 98), end(140)}, "moved", false, 135, 140},
	} {
		synctest.Test(t, func(t *testing.T) {
			var command []string
			if c.command != "" {
				command = []string{c.command}
			}
			k := podKill(&cluster{}, c.form, append(recorded{podStart}, c.events...), command...)
			window, seen, err := k.Confirm(t.Context(), applied)
			if voidOf(err) != c.want || (err == nil) != (c.want == "") {
				t.Fatalf("%s: %v, want %q", c.name, err, c.want)
			}
			d := seen.Death
			if d == nil || d.Call != applied || d.Sign != c.sign || (d.Object != nil) != c.object || (d.End != nil) != (c.end != 0) {
				t.Fatalf("%s: %+v", c.name, d)
			}
			if c.end != 0 && (d.End.To != c.end || d.By != history.ByLogStream) {
				t.Errorf("%s: end %+v by %s", c.name, d.End, d.By)
			}
			if err == nil && (window.From != 100 || window.To < c.end || (c.end == 0) != (seen.Detail != "")) {
				t.Errorf("%s: window %v, detail %q", c.name, window, seen.Detail)
			}
		})
	}
}

func TestPodKillAsksForTheRightEnd(t *testing.T) {
	c := &cluster{uid: "u1"}
	var told []string
	for _, form := range []string{fault.Graceful, fault.ForceDelete, fault.Crash} {
		k := podKill(c, form, recorded{podStart})
		k.Send = func(incarnation string, cmd protocol.Command) error {
			told = append(told, incarnation+" "+cmd.Cmd)
			return nil
		}
		if err := k.find(t.Context()); err != nil {
			t.Fatal(err)
		}
		if span, err := k.Inject(t.Context()); err != nil || span.From != 7 {
			t.Errorf("%s: %v %v", form, span, err)
		}
	}
	if len(c.deleted) != 2 || c.deleted[0] != nil || c.deleted[1] == nil || *c.deleted[1] != 0 {
		t.Errorf("deleted with %v: want the pod's own grace, then 0", c.deleted)
	}
	if !slices.Equal(told, []string{"r1.1 crash"}) {
		t.Errorf("told %v", told)
	}
	k := podKill(c, fault.Crash, recorded{podStart}, "kill", "-9", "7")
	if _, err := k.Inject(t.Context()); err != nil || len(c.run) != 1 || len(c.run[0]) != 3 {
		t.Errorf("%v, ran %v", err, c.run)
	}
}

// What a victim held is looked at within the bracket of the call: whatever it gives back later, it gave back after the call began. A
// witness that fails holds up no kill.
func TestADeleteIsWitnessed(t *testing.T) {
	for _, fails := range []error{nil, errors.New("no answer")} {
		c, now := &cluster{uid: "u1"}, int64(0)
		k := podKill(c, fault.Graceful, recorded{podStart})
		k.Clock = func() int64 { now++; return now }
		var seen int64
		k.Sample = func(context.Context) error {
			if now++; len(c.deleted) > 0 {
				t.Error("looked at after the call")
			}
			seen = now
			return fails
		}
		span, err := k.Inject(t.Context())
		if err != nil || len(c.deleted) != 1 || seen <= span.From || seen >= span.To {
			t.Errorf("seen at %d, called within %v, deleted %d, %v", seen, span, len(c.deleted), err)
		}
	}
}

func TestPodKillIsVoidWhereThePodIsNotThatOne(t *testing.T) {
	for name, c := range map[string]*cluster{"another of that name": {uid: "u2"}, "gone": {}, "ending": {uid: "u1", ending: true}, "another life": {uid: "u1", restarts: 1}} {
		if err := podKill(c, fault.ForceDelete, recorded{podStart}).find(t.Context()); voidOf(err) != "moved" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := podKill(c, fault.ForceDelete, recorded{podStart}).Inject(t.Context()); voidOf(err) != "moved" || len(c.deleted) > 0 {
			t.Errorf("%s, by the time of the call: %v, deleted %v", name, err, c.deleted)
		}
		if _, err := podKill(c, fault.Crash, recorded{podStart}, "kill").Inject(t.Context()); voidOf(err) != "moved" || len(c.run) > 0 {
			t.Errorf("%s: %v, ran %v", name, err, c.run)
		}
	}
	if err := podKill(&cluster{uid: "u1"}, fault.ForceDelete, nil).find(t.Context()); voidOf(err) != "no_target" {
		t.Errorf("no pod known: %v", err)
	}
	for _, gone := range []error{kube.ErrGone, kube.ErrAnother} {
		if _, err := podKill(&cluster{uid: "u1", err: gone}, fault.ForceDelete, recorded{podStart}).Inject(t.Context()); voidOf(err) != "moved" {
			t.Errorf("%v: %v", gone, err)
		}
	}
	if _, err := podKill(&cluster{uid: "u1", err: errors.New("no route")}, fault.ForceDelete, recorded{podStart}).Inject(t.Context()); err == nil || voidOf(err) != "" {
		t.Errorf("an API that does not answer: %v", err)
	}
	if _, err := podKill(&cluster{uid: "u1", exit: 127}, fault.Crash, recorded{podStart}, "kill").Inject(t.Context()); voidOf(err) != "unconfirmed" {
		t.Errorf("no such command: %v", err)
	}
	for err, want := range map[error]string{fmt.Errorf("exec: %w", kube.ErrNotRun): "unconfirmed", errors.New("the stream was cut"): ""} {
		if _, got := podKill(&cluster{uid: "u1", err: err}, fault.Crash, recorded{podStart}, "kill").Inject(t.Context()); voidOf(got) != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if _, err := podKill(&cluster{uid: "u1"}, fault.Crash, recorded{podStart}).Inject(t.Context()); voidOf(err) != "unconfirmed" {
		t.Errorf("nobody to tell: %v", err)
	}
}

// An eviction deletes nothing by itself, and one that a budget blocks is void and says which.
func TestAnEvictionIsForTheBudgetsToDecide(t *testing.T) {
	c := &cluster{uid: "u1"}
	if _, err := podKill(c, fault.Evict, recorded{podStart}).Inject(t.Context()); err != nil || c.evicted != 1 || len(c.deleted) > 0 {
		t.Errorf("%v, evicted %d, deleted %v", err, c.evicted, c.deleted)
	}
	c.err = fmt.Errorf("evict pod w-0: %w: the budget web needs 2", kube.ErrBudget)
	if _, err := podKill(c, fault.Evict, recorded{podStart}).Inject(t.Context()); voidOf(err) != string(history.Budget) || !strings.Contains(err.Error(), "web") {
		t.Errorf("blocked: %v", err)
	}
	if podKill(c, fault.Evict, nil).Within() != podKill(c, fault.Graceful, nil).Within() {
		t.Error("an evicted pod has its own grace")
	}
}

// A call without an answer may have been done: what is seen of it decides, and where nothing is, its error is told.
func TestPodKillWithoutAnAnswer(t *testing.T) {
	const why = "no such file in the container"
	exit := history.Event{Kind: history.ReplicaExit, Span: history.Span{From: 105, To: 120}, Replica: &history.Replica{Incarnation: "r1.1"}}
	ending := history.Event{Kind: history.ObjectKind, Span: history.Span{From: 1, To: 103}, Object: &history.Object{Kind: "pod", Name: "w-0", UID: "u1", Ending: true}}
	unanswered := fmt.Errorf("%w: %s", kube.ErrUnanswered, why)
	for form, cases := range map[string]map[bool][]recorded{
		fault.ForceDelete: {true: {{exit, podGone}, {ending, exit}, {podGone}}, false: {{}, {exit}, {exit, otherGone}}}, // it may end by itself
		fault.Crash:       {true: {{exit}}, false: {{}}},
	} {
		err := unanswered
		if form == fault.Crash {
			err = errors.New(why)
		}
		for done, all := range cases {
			for _, events := range all {
				synctest.Test(t, func(t *testing.T) {
					podKillUnanswered(t, form, err, append(recorded{podStart}, events...), done, why)
				})
			}
		}
	}
}

func podKillUnanswered(t *testing.T, form string, failed error, events recorded, done bool, why string) {
	k := podKill(&cluster{uid: "u1", err: failed}, form, events, "kill")
	span, err := k.Inject(t.Context())
	if err != nil {
		t.Fatalf("%s: %v: it may have been done", form, err)
	}
	_, _, err = k.Confirm(t.Context(), span)
	if done != (err == nil) || !done && (voidOf(err) != "unconfirmed" || !strings.Contains(err.Error(), why)) {
		t.Errorf("%s, done %t, seen %d events: %v", form, done, len(events)-1, err)
	}
}

func TestPodKillWaitsAsLongAsAPodMayTake(t *testing.T) {
	if g, f := podKill(&cluster{}, fault.Graceful, nil).Within(), podKill(&cluster{}, fault.ForceDelete, nil).Within(); g <= gracesMost || f < forceWithin || f > gracesMost {
		t.Errorf("graceful %s, forced %s", g, f)
	}
}
