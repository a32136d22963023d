package drill

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

func TestADrillAsksForWhatItDoes(t *testing.T) {
	e := &experiments.Experiment{
		Kubernetes: &experiments.Kubernetes{Namespace: "locks", Pods: experiments.PodsUse},
		Faults:     []experiments.Fault{{ID: "a", Spec: &fault.Kill{How: fault.Crash}}},
	}
	if n := needs(e); n.Kill || n.Exec || n.Apply || len(n.Leases) > 0 || !n.Logs || n.Namespace != "locks" {
		t.Errorf("a worker that crashes when it is told to: %+v", n)
	}
	e.Faults = append(e.Faults, experiments.Fault{ID: "b", Spec: &fault.Kill{How: fault.Graceful}},
		experiments.Fault{ID: "c", Spec: &fault.Kill{How: fault.Crash, Exec: []string{"kill", "-9", "7"}}})
	e.System.Locks = []experiments.Lock{{Lease: "web"}, {Lease: "web"}, {Key: "k"}}
	e.Kubernetes.Pods = experiments.PodsApply
	if n := needs(e); !n.Kill || !n.Exec || !n.Apply || !slices.Equal(n.Leases, []string{"web"}) {
		t.Errorf("everything: %+v", n)
	}
}

func TestTheLongestPodNameIsMeant(t *testing.T) {
	pods := []kube.Pod{{Name: "web"}, {Name: "web-1"}, {Name: "db"}}
	for holder, want := range map[string]string{"web-1_77": "web-1", "web_77": "web", "web-12": "", "": ""} {
		got := ""
		if p := holderPod(nil, holder, pods); p != nil {
			got = p.Name
		}
		if got != want {
			t.Errorf("%q means %q, want %q", holder, got, want)
		}
	}
}

func TestPickNow(t *testing.T) {
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	pods := []kube.Pod{
		{Name: "young", UID: "1", Created: day.Add(2 * time.Hour), Labels: map[string]string{"app": "web"}},
		{Name: "old", UID: "2", Created: day, Labels: map[string]string{"app": "web"}},
		{Name: "ending", UID: "3", Created: day.Add(-time.Hour), Ending: true, Labels: map[string]string{"app": "web"}},
		{Name: "other", UID: "4", Created: day.Add(-time.Hour), Labels: map[string]string{"app": "db"}},
	}
	web := map[string]string{"app": "web"}
	for pick, want := range map[fault.Pick]string{
		fault.PickOldest: "pod old (uid 2), the oldest of 2", fault.PickNewest: "pod young (uid 1), the newest of 2", fault.PickRandom: "one of old, young",
	} {
		if got := pickNow((&fault.Kill{Pods: web, Pick: pick}).Target(), pods); got != want {
			t.Errorf("%s: %q, want %q", pick, got, want)
		}
	}
	if got := pickNow(fault.Aim{Pods: "app=none"}, pods); !strings.Contains(got, "none of the pods has the labels app=none") {
		t.Errorf("nobody: %q", got)
	}
}

func TestAnEndpointAsPodsReachIt(t *testing.T) {
	plain := protocol.Endpoint{Addr: "127.0.0.1:6379", Prefix: "p:", PasswordEnv: "SECRET"}
	if got := fromPods(plain, "", deploy.RedisCA); !reflect.DeepEqual(got, plain) {
		t.Errorf("the same address: %+v", got)
	}
	secure := protocol.Endpoint{Addr: "10.0.0.1:6380", TLS: true, ServerName: "10.0.0.1", CA: "/certs/ca.pem"}
	want := protocol.Endpoint{Addr: "redis.svc:6380", TLS: true, ServerName: "redis.svc", CA: "/etc/lockdrill/redis-ca.pem"}
	if got := fromPods(secure, "redis.svc:6380", deploy.RedisCA); !reflect.DeepEqual(got, want) {
		t.Errorf("another address: %+v, want %+v", got, want)
	}
}

// looks gives one look after the other.
type looks struct{ ends []int64 }

func (l *looks) Look(context.Context, bool) (func(history.Span) []history.Event, error) {
	return func(at history.Span) []history.Event {
		end := l.ends[0]
		l.ends = l.ends[1:]
		return []history.Event{{Kind: history.LookKind, Span: at, Key: "k", Look: &history.Look{
			Present: true, Named: "pod-1", Holder: "r1.1", PTTL: end - at.To, Prev: &history.Span{From: at.From - 100, To: at.To - 100},
		}}}
	}, nil
}

// known are the lives that a name leads to, and what was seen of them.
type known struct {
	holder string
	signs  []int64
}

func (k *known) HolderOf(string) string  { return k.holder }
func (k *known) Sign(_ string, at int64) { k.signs = append(k.signs, at) }

// A lease that ends later than it did was extended by one who lived; one that ends when it did shows nothing, however often it is seen,
// and neither does one that another life of the same name may have extended.
func TestAnExtensionIsASignOfLife(t *testing.T) {
	for holder, want := range map[string][]int64{"r1.1": {1100}, "r1.2": nil} {
		lives := &known{holder: holder}
		s := signing{&looks{ends: []int64{2e9, 2e9, 3e9, 3e9}}, lives, history.Ends{}}
		for i := range 4 {
			look, err := s.Look(t.Context(), false)
			testkit.Must(t, err)
			at := int64(1000 + 100*i)
			look(history.Span{From: at, To: at + 2})
		}
		if !slices.Equal(lives.signs, want) {
			t.Errorf("name of %s: signs at %d, want %d: the look before the extension", holder, lives.signs, want)
		}
	}
}
