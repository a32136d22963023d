package lease

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// election is a namespace with Lease objects that the test changes as holders do.
type election struct {
	t   *testing.T
	now atomic.Int64 // the clock of the looks, ms

	mu      sync.Mutex
	version int
	leases  map[string]kube.Lease
	on      map[string]func(kube.LeaseChange) // where it is watched
	heard   func(error)
	slow    bool // watches tell nothing for now
	late    []func()
}

var errAway = errors.New("no API server")

func newElection(t *testing.T) *election {
	return &election{t: t, leases: map[string]kube.Lease{}, on: map[string]func(kube.LeaseChange){}}
}

// probe watches the objects until the test ends; it is at 0 ms.
func (e *election) probe(locks, known map[string]string) *Watch {
	p := NewNamed(e, locks, pods(known), func() int64 { return e.now.Load() * ms })
	e.t.Cleanup(func() { _ = p.Close() })
	return p
}

func (e *election) Lease(_ context.Context, name string) (kube.Lease, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l, ok := e.leases[name]
	if name == "away" {
		return l, false, errAway
	}
	return l, ok, nil
}

func (e *election) WatchLease(ctx context.Context, name string, on func(kube.LeaseChange), heard func(error)) {
	e.mu.Lock()
	l, ok := e.leases[name]
	on(kube.LeaseChange{Lease: l, There: ok, Listed: true})
	heard(nil)
	e.on[name], e.heard = on, heard
	e.mu.Unlock()
	<-ctx.Done()
}

// put writes an object, or deletes it, and lets its watch tell of that.
func (e *election) put(name string, change func(*kube.Lease) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.version++
	l := e.leases[name]
	if l.Name, l.ResourceVersion = name, strconv.Itoa(e.version); change(&l) {
		e.leases[name] = l
	} else {
		l = kube.Lease{}
		delete(e.leases, name)
	}
	if on := e.on[name]; on != nil {
		told := func() { on(kube.LeaseChange{Lease: l, There: l.Name != ""}) }
		if e.late = append(e.late, told); !e.slow {
			e.late[0]()
			e.late = nil
		}
	}
}

// cut ends the watch of an object: what it was yet to tell is lost, and a list takes its place.
func (e *election) cut(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slow, e.late = false, nil
	l, ok := e.leases[name]
	e.on[name](kube.LeaseChange{Lease: l, There: ok, Listed: true})
}

// take is a takeover, renew a renewal; the holder's clock is years off.
func (e *election) take(name, holder string) {
	e.put(name, func(l *kube.Lease) bool {
		l.Holder, l.Transitions, l.Duration, l.Renewed = holder, l.Transitions+1, 15*time.Second, l.Renewed.Add(time.Second)
		l.Acquired = l.Renewed
		return true
	})
}

func (e *election) renew(name string, by time.Duration) {
	e.put(name, func(l *kube.Lease) bool { l.Renewed = l.Renewed.Add(by); return true })
}

// release is what client-go writes with ReleaseOnCancel.
func (e *election) release(name string) {
	e.put(name, func(l *kube.Lease) bool {
		l.Holder, l.Duration, l.Acquired, l.Renewed = "", time.Second, l.Renewed.Add(1), l.Renewed.Add(1)
		return true
	})
}

func (e *election) remove(name string) { e.put(name, func(*kube.Lease) bool { return false }) }

// look looks at a time, in ms.
func (e *election) look(p *Watch, millis int64, final bool) []history.Event {
	e.t.Helper()
	e.now.Store(millis)
	return look(e.t, p, at(millis), final)
}

const ms = testkit.MS

var look, at = testkit.Look, testkit.At

// between is a stretch of ms.
func between(from, to int64) history.Span { return history.Span{From: from * ms, To: to * ms} }

// pods are the lives that are known; names of holders are as those of client-go.
func pods(known map[string]string) func(string) string {
	return func(named string) string {
		pod, _, _ := strings.Cut(named, "_")
		return known[pod]
	}
}

