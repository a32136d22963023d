package leasestore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/lockdrill/lockdrill/internal/testkit/storetest"
	"github.com/lockdrill/lockdrill/lockcore"
)

// settable is a clock that stands until it is moved.
type settable struct {
	mu sync.Mutex
	t  time.Time
}

func (c *settable) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *settable) wait(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// newFake is a clientset that refuses updates of what has changed, as an API server does and the fake by itself does not.
func newFake() *fake.Clientset {
	c := fake.NewClientset()
	var mu sync.Mutex
	version := 0
	tracker := c.Tracker()
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	c.PrependReactor("*", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		switch a := a.(type) {
		case clienttesting.UpdateAction: // a create is one as well, by its methods
			l := a.GetObject().(*coordination.Lease).DeepCopy()
			version++
			if a.GetVerb() == "create" {
				l.ResourceVersion, l.UID = strconv.Itoa(version), "u"
				return true, l, tracker.Create(leases, l, a.GetNamespace())
			}
			have, err := tracker.Get(leases, a.GetNamespace(), l.Name)
			if err != nil {
				return true, nil, err
			}
			if have.(*coordination.Lease).ResourceVersion != l.ResourceVersion {
				return true, nil, apierrors.NewConflict(leases.GroupResource(), l.Name, errors.New("it has changed"))
			}
			l.ResourceVersion = strconv.Itoa(version)
			return true, l, tracker.Update(leases, l, a.GetNamespace())
		}
		return false, nil, nil
	})
	return c
}

func newStore(c *fake.Clientset, k *settable) *Store {
	s := New(c.CoordinationV1(), "ns", "")
	s.now = k.now
	return s
}

func newClock() *settable { return &settable{t: time.Now()} }

// The conformance suite, with the unit that Limits declares; what else is not as elsewhere is printed, and shown by the tests below.
func TestStore(t *testing.T) {
	for _, l := range Limits() {
		t.Logf("limit: %s: %s", l.What, l.Why)
	}
	k := newClock()
	storetest.StoreOf(t, Unit, func(*testing.T) lockcore.Store { return newStore(newFake(), k) }, k.wait)
}

// rig is two stores, as of two processes, on one API server.
func rig() (one, two *Store, k *settable, c *fake.Clientset) {
	c, k = newFake(), newClock()
	return newStore(c, k), newStore(c, k), k, c
}

func acquired(t *testing.T, s *Store, key, token string, ttl time.Duration) lockcore.Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), key, token, ttl)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return g
}

