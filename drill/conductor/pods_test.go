package conductor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// inPod says which pod a life is in, where the drill has pods.
func (s *stage) inPod(name, inc string) {
	if s.e.Kubernetes != nil {
		s.see(history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: name, Incarnation: inc, Pod: podIn(inc)}})
	}
}

// podIn is the pod of a life: the later it came, the younger.
func podIn(inc string) *history.Pod {
	return &history.Pod{Name: inc, UID: "uid-" + inc, Created: "2025-01-01T00:00:0" + inc[len(inc)-1:] + "Z", Labels: map[string]string{"app": "w", "slot": inc[:2]}}
}

func (s *stage) goneObject(inc string) {
	s.see(history.Event{Kind: history.ObjectKind, Object: &history.Object{Kind: "pod", Name: inc, UID: "uid-" + inc, Gone: true}})
}

// Of pods that never get ready the end says which one waits for what; one that is gone, or waits for nothing, is not named.
func TestPodsThatNeverGetReadySayWhy(t *testing.T) {
	for _, mode := range []string{"embedded", "observe"} {
		e := loopDrill(1)
		e.Kubernetes, e.System.Mode = &experiments.Kubernetes{}, mode
		c := New(e, 1)
		c.Step(1)
		for _, o := range []history.Object{{Name: "w-2", Waiting: "worker: ImagePullBackOff (image x)"}, {Name: "w-1", Waiting: "Unschedulable"}, {Name: "w-3"},
			{Name: "w-4", Waiting: "x"}, {Name: "w-4", Gone: true}} {
			o.Kind, o.UID = "pod", "uid-"+o.Name
			c.Observe(history.Event{Kind: history.ObjectKind, Object: &o})
		}
		why := ""
		for _, a := range c.Step(int64(e.SteadyState.Timeout) + 1) {
			if a.Phase != nil && a.Phase.Name == history.PhaseFaults {
				why = a.Phase.Why
			}
		}
		if want := "ready; pod w-1 waits: Unschedulable; pod w-2 waits: worker: ImagePullBackOff (image x)"; !strings.HasSuffix(strings.Replace(why, ": 0 of 3", "", 1), want) {
			t.Errorf("%s: %q, want it to end with %q", mode, why, want)
		}
	}
}

// A force delete takes the object at once and the process later: the slot is free at once, what the old process still does is not
// taken for the new one's, and its end, when it comes, vacates nothing.
func TestASlotIsFreeWhenItsPodIsGone(t *testing.T) {
	e := loopDrill(2)
	e.Kubernetes = &experiments.Kubernetes{}
	started, ended := map[string]int64{}, map[string]int64{}
	s := play(t, e, func(s *stage) {
		s.onFire = func(f Fire, body *history.Fault) {
			victim := s.leader
			s.goneObject(victim)
			if inc, alive := s.c.owner(f.Key, f.Epoch); inc != victim || alive {
				t.Errorf("the holder of %s is %s, alive %v: its pod is gone", f.Epoch, inc, alive)
			}
			s.after(2*time.Second, func() {
				for _, r := range s.c.world.replicas {
					if r.alive {
						started[r.inc] = r.startedA
					}
				}
				ended[victim] = s.now
				s.alive = slices.DeleteFunc(s.alive, func(inc string) bool { return inc == victim })
				s.leader, s.freeAt = "", s.now+int64(time.Second)
				s.see(history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: victim[:2], Incarnation: victim}})
				body.Death = &history.Death{}
				s.see(history.Event{Kind: history.FaultConfirmed, Fault: body})
			})
		}
	})
	if len(s.fires) != 2 || s.abort != "" {
		t.Fatalf("%d kills, abort %q", len(s.fires), s.abort)
	}
	for victim, at := range ended {
		next := victim[:2] + ".2"
		if started[next] == 0 || started[next] >= at {
			t.Errorf("%s started at %d, want before the end of %s at %d", next, started[next], victim, at)
		}
	}
	for _, r := range s.c.world.replicas {
		if r.life > 2 || !r.ready {
			t.Errorf("%s has had %d lives, ready %v", r.name, r.life, r.ready)
		}
	}
}

func TestAPodMayTakeLongerToBeReady(t *testing.T) {
	e := loopDrill(1)
	e.Kubernetes = &experiments.Kubernetes{}
	e.SteadyState.Timeout, e.Limits.MaxRun = time.Hour, time.Hour
	c := New(e, 1)
	c.Step(1)
	if next := c.Next(1); next != 1+int64(podReadyWithin)+1 {
		t.Errorf("given up at %s, want after %s", time.Duration(next), podReadyWithin)
	}
}