const fifteen = int64(15 * time.Second)

func TestLeasesReportWhatTheyShowed(t *testing.T) {
	e := newElection(t)
	known := map[string]string{"web-1": "r1.1", "web-2": "r2.1"}
	p := e.probe(map[string]string{"shop": "leader", "never": "idle"}, known)
	// step looks 50 ms after a change that was told at once, 50 ms after the look before.
	step := func(millis int64, act func(), want *history.Look, epoch bool) history.Event {
		t.Helper()
		if e.now.Store(millis); act != nil {
			act()
		}
		events := e.look(p, millis+50, false)
		if want == nil {
			if len(events) != 0 {
				t.Fatalf("at %d: %+v, want no news", millis, events[0].Look)
			}
			return history.Event{}
		}
		if len(events) != 1 {
			t.Fatalf("at %d: %d events, want 1", millis, len(events))
		}
		got := *events[0].Look
		if got.Prev == nil || got.Prev.From > events[0].From || !got.Direct {
			t.Errorf("at %d: prev %v, direct %t", millis, got.Prev, got.Direct)
		}
		got.Prev, got.Direct = nil, false
		if got != *want || (events[0].Epoch != "") != epoch || events[0].Lock != "leader" || events[0].Key != "shop" {
			t.Errorf("at %d: %+v %+v, want %+v", millis, events[0], got, *want)
		}
		return events[0]
	}
	step(0, nil, nil, false)
	first := step(100, func() { e.take("shop", "web-1_a") }, &history.Look{Present: true, PTTL: fifteen, Named: "web-1_a", Holder: "r1.1"}, true)
	step(200, nil, nil, false)
	renewed := step(300, func() {
		known["web-1"] = "r1.2" // the container has a new life under the old name: the epoch is still the old one's
		e.renew("shop", 2*time.Second)
	}, &history.Look{Present: true, PTTL: fifteen, Named: "web-1_a", Holder: "r1.1"}, true)
	if renewed.Epoch != first.Epoch || renewed.Span != between(250, 300) || *renewed.Look.Prev != between(250, 250) {
		t.Errorf("renewed %v after %v, epoch %s, was %s", renewed.Span, renewed.Look.Prev, renewed.Epoch, first.Epoch)
	}
	taken := step(400, func() { e.take("shop", "web-3_b") }, // a pod that is not known yet
		&history.Look{Present: true, PTTL: fifteen, Named: "web-3_b"}, true)
	if taken.Epoch == first.Epoch {
		t.Error("a takeover made no new epoch")
	}
	known["web-3"] = "r3.1"
	named := step(500, nil, &history.Look{Present: true, PTTL: fifteen - 150*ms, Slack: 50 * ms, Named: "web-3_b", Holder: "r3.1"}, true)
	if named.Epoch != taken.Epoch {
		t.Error("that its holder is known now made a new epoch")
	}
	step(600, func() { e.release("shop") }, &history.Look{PTTL: witness.Absent, Released: true}, false)
	again := step(700, func() { e.take("shop", "web-3_b") }, &history.Look{Present: true, PTTL: fifteen, Named: "web-3_b", Holder: "r3.1"}, true)
	if again.Epoch == taken.Epoch {
		t.Error("the same holder's second term is its first one")
	}
	step(800, func() { e.remove("shop") }, &history.Look{PTTL: witness.Absent}, false)
	final := e.look(p, 900, true)
	if len(final) != 2 || final[0].Key != "never" || final[1].Key != "shop" || !final[0].Look.Final || final[1].Look.Prev != nil || final[1].Span != between(900, 900) {
		t.Errorf("final looks: %+v", final)
	}
}

