package probes

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// elector runs client-go's election under a name until the returned function ends it and has waited for it.
func elector(t *testing.T, env *kubetest.Env, name string, release bool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Name: "leader", Namespace: "default"}, Client: env.Client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			LeaseDuration: 2 * time.Second, RenewDeadline: 1500 * time.Millisecond, RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: release,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// What client-go writes is read as what it means: no lease ends, by the looks, after a contender that waited for its end has it.
func TestKubeLeasesOfClientGo(t *testing.T) {
	env := kubetest.Start(t, kubetest.Options{NoNode: true})
	cluster, err := kube.Open(kube.Options{Kubeconfig: env.Kubeconfig, Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	p := NewLeases(cluster, pods(map[string]string{"web-1": "r1.1", "web-2": "r2.1"}))
	p.Watch("leader", "leader")
	begun, last := time.Now(), history.Event{}
	// await looks until the lock is as wanted, and returns the look that showed it and the last one before.
	await := func(what string, is func(*history.Look) bool) (found, before history.Event) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-tick.C {
			sent := int64(time.Since(begun))
			report, err := p.Look(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range report(history.Span{From: sent, To: int64(time.Since(begun))}) {
				if err := e.Check(); err != nil {
					t.Fatal(err)
				}
				before, last = last, e
				if is(e.Look) {
					return e, before
				}
			}
		}
		t.Fatalf("never %s; last %+v", what, last.Look)
		return
	}
	held := func(by string) func(*history.Look) bool { return func(l *history.Look) bool { return l.Holder == by } }
	crash := elector(t, env, "web-1_a", false)
	first, _ := await("held by r1.1", held("r1.1"))
	renewals := 0
	await("renewed", func(*history.Look) bool { renewals++; return renewals == 5 })
	if last.Epoch != first.Epoch || last.Look.PTTL != int64(2*time.Second) || last.Look.Slack <= 0 || last.Look.Slack > int64(time.Second) {
		t.Errorf("renewed: %+v %+v", last, last.Look)
	}
	leave := elector(t, env, "web-2_b", true)
	crash()
	second, before := await("taken over", held("r2.1"))
	early, late := before.From+before.Look.PTTL-before.Look.Slack, before.To+before.Look.PTTL
	if second.Epoch == first.Epoch || before.Look.Holder != "r1.1" || early > second.To {
		t.Errorf("taken over at %v, and the lease ended not before %d", second.Span, early)
	}
	if behind := time.Duration(second.From - late); behind > 10*time.Second {
		t.Errorf("taken over %s after the lease's end", behind)
	}
	leave()
	if released, _ := await("released", func(l *history.Look) bool { return !l.Present }); !released.Look.Released || released.Epoch != "" {
		t.Errorf("released: %+v", released.Look)
	}
}