// podsByLabel is a drill whose kill is aimed at a pod, whatever that holds.
func podsByLabel(labels map[string]string, pick fault.Pick) *experiments.Experiment {
	e := loopDrill(1)
	e.Kubernetes = &experiments.Kubernetes{}
	e.Faults[0].Spec = &fault.Kill{Pods: labels, Pick: pick, How: fault.ForceDelete}
	return e
}

func TestAKillOfAPodByItsLabels(t *testing.T) {
	for _, c := range []struct {
		labels map[string]string
		pick   fault.Pick
		want   string // "" = anyone
	}{
		{map[string]string{"app": "w", "slot": "r3"}, "", "r3.1"},
		{map[string]string{"app": "w"}, fault.PickOldest, "r1.1"},
		{map[string]string{"app": "w"}, fault.PickNewest, "r3.1"},
		{map[string]string{"app": "w"}, fault.PickRandom, ""},
	} {
		s := play(t, podsByLabel(c.labels, c.pick), nil)
		if len(s.fires) == 0 || len(s.fires[0].Victims) != 1 || c.want != "" && s.fires[0].Victims[0] != c.want || s.fires[0].Timing != "" {
			t.Errorf("%v %s: %+v, want %s", c.labels, c.pick, s.fires, c.want)
		}
	}
	s := play(t, podsByLabel(map[string]string{"app": "x"}, ""), nil)
	if len(s.fires) != 2 || s.fires[0].Why == "" || len(s.fires[0].Victims) != 0 {
		t.Errorf("nobody has the label: %+v", s.fires)
	}
}

// watched is an observed election in virtual time: pods that come by themselves, and a lock that names one of them.
type watched struct {
	*stage
	holder string
	epoch  int
	alive  map[string]bool
	lives  int
	named  func() // told of each new holder
}

func (w *watched) appear(name string) {
	w.lives++
	inc := fmt.Sprintf("%s.%d", name, w.lives)
	w.alive[inc] = true
	w.inPod(name, inc)
	w.see(history.Event{Kind: history.ReplicaReady, Source: "runner", Replica: &history.Replica{Name: name, Incarnation: inc}})
}

// look shows an extension by the holder every 200 ms; one second after the holder's end another is named.
func (w *watched) look() {
	if !w.alive[w.holder] {
		w.holder = slices.Min(slices.Collect(maps.Keys(w.alive)))
		if w.epoch++; w.named != nil {
			w.named()
		}
	}
	w.see(history.Event{Kind: history.LookKind, Span: history.Span{From: w.now, To: w.now + 1e6}, Lock: "loop", Key: "the-loop", Epoch: fmt.Sprintf("e%d", w.epoch),
		Look: &history.Look{Present: true, PTTL: 1e9, Slack: 50e6, Named: w.holder + "_x", Holder: w.holder}})
	w.after(200*time.Millisecond, func() {
		if w.alive[w.holder] {
			w.look()
			return
		}
		w.after(time.Second, w.look)
	})
}

func TestAnObservedElectionIsOnlyWatchedAndStruck(t *testing.T) {
	e := loopDrill(3)
	e.Kubernetes, e.System.Mode = &experiments.Kubernetes{}, experiments.ModeObserve
	e.System.Locks[0].Lease = "the-loop"
	var closed []int64
	s := play(t, e, func(s *stage) {
		w := &watched{stage: s, alive: map[string]bool{}}
		for _, after := range []time.Duration{1, 2, 700} {
			s.after(after*time.Millisecond, func() { w.appear(fmt.Sprintf("r%d", w.lives+1)) })
		}
		s.after(900*time.Millisecond, w.look)
		s.onFire = func(f Fire, body *history.Fault) {
			if inc, alive := s.c.owner(f.Key, f.Epoch); inc != w.holder || !alive || f.Key != "the-loop" {
				t.Errorf("fired at %s of %s (alive %v), which %s holds", f.Key, inc, alive, w.holder)
			}
			victim := w.holder
			delete(w.alive, victim)
			s.goneObject(victim)
			s.after(300*time.Millisecond, func() { w.appear(victim[:2]) })
			s.after(time.Second, func() {
				body.Death = &history.Death{}
				s.see(history.Event{Kind: history.FaultConfirmed, Fault: body})
			})
			closed = append(closed, s.now)
		}
		s.onOffer = func(Offer) { t.Error("a job was offered to an observed system") }
	})
	if s.holds == nil || !*s.holds || len(s.fires) != 3 || s.abort != "" {
		t.Fatalf("holds %v, %d kills, abort %q", s.holds, len(s.fires), s.abort)
	}
	for i := 1; i < len(closed); i++ {
		if closed[i]-closed[i-1] < int64(time.Second) {
			t.Errorf("kill %d came before another was named", i+1)
		}
	}
	for _, r := range s.c.world.replicas {
		if r.life != 0 {
			t.Errorf("%s was started by the run", r.name)
		}
	}
}

