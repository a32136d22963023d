package injectors

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/proxies/apiproxy"
)

// addressed is a cluster with one pod that has an address.
type addressed struct{ Cluster }

func (addressed) Pod(context.Context, string, string) (kube.Pod, bool, error) {
	return kube.Pod{Name: "w-0", UID: "u1", IP: "10.1.2.3"}, true, nil
}

// The proxy is told of the victim's address, and of none where all are meant; what it never struck is void, and what ended it reads back.
func TestAFaultOfTheAPIServerIsMadeByItsProxy(t *testing.T) {
	p := apiproxy.New(apiproxy.Options{Upstream: "127.0.0.1:1"})
	t.Cleanup(func() { _ = p.Close() })
	api := httptest.NewServer(p.API())
	t.Cleanup(api.Close)
	spec := &fault.APIServer{Do: fault.SlowAPI, Delay: 2 * time.Second, Aim: fault.Aim{HolderOf: "leader"}}
	reach := &Reach{APIProxy: api.URL, Run: "run", Pods: addressed{}, Past: recorded{podStart}.past, Clock: func() int64 { return 5 }}
	shot := history.Event{Op: "slow#1", Fault: &history.Fault{ID: "slow", Victim: "r1.1", Declared: int64(time.Hour)}}
	a, err := reach.Prepare(t.Context(), spec, shot)
	r := a.Record()
	if err != nil || r.Tap == nil || r.Tap.ID != "run-slow.1" || len(p.Faults()) > 0 {
		t.Fatalf("prepared %+v, %v", r.Tap, err)
	}
	applied, err := a.Inject(t.Context())
	if f := p.Faults()[0]; err != nil || f.Do != "slow" || f.Delay != 2*time.Second || f.For != time.Hour || !slices.Equal(f.From, []string{"10.1.2.3"}) {
		t.Fatalf("armed %+v, %v", f, err)
	}
	undone := (&Reach{}).Reverters(false)["api_server"]
	for range 2 {
		if _, err := a.Revert(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := undone(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if p.Faults()[0].Ended == nil {
		t.Error("it goes on")
	}
	if _, _, err := a.Confirm(t.Context(), applied); voidOf(err) != string(history.Unconfirmed) || !strings.Contains(err.Error(), "go round the proxy") {
		t.Errorf("nothing was struck: %v", err)
	}
	r.Tap.ID = "another"
	if _, _, err := a.Confirm(t.Context(), applied); voidOf(err) != string(history.Unconfirmed) {
		t.Errorf("the proxy does not know it: %v", err)
	}
	if err := undone(t.Context(), r); err != nil {
		t.Errorf("of which it knows nothing, nothing is left: %v", err)
	}
	spec.Do, spec.Delay, spec.Of = fault.LostAPI, 0, lockcore.OpRenew
	if _, err := a.Inject(t.Context()); voidOf(err) != string(history.FaultFailed) || !strings.Contains(err.Error(), "--cert") {
		t.Errorf("a proxy that passes TLS through: %v", err)
	}
	spec.Aim = fault.Aim{All: true}
	if from, err := a.addresses(t.Context()); err != nil || from != nil {
		t.Errorf("everybody: %q, %v", from, err)
	}
	shot.Fault.Victim, spec.Aim = "r9.1", fault.Aim{Replica: "r9"}
	if _, err := reach.Prepare(t.Context(), spec, shot); voidOf(err) != string(history.NoTarget) {
		t.Errorf("nobody known: %v", err)
	}
}
