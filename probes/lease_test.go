package probes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// election is a namespace with Lease objects that the test changes as holders do.
type election map[string]kube.Lease

var errAway = errors.New("no API server")

func (e election) Lease(_ context.Context, name string) (kube.Lease, bool, error) {
	l, ok := e[name]
	if name == "away" {
		return l, false, errAway
	}
	return l, ok, nil
}

// take is a takeover, renew a renewal; the holder's clock is years off.
func (e election) take(name, holder string) {
	l := e[name]
	now := l.Renewed.Add(time.Second)
	e[name] = kube.Lease{Name: name, Holder: holder, Transitions: l.Transitions + 1, Duration: 15 * time.Second, Acquired: now, Renewed: now}
}

func (e election) renew(name string) {
	l := e[name]
	l.Renewed = l.Renewed.Add(2 * time.Second)
	e[name] = l
}

// release is what client-go writes with ReleaseOnCancel.
func (e election) release(name string) {
	l := e[name]
	l.Holder, l.Duration, l.Acquired, l.Renewed = "", time.Second, l.Renewed.Add(1), l.Renewed.Add(1)
	e[name] = l
}

// pods are the lives that are known; names of holders are as those of client-go.
func pods(known map[string]string) func(string) string {
	return func(named string) string {
		pod, _, _ := strings.Cut(named, "_")
		return known[pod]
	}
}

func TestLeasesReportWhatTheyShowed(t *testing.T) {
	e := election{}
	known := map[string]string{"web-1": "r1.1", "web-2": "r2.1"}
	p := NewLeases(e, pods(known))
	p.Watch("leader", "shop")
	p.Watch("other", "shop") // it is watched already
	p.Watch("idle", "never")
	sec := int64(time.Second)
	step := func(millis int64, want *history.Look, epoch bool, prev int64) history.Event {
		t.Helper()
		events := look(t, p, at(millis), false)
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
		if prev >= 0 {
			if got.Prev == nil || *got.Prev != at(prev) {
				t.Errorf("at %d: prev %v, want %v", millis, got.Prev, at(prev))
			}
		} else if got.Prev != nil {
			t.Errorf("at %d: prev %v at the first look", millis, got.Prev)
		}
		got.Prev = nil
		if got != *want || (events[0].Epoch != "") != epoch || events[0].Lock != "leader" || events[0].Key != "shop" || events[0].Span != at(millis) {
			t.Errorf("at %d: %+v %+v, want %+v", millis, events[0], got, *want)
		}
		return events[0]
	}
	step(0, nil, false, 0)
	e.take("shop", "web-1_a")
	first := step(100, &history.Look{Present: true, PTTL: 15 * sec, Slack: 100 * ms, Named: "web-1_a", Holder: "r1.1"}, true, 0)
	step(200, nil, false, 0)
	e.renew("shop")
	known["web-1"] = "r1.2" // the container has a new life under the old name: the epoch is still the old one's
	renewed := step(300, &history.Look{Present: true, PTTL: 15 * sec, Slack: 100 * ms, Named: "web-1_a", Holder: "r1.1"}, true, 200)
	if renewed.Epoch != first.Epoch {
		t.Error("a renewal made a new epoch")
	}
	e.take("shop", "web-3_b") // a pod that is not known yet
	taken := step(400, &history.Look{Present: true, PTTL: 15 * sec, Slack: 100 * ms, Named: "web-3_b"}, true, 300)
	if taken.Epoch == first.Epoch {
		t.Error("a takeover made no new epoch")
	}
	known["web-3"] = "r3.1"
	step(500, &history.Look{Present: true, PTTL: 15*sec - 100*ms, Slack: 100 * ms, Named: "web-3_b", Holder: "r3.1"}, true, 400)
	e.release("shop")
	step(600, &history.Look{PTTL: absent, Released: true}, false, 500)
	e.take("shop", "web-3_b")
	if again := step(700, &history.Look{Present: true, PTTL: 15 * sec, Slack: 100 * ms, Named: "web-3_b", Holder: "r3.1"}, true, 600); again.Epoch == taken.Epoch {
		t.Error("the same holder's second term is its first one")
	}
	delete(e, "shop")
	step(800, &history.Look{PTTL: absent}, false, 700)
	final := look(t, p, at(900), true)
	if len(final) != 2 || final[0].Key != "never" || final[1].Key != "shop" || !final[0].Look.Final || final[1].Look.Prev != nil {
		t.Errorf("final looks: %+v", final)
	}
}

// A lease that is there at the first look may have been renewed just then, or be over: its record stays whatever became of its holder.
func TestALeaseFoundMayBeOverAlready(t *testing.T) {
	e := election{}
	e.take("shop", "web-1_a")
	p := NewLeases(e, pods(map[string]string{"web-1": "r1.1"}))
	p.Watch("leader", "shop")
	events := look(t, p, at(100), false)
	if len(events) != 1 || events[0].Look.PTTL != int64(15*time.Second) || events[0].Look.Slack != int64(15*time.Second) || events[0].Look.Prev != nil {
		t.Fatalf("first look: %+v", events)
	}
	if events = look(t, p, at(20_000), true); len(events) != 1 || !events[0].Look.Present || events[0].Look.PTTL != 0 || events[0].Look.Slack != 19_900*ms {
		t.Errorf("long after: %+v", events[0].Look)
	}
}

func TestLeasesHolder(t *testing.T) {
	e := election{}
	p := NewLeases(e, pods(nil))
	if _, _, ok, err := p.Holder(t.Context(), "shop"); ok || err != nil {
		t.Errorf("no object: %t, %v", ok, err)
	}
	e.take("shop", "web-1_a")
	p.Watch("leader", "shop")
	epoch, left, ok, err := p.Holder(t.Context(), "shop")
	if err != nil || !ok || left != 15*time.Second || epoch != look(t, p, at(1), false)[0].Epoch {
		t.Errorf("%s, %s, %t, %v", epoch, left, ok, err)
	}
	e.release("shop")
	if _, _, ok, _ := p.Holder(t.Context(), "shop"); ok {
		t.Error("a released lease has a holder")
	}
	p.Watch("gone", "away")
	if _, err := p.Look(t.Context(), false); !errors.Is(err, errAway) {
		t.Errorf("a look without an API server: %v", err)
	}
	if _, _, _, err := p.Holder(t.Context(), "away"); !errors.Is(err, errAway) {
		t.Errorf("a holder without an API server: %v", err)
	}
}

// Contenders of client-go do not see a second renewal in the same second of its holder's clock: for them it prolongs nothing.
func TestARenewalInTheSameSecond(t *testing.T) {
	e := election{}
	p := NewLeases(e, pods(nil))
	p.Watch("leader", "shop")
	e.take("shop", "web-1_a")
	look(t, p, at(0), false)
	e.renew("shop")
	look(t, p, at(100), false)
	l := e["shop"]
	l.Renewed = l.Renewed.Add(300 * time.Millisecond)
	e["shop"] = l
	events := look(t, p, at(400), false)
	if len(events) != 1 {
		t.Fatalf("%d events, want 1", len(events))
	}
	// It was extended after the look at 0 for those who did not see the rest, and by the look at 400 for all others.
	if got, early := events[0].Look, at(0).From+int64(15*time.Second); got.PTTL != int64(15*time.Second) || at(400).From+got.PTTL-got.Slack != early {
		t.Errorf("left %v, slack %v", time.Duration(got.PTTL), time.Duration(got.Slack))
	}
}