// A drain strikes all that live on the holder's node, counts each, and leaves one replica unless the file says otherwise.
func TestADrainStrikesAllOnTheNode(t *testing.T) {
	for nodes, want := range map[string][]string{"aab": {"r1.1", "r2.1"}, "abb": {"r1.1"}, "aaa": nil} {
		e := loopDrill(1)
		e.Kubernetes, e.System.Mode = &experiments.Kubernetes{}, experiments.ModeObserve
		e.Faults[0].Spec, e.Faults[0].For, e.Limits.MaxKills = &fault.Node{HolderOf: "loop", Do: fault.Drain}, time.Second, 3
		c := New(e, 1)
		for i, node := range nodes {
			inc := fmt.Sprintf("r%d.1", i+1)
			pod := podIn(inc)
			pod.Node = string(node)
			c.Observe(history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: inc[:2], Incarnation: inc, Pod: pod}})
			c.Observe(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: inc[:2], Incarnation: inc}})
		}
		c.Observe(history.Event{Kind: history.LookKind, Span: history.At(1e9), Lock: "loop", Key: "the-loop", Epoch: "e1", Look: &history.Look{Present: true, PTTL: 1e9, Holder: "r1.1"}})
		s := c.series[0]
		c.fire(s, 2e9, target{key: "the-loop"})
		f := c.out[len(c.out)-1].Fire
		if !slices.Equal(f.Victims, want) || (f.Why == "") != (want != nil) || c.kills != len(want) {
			t.Errorf("%s: %q, %q, %d kills; want %q", nodes, f.Victims, f.Why, c.kills, want)
		}
		if len(want) == 2 && (c.capped(s, 1) || !c.capped(s, 2)) {
			t.Errorf("%s: more than %d kills", nodes, e.Limits.MaxKills)
		}
	}
}