// A lease that is there at first may have been renewed just then, or be over: its record stays whatever became of its holder.
func TestALeaseFoundMayBeOverAlready(t *testing.T) {
	e := newElection(t)
	e.take("shop", "web-1_a")
	p := e.probe(map[string]string{"shop": "leader"}, map[string]string{"web-1": "r1.1"})
	events := e.look(p, 0, false)
	if len(events) != 1 || events[0].Look.PTTL != fifteen || events[0].Look.Slack != fifteen || events[0].Look.Prev != nil {
		t.Fatalf("first look: %+v", events)
	}
	if events = e.look(p, 20_000, true); len(events) != 1 || !events[0].Look.Present || events[0].Look.PTTL != 0 || events[0].Look.Slack != 20_000*ms {
		t.Errorf("long after: %+v", events[0].Look)
	}
}

// What comes and goes between two looks is told by the watch: the change came after the look that did not show it, and before it was told.
func TestAHandOverBetweenTwoLooks(t *testing.T) {
	e := newElection(t)
	e.take("shop", "web-1_a")
	p := e.probe(map[string]string{"shop": "leader"}, map[string]string{"web-1": "r1.1", "web-2": "r2.1"})
	e.look(p, 0, false)
	e.look(p, 100, false)
	e.now.Store(120) // within the bracket of the call that ends the holder
	testkit.Must(t, p.Sample(t.Context()))
	e.now.Store(130)
	e.release("shop")
	e.now.Store(133)
	e.take("shop", "web-2_b")
	events := e.look(p, 200, false)
	if len(events) != 2 {
		t.Fatalf("%d events, want the release and the grant", len(events))
	}
	release, grant := events[0], events[1]
	if !release.Look.Released || !release.Look.Direct || release.Span != between(120, 130) || *release.Look.Prev != between(120, 120) {
		t.Errorf("released %v after %v: %+v", release.Span, release.Look.Prev, release.Look)
	}
	if grant.Look.Holder != "r2.1" || !grant.Look.Direct || grant.Span != between(120, 133) || *grant.Look.Prev != release.Span {
		t.Errorf("taken %v after %v: %+v", grant.Span, grant.Look.Prev, grant.Look)
	}
	e.now.Store(250)
	e.renew("shop", 2*time.Second)
	if events = e.look(p, 300, false); len(events) != 1 || events[0].Span != between(200, 250) {
		t.Errorf("renewed: %+v", events)
	}
}

// A look that shows more than the watch has told is no good look: it waits, and fails where nothing comes.
func TestALookWaitsForTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		e.take("shop", "web-1_a")
		p := e.probe(map[string]string{"shop": "leader"}, nil)
		e.look(p, 0, false)
		e.slow = true
		e.release("shop")
		e.heard(errAway)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Look(ctx, false); !errors.Is(err, errAway) || !strings.Contains(err.Error(), "watch of lease shop") {
			t.Errorf("a look beside a watch that is cut: %v", err)
		}
		var events []history.Event
		done := make(chan struct{})
		go func() {
			defer close(done)
			events = e.look(p, 100, false)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("it did not wait")
		default:
		}
		e.now.Store(140)
		e.late[0]()
		<-done
		if len(events) != 1 || !events[0].Look.Released || events[0].Span != between(0, 140) {
			t.Errorf("%+v", events)
		}
	})
}

// That there is no object has no version by which a look could be held against the watch: it is good only while the watch stands, and
// where the watch has told of nothing else.
func TestALookAtNoObjectNeedsAWatchThatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		p := e.probe(map[string]string{"shop": "leader"}, nil)
		e.look(p, 0, false)
		synctest.Wait()
		e.heard(errAway)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Look(ctx, false); !errors.Is(err, errAway) {
			t.Errorf("a look at no object beside a watch that is cut: %v", err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.look(p, 100, false)
		}()
		synctest.Wait()
		e.heard(nil)
		<-done
	})
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		e.take("shop", "web-1_a")
		p := e.probe(map[string]string{"shop": "leader"}, nil)
		synctest.Wait()
		e.slow = true
		e.remove("shop")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Look(ctx, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the watch has not told yet that there is none: %v", err)
		}
	})
}