func object(t *testing.T, c *fake.Clientset, name string) *coordination.Lease {
	t.Helper()
	l, err := c.CoordinationV1().Leases("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Each limit of time, as it is.
func TestWhoeverDidNotWatchWaitsAWholeTTL(t *testing.T) {
	holder, other, k, c := rig()
	const ttl = 3 * time.Second
	acquired(t, holder, "k", "one", ttl)
	k.wait(2 * time.Second)
	var held *lockcore.HeldError
	if _, err := other.Acquire(t.Context(), "k", "two", ttl); !errors.As(err, &held) || held.PTTL != ttl {
		t.Fatalf("%v: want it held for a whole TTL: the other has just met it", err)
	}
	k.wait(2 * time.Second)
	if err := holder.Renew(t.Context(), "k", "one", ttl); lockcore.ResultOf(err) != lockcore.Absent {
		t.Errorf("renew by who saw it all: %v, want not owned", err)
	}
	third := newStore(c, k)
	if err := third.Renew(t.Context(), "k", "one", ttl); err != nil {
		t.Errorf("renew by who did not see it pass: %v", err)
	}
	if _, err := other.Acquire(t.Context(), "k", "two", ttl); !errors.As(err, &held) || held.PTTL != ttl {
		t.Fatalf("%v: want it held anew: it was renewed", err)
	}
	k.wait(ttl)
	acquired(t, other, "k", "two", ttl)
	if err := third.Renew(t.Context(), "k", "one", ttl); lockcore.ResultOf(err) != lockcore.Other {
		t.Errorf("renew after the takeover: %v, want not owned", err)
	}
}

func TestTTLsAreWholeSeconds(t *testing.T) {
	s, _, _, c := rig()
	for _, ttl := range []time.Duration{time.Millisecond, 1500 * time.Millisecond, 1 << 62} {
		if _, err := s.Acquire(t.Context(), "k", "one", ttl); !errors.Is(err, lockcore.ErrNotSent) {
			t.Errorf("ttl %s: %v, want that it is not sent", ttl, err)
		}
	}
	if n := len(c.Actions()); n > 0 {
		t.Errorf("%d calls", n)
	}
}

// The object shows the epoch and not the token, keeps its fence over a release, and counts transitions as an elector does.
func TestWhatStandsInTheObject(t *testing.T) {
	s, other, _, c := rig()
	first := acquired(t, s, "leader", "secret token", 2*time.Second)
	l := object(t, c, "leader")
	text := fmt.Sprintf("%+v", l)
	if strings.Contains(text, "secret token") {
		t.Error("the token stands in the object")
	}
	if got := fingerprint(holderOf(l)); got != lockcore.Fingerprint("secret token") {
		t.Errorf("fingerprint %s", got)
	}
	if *l.Spec.LeaseDurationSeconds != 2 || *l.Spec.LeaseTransitions != 0 || l.Labels[Label] != "true" || l.Annotations[KeyAnnotation] != "leader" {
		t.Errorf("object %+v", l)
	}
	if err := s.Release(t.Context(), "leader", "secret token"); err != nil {
		t.Fatal(err)
	}
	if l = object(t, c, "leader"); holderOf(l) != "" {
		t.Errorf("released, and still of %s", holderOf(l))
	}
	second := acquired(t, other, "leader", "next", 2*time.Second)
	if l = object(t, c, "leader"); second.Fence <= first.Fence || *l.Spec.LeaseTransitions != 1 {
		t.Errorf("fences %d, %d; transitions %d", first.Fence, second.Fence, *l.Spec.LeaseTransitions)
	}
}

// A clock that is behind gives no smaller fence.
func TestFencesGrowWhereClocksDoNot(t *testing.T) {
	s, behind, _, c := rig()
	first := acquired(t, s, "k", "one", time.Second)
	if err := s.Release(t.Context(), "k", "one"); err != nil {
		t.Fatal(err)
	}
	behind.now = (&settable{t: time.Now().Add(-time.Hour)}).now
	second := acquired(t, behind, "k", "two", time.Second)
	if second.Fence <= first.Fence {
		t.Errorf("fence %d after %d", second.Fence, first.Fence)
	}
	// Nor do times of an elector whose clock is behind as well.
	l := object(t, c, "k")
	before := metav1.NewMicroTime(behind.now())
	l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.AcquireTime = new(string), &before, &before
	if _, err := c.CoordinationV1().Leases("ns").Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if third := acquired(t, behind, "k", "three", time.Second); third.Fence <= second.Fence {
		t.Errorf("fence %d after %d", third.Fence, second.Fence)
	}
}

// A renewal changes the record although the holder's clock stands: others judge by nothing else.
func TestAClockThatStandsRenews(t *testing.T) {
	holder, other, k, _ := rig()
	holder.now = (&settable{t: k.now()}).now
	const ttl = 3 * time.Second
	acquired(t, holder, "k", "one", ttl)
	for range 3 {
		var held *lockcore.HeldError
		if _, err := other.Acquire(t.Context(), "k", "two", ttl); !errors.As(err, &held) {
			t.Fatalf("%v, want it held: it is renewed every 2 s", err)
		}
		k.wait(2 * time.Second)
		if err := holder.Renew(t.Context(), "k", "one", ttl); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever changes something else of the object, such as a label, is in nobody's way.
func TestAConflictIsNoRefusal(t *testing.T) {
	s, _, _, c := rig()
	acquired(t, s, "k", "one", time.Second)
	conflicts := 1
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	l := object(t, c, "k")
	l.Labels["theirs"], l.ResourceVersion = "yes", "theirs"
	c.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts--; conflicts == 0 {
			return false, nil, c.Tracker().Update(leases, l, "ns")
		}
		return false, nil, nil
	})
	if err := s.Renew(t.Context(), "k", "one", 2*time.Second); err != nil {
		t.Errorf("renew: %v", err)
	}
	if l := object(t, c, "k"); *l.Spec.LeaseDurationSeconds != 2 || l.Labels["theirs"] != "yes" || conflicts != -1 {
		t.Errorf("object %+v after %d updates", l, 1-conflicts)
	}
}

// An elector of client-go on the same object is another holder.
func TestAnElectorsLeaseIsHeld(t *testing.T) {
	s, _, k, c := rig()
	who, seconds, transitions, now := "pod-1_0815", int32(15), int32(4), metav1.NewMicroTime(k.now())
	_, err := c.CoordinationV1().Leases("ns").Create(t.Context(), &coordination.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "leader", Namespace: "ns"},
		Spec:       coordination.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now, LeaseTransitions: &transitions},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var held *lockcore.HeldError
	if _, err := s.Acquire(t.Context(), "leader", "one", time.Second); !errors.As(err, &held) || held.Holder != lockcore.Fingerprint(who) || held.PTTL != 15*time.Second {
		t.Fatalf("%v, want it held by the elector", err)
	}
	k.wait(15 * time.Second)
	acquired(t, s, "leader", "one", time.Second)
	if l := object(t, c, "leader"); *l.Spec.LeaseTransitions != 5 {
		t.Errorf("transitions %d", *l.Spec.LeaseTransitions)
	}
}

// What surely had no effect says so, and nothing else does.
func TestErrorsSayWhetherThereWasAnEffect(t *testing.T) {
	status := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonUnknown}}
	}
	for _, tt := range []struct {
		verb    string
		err     error
		notSent bool
	}{
		{"get", errors.New("connection reset"), true},
		{"get", status(http.StatusInternalServerError), true},
		{"create", status(http.StatusForbidden), true},
		{"create", status(http.StatusTooManyRequests), true},
		{"create", status(http.StatusInternalServerError), false},
		{"create", status(http.StatusGatewayTimeout), false},
		{"create", context.DeadlineExceeded, false},
		{"create", errors.New("connection reset"), false},
		{"create", status(http.StatusConflict), true}, // the fake says so for ever
	} {
		s, _, _, c := rig()
		c.PrependReactor(tt.verb, "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
		_, err := s.Acquire(t.Context(), "k", "one", time.Second)
		if err == nil || errors.Is(err, lockcore.ErrNotSent) != tt.notSent {
			t.Errorf("%s fails with %v: %v, want not sent = %v", tt.verb, tt.err, err, tt.notSent)
		}
	}
}

func TestNamesAreValidAndApart(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for key, want := range map[string]string{
		"leader": "leader", "a.b-c": "a.b-c", "": "key-x", "Leader": "key-x4c6561646572", "key-x41": "key-x6b65792d783431", "job:1": "key-x6a6f623a31",
		long: objectName(long),
	} {
		if got := objectName(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
	names := map[string]string{}
	for _, key := range []string{"", "a", "A", "-a", "a-", "a..b", "a b", "key-x", "key-s", "key-x61", "key-s61", long, long + "x", strings.Repeat("a", 300), strings.Repeat("a", 253), strings.Repeat("a", 254)} {
		name := objectName(key)
		if other, taken := names[name]; taken || len(name) > 253 {
			t.Errorf("%q has the name %q, as %q", key, name, other)
		}
		names[name] = key
	}
}

// The documentation lists the limits in the words that the code has.
func TestLimitsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range Limits() {
		if row := "| " + l.What + " | " + l.Why + " |"; !strings.Contains(string(doc), row) {
			t.Errorf("docs/stores.md lacks the row\n%s", row)
		}
	}
}