func TestWhatTheSteadyStateOfAnObservedSystemLacks(t *testing.T) {
	e := loopDrill(1)
	e.Kubernetes, e.System.Mode, e.System.Replicas = &experiments.Kubernetes{}, experiments.ModeObserve, 2
	c := New(e, 1)
	look := func(at int64, holder string, pttl int64) {
		c.Observe(history.Event{Kind: history.LookKind, Span: history.At(at), Lock: "loop", Key: "the-loop", Epoch: "e1", Look: &history.Look{Present: true, PTTL: pttl, Holder: holder}})
	}
	now := int64(0)
	for i, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "too few replicas are ready: 0 of 2"},
		{func() {
			for _, inc := range []string{"r1.1", "r2.1", "r3.1"} {
				c.Observe(history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: inc[:2], Incarnation: inc, Pod: podIn(inc)}})
				c.Observe(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: inc[:2], Incarnation: inc}})
			}
		}, "no replica that is known holds lock loop"},
		{func() { look(1e9, "", 1e9) }, "no replica that is known holds lock loop"},
		{func() { look(2e9, "r1.1", 1e9) }, "no renewal of lock loop"},
		{func() { look(2.5e9, "r1.1", 0.5e9) }, "no renewal of lock loop"}, // the same end, looked at later
		{func() { look(2.6e9, "r1.1", 1e9) }, ""},
		{func() { now = 3.6e9 }, ""},
		{func() {
			if c.wake != now+1 {
				t.Errorf("the lease runs out at %d, want just after %d", c.wake, now)
			}
			now++
		}, "no replica that is known holds lock loop"}, // it hangs, and the object still names it
		{func() { look(3.7e9, "r1.1", 1e9) }, ""},
		{func() {
			c.Observe(history.Event{Kind: history.ObjectKind, Object: &history.Object{UID: "uid-r1.1", Gone: true}})
		}, "no replica that is known holds lock loop"},
		{func() { look(3.9e9, "r1.1", 1e9) }, "no replica that is known holds lock loop"}, // its process goes on without its pod
	} {
		step.do()
		c.wake = never
		got := c.missing(now)
		if step.want == "" && got != (unmet{}) || !strings.Contains(got.String(), step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if w := c.world; len(w.replicas) != 3 {
		t.Errorf("%d replicas known", len(w.replicas))
	}
	if c.Reset(1); len(c.world.replicas) != 2 {
		t.Errorf("%d replicas after a reset", len(c.world.replicas))
	}
}

// A loop that gives its key up after each tick, or leaves it to its TTL, has it free until somebody polls again: that is no break.
func TestAKeyThatIsFreeBetweenTicksIsNoBreakOfTheSteadyState(t *testing.T) {
	for mode, free := range map[lockcore.LoopMode]bool{lockcore.LoopTTLHold: true, lockcore.LoopExplicit: true, lockcore.LoopRenewed: false} {
		e := loopDrill(1)
		e.Kubernetes, e.System.Mode, e.System.Replicas = &experiments.Kubernetes{}, experiments.ModeObserve, 1
		p := &e.System.Locks[0].Policy
		p.Loop.Mode, p.RenewEvery = mode, 0
		overdue := int64(p.TTL + p.Loop.Poll + p.Acquire.Timeout + time.Duration(float64(p.Loop.Poll)*p.Loop.Jitter))
		c := New(e, 1)
		c.Observe(history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", Pod: podIn("r1.1")}})
		c.Observe(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: "r1", Incarnation: "r1.1"}})
		look := func(at int64, l history.Look) {
			c.Observe(history.Event{Kind: history.LookKind, Span: history.At(at), Lock: "loop", Key: "the-loop", Epoch: "e1", Look: &l})
		}
		look(1e9, history.Look{Present: true, PTTL: 1e9, Holder: "r1.1"})
		look(1e9+1, history.Look{})
		for at, lacks := range map[int64]bool{1e9 + 2: !free, 1e9 + overdue: !free, 1e9 + overdue + 1: true} {
			if got := c.missing(at); (got != unmet{}) != lacks {
				t.Errorf("%s, %s after it was held: %q", mode, time.Duration(at-1e9), got)
			}
		}
	}
}

// inPods is a conductor whose three replicas live in pods; r1.1 and r2.1 are ready, and r1.1 holds the lock.
func inPods(mode string) *Conductor {
	e := loopDrill(1)
	e.Kubernetes, e.System.Mode = &experiments.Kubernetes{}, mode
	c := New(e, 1)
	c.Step(1)
	for _, inc := range []string{"r1.1", "r2.1", "r3.1"} {
		r := &history.Replica{Name: inc[:2], Incarnation: inc, Pod: podIn(inc)}
		c.Observe(history.Event{Kind: history.ReplicaStart, Replica: r})
		if inc != "r3.1" {
			c.Observe(history.Event{Kind: history.ReplicaReady, Replica: r})
		}
	}
	acquires(c, "r1.1", "the-loop")
	return c
}

func acquires(c *Conductor, inc, key string) {
	c.Observe(history.Event{Kind: history.AcquireInvoke, Source: inc, Lock: "loop", Key: key, Epoch: inc + key})
	c.Observe(history.Event{Kind: history.AcquireReturn, Source: inc, Lock: "loop", Key: key, Epoch: inc + key, Outcome: history.OK})
}

func gone(inc string, at int64) history.Event {
	return history.Event{Kind: history.ObjectKind, At: at, Object: &history.Object{UID: "uid-" + inc, Gone: true}}
}

func exit(inc string, at int64) history.Event {
	return history.Event{Kind: history.ReplicaExit, At: at, Replica: &history.Replica{Name: inc[:2], Incarnation: inc}}
}

// Of the end of a pod and the end of the life in it the first vacates the slot, and the other nothing.
func TestASlotIsVacatedOnce(t *testing.T) {
	for _, both := range [][2]history.Event{{gone("r1.1", 5), exit("r1.1", 9)}, {exit("r1.1", 5), gone("r1.1", 9)}} {
		c := inPods(experiments.ModeEmbedded)
		for _, e := range both {
			c.Observe(e)
		}
		if r := c.world.replicas[0]; r.alive || r.ready || r.failed != 0 || r.startAt != 5+int64(c.e.System.Restart) || len(c.world.held) != 0 {
			t.Errorf("%s first: %+v, held %v", both[0].Kind, r, c.world.held)
		}
	}
}