// Where the watch could not be taken up, others may lie between what was told before and what the list shows: it is said, and nothing
// is concluded from the order of the two. A list that shows the same version has missed nothing.
func TestWhatAWatchMissedIsAGap(t *testing.T) {
	e := newElection(t)
	e.take("shop", "web-1_a")
	p := e.probe(map[string]string{"shop": "leader"}, map[string]string{"web-1": "r1.1", "web-2": "r2.1"})
	e.look(p, 0, false)
	e.cut("shop")
	if events := e.look(p, 100, false); len(events) != 0 {
		t.Errorf("nothing was missed: %+v", events)
	}
	e.slow = true
	e.release("shop")
	e.take("shop", "web-2_b")
	e.release("shop")
	e.now.Store(150)
	e.cut("shop")
	events := e.look(p, 200, false)
	if len(events) != 2 || events[0].Kind != history.GapKind || events[0].Span != between(100, 150) || !strings.Contains(events[0].Coverage.Why, "lease shop was cut") {
		t.Fatalf("%+v, want a gap and what the list shows", events)
	}
	if l := events[1].Look; l.Present || l.Released || l.Direct || events[1].Span != between(100, 150) {
		t.Errorf("whose release it is: %+v", l)
	}
	e.take("shop", "web-1_a")
	if events = e.look(p, 300, false); len(events) != 1 || !events[0].Look.Direct {
		t.Errorf("from there on it is told again: %+v", events)
	}
	e.remove("shop")
	e.look(p, 400, false)
	e.cut("shop") // there may have been an object in between
	e.take("shop", "web-2_b")
	if events = e.look(p, 500, false); len(events) != 2 || events[0].Kind != history.GapKind || events[1].Look.Direct {
		t.Errorf("nothing, cut, and a new object: %+v", events)
	}
}

func TestLeasesHolder(t *testing.T) {
	e := newElection(t)
	p := e.probe(map[string]string{"shop": "leader"}, nil)
	if _, _, ok, err := p.Now(t.Context(), "leader", "shop"); ok || err != nil {
		t.Errorf("no object: %t, %v", ok, err)
	}
	e.look(p, 0, false)
	e.take("shop", "web-1_a")
	now, epoch, ok, err := p.Now(t.Context(), "leader", "shop")
	if err != nil || !ok || now.Value != "web-1_a" || epoch != e.look(p, 1, false)[0].Epoch {
		t.Errorf("%s, %s, %t, %v", epoch, now.Value, ok, err)
	}
	e.release("shop")
	if _, _, ok, _ := p.Now(t.Context(), "leader", "shop"); ok {
		t.Error("a released lease has a holder")
	}
	away := e.probe(map[string]string{"away": "gone"}, nil)
	if _, err := away.Look(t.Context(), false); !errors.Is(err, errAway) {
		t.Errorf("a look without an API server: %v", err)
	}
	if err := away.Sample(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("a look without an API server: %v", err)
	}
	if _, _, _, err := away.Now(t.Context(), "gone", "away"); !errors.Is(err, errAway) {
		t.Errorf("a holder without an API server: %v", err)
	}
}

// Contenders of client-go do not see a second renewal in the same second of its holder's clock: for them it prolongs nothing.
func TestARenewalInTheSameSecond(t *testing.T) {
	e := newElection(t)
	e.take("shop", "web-1_a")
	p := e.probe(map[string]string{"shop": "leader"}, nil)
	e.look(p, 0, false)
	e.now.Store(50)
	e.renew("shop", 2*time.Second)
	e.look(p, 100, false)
	e.now.Store(350)
	e.renew("shop", 300*time.Millisecond)
	events := e.look(p, 400, false)
	if len(events) != 1 {
		t.Fatalf("%d events, want 1", len(events))
	}
	// It was extended after the look at 0 for those who did not see the rest, and by 350 for all others.
	if got := events[0].Look; got.PTTL != fifteen || events[0].From+got.PTTL-got.Slack != fifteen {
		t.Errorf("left %v, slack %v", time.Duration(got.PTTL), time.Duration(got.Slack))
	}
}