func TestALifeWithoutItsPodIsNoReplica(t *testing.T) {
	c := inPods(experiments.ModeEmbedded)
	c.Observe(gone("r1.1", 5))
	acquires(c, "r1.1", "another")
	c.Observe(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: "r1", Incarnation: "r1.1"}})
	if r := c.world.replicas[0]; r.ready || len(c.world.held) != 0 {
		t.Errorf("ready %t, held %v", r.ready, c.world.held)
	}
}

func TestAnObservedSlotIsTakenOverAtOnce(t *testing.T) {
	c := inPods(experiments.ModeObserve)
	for _, inc := range []string{"r1.2", "r1.3", "r1.4", "r1.5"} { // none gets ready
		c.Observe(history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r1", Incarnation: inc, Pod: podIn(inc)}})
		if r := c.world.replicas[0]; r.ready || r.inc != inc || r.failed != 0 || r.startAt != 0 || len(c.world.held) != 0 {
			t.Errorf("%s: %+v, held %v", inc, r, c.world.held)
		}
	}
}

func TestOnlyReadyPodsAreStruck(t *testing.T) {
	c := inPods(experiments.ModeEmbedded)
	s := c.series[0]
	s.f.Spec = &fault.Kill{Pods: map[string]string{"app": "w"}, Pick: fault.PickNewest}
	s.does = s.f.Traits()
	if v := c.some(s).victims; len(v) != 1 || v[0] != "r2.1" {
		t.Errorf("struck %v: r3.1 is not ready", v)
	}
	c.fire(s, 7, target{victims: []string{"r1.1"}})
	if len(s.exposed) != 1 || s.exposed[0].epoch.key != "the-loop" {
		t.Errorf("exposed %+v: what a pod held when it was struck is to be taken over", s.exposed)
	}
}

// A pod dies later than it was told to, and is replaced when its controller sees fit.
func TestTheKillOfAPodIsWaitedForLonger(t *testing.T) {
	c := inPods(experiments.ModeEmbedded)
	s := c.series[0]
	s.state, s.fired, s.shot, s.valid = flying, 1e9, 1, 0
	c.Observe(history.Event{Kind: history.FaultConfirmed, Span: history.Span{From: 1e9, To: 9e9}, At: 9e9, Fault: &history.Fault{ID: "kill", Shot: 1, Death: &history.Death{}}})
	if s.ended != 9e9 || c.leftOpen(s) <= 9e9+int64(c.horizon+podBackWithin) {
		t.Errorf("over at %d, left open at %d", s.ended, c.leftOpen(s))
	}
}

// Of somebody's own replicas the last one that lives is not stopped, unless the file says so; of ours any may be.
func TestTheLastOfSomebodysReplicasIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		mode    string
		allowed bool
		spec    fault.Spec
		left    bool // alone
	}{
		{experiments.ModeObserve, false, &fault.Kill{HolderOf: "loop"}, true},
		{experiments.ModeObserve, false, &fault.Pause{}, true},
		{experiments.ModeObserve, false, &fault.Starve{Share: 0.5}, true},
		{experiments.ModeObserve, false, &fault.Store{Do: fault.StorePause}, false},
		{experiments.ModeObserve, true, &fault.Kill{HolderOf: "loop"}, false},
		{experiments.ModeEmbedded, false, &fault.Kill{HolderOf: "loop"}, false},
	} {
		d := inPods(c.mode)
		d.e.Limits.LastReplica = c.allowed
		s := d.series[0]
		s.f.Spec, s.does = c.spec, fault.Of(c.spec).Traits()
		d.Observe(exit("r3.1", 5))
		if why := d.lastOne(s, []string{"r1.1"}); why != "" {
			t.Errorf("%s %s: %s, and r2.1 lives", c.mode, c.spec.Kind(), why)
		}
		d.Observe(exit("r2.1", 6))
		if why := d.lastOne(s, []string{"r1.1"}); (why != "") != c.left {
			t.Errorf("%s %s, allowed %t: %q", c.mode, c.spec.Kind(), c.allowed, why)
		}
		if d.fire(s, 7, target{victims: []string{"r1.1"}}); s.blank != c.left {
			t.Errorf("%s %s, allowed %t: fired %t", c.mode, c.spec.Kind(), c.allowed, !s.blank)
		}
	}
}
