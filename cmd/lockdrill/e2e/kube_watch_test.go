package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// A watch of a Lease, on a real API server and by the exported Role alone, tells a real Prometheus who leads, that a lease ran out, and how long
// nobody led: the exported alert fires on that, and goes away. The API server takes the rest of what is exported for it, and admits its pod where that must be restricted.
func TestKubeAWatchListensOnLeases(t *testing.T) {
	t.Parallel()
	env, dir := kubetest.Start(t, kubetest.Options{NoNode: true}), t.TempDir()
	env.Namespace("shop", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	kubeconfig := env.KubeconfigForServiceAccount("shop", deploy.DefaultWatch)
	for kind, doc := range exported(t, dir, "watch", "--image", "registry.example/lockdrill:1.0.0", "-n", "shop", "--lease", "billing-leader") {
		var dry []string
		if kind == "Deployment" || kind == "Service" {
			dry = []string{metav1.DryRunAll}
		}
		if err := applied(t.Context(), env, "shop", doc, dry...); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if template := templateOf(t, doc); template != nil {
			if err := admitPod(t, env, "shop", *template); err != nil {
				t.Errorf("the pod of the %s: %v", kind, err)
			}
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	at := free.Addr().String()
	_ = free.Close()
	var said, last bytes.Buffer // last: what its metrics were
	watch := lockdrill("watch", "--kubeconfig", kubeconfig, "--namespace", "shop", "--lease", "billing-leader", "--holder", `^(?P<holder>pod-\w+)$`, "--listen", at)
	watch.Stderr = &said
	must(t, watch.Start())
	t.Cleanup(func() {
		_ = watch.Process.Kill() // it runs on until it is ended
		if _ = watch.Wait(); t.Failed() {
			t.Logf("the watch says:\n%s\nand shows\n%s", &said, strings.Join(regexp.MustCompile(`(?m)^lockdrill_watch_(holders|leases|takeover\w+count).*`).FindAllString(last.String(), -1), "\n"))
		}
	})
	shows := func(lines ...string) func() bool {
		return func() bool {
			answer, err := http.Get("http://" + at + "/metrics")
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			last.Reset()
			if _, err := last.ReadFrom(answer.Body); err != nil {
				return false
			}
			for _, line := range lines {
				if !strings.Contains(last.String(), line+"\n") {
					return false
				}
			}
			return true
		}
	}
	first, die := context.WithCancel(t.Context())
	defer die()
	go elect(first, env, "pod-a")
	until(t, "the watch to see who leads, and renews", shows(`lockdrill_watch_holders{holder="pod-a",lock="billing-leader"} 1`,
		`lockdrill_watch_renewal_interval_seconds_count{lock="billing-leader"} 2`))
	b := &bench{dir: dir}
	b.start(t, watchScale, "--metrics", "watch")
	b.scrape(map[string]string{"watch": at})
	until(t, "Prometheus to know who leads, and that no lease ran out yet", func() bool {
		return b.value(t, `lockdrill_watch_holders{holder="pod-a",lock="billing-leader"}`) == "1" && b.value(t, `lockdrill_watch_leases_ended_total{how="ran_out",lock="billing-leader"}`) == "0"
	})
	if firing := b.firing(t); len(firing) > 0 {
		t.Errorf("%q fire while all is well", firing)
	}
	die()
	until(t, "the watch to see that nobody leads", func() bool {
		return shows(`lockdrill_watch_holders{holder="",lock="billing-leader"} 0`)() && !strings.Contains(last.String(), "pod-a")
	})
	second, leave := context.WithCancel(t.Context())
	defer leave()
	go elect(second, env, "pod-b")
	until(t, "the watch to know of the takeover", shows(`lockdrill_watch_holders{holder="pod-b",lock="billing-leader"} 1`,
		`lockdrill_watch_leases_ended_total{how="ran_out",lock="billing-leader"} 1`, `lockdrill_watch_takeover_seconds_count{bound="hi",lock="billing-leader"} 1`))
	b.await(t, "fire", func(firing []string) bool { return slices.Equal(firing, []string{"LockLeaseRanOut"}) })
	until(t, "Prometheus to know of the takeover", func() bool {
		return b.value(t, `lockdrill_watch_takeover_seconds_count{bound="hi",lock="billing-leader"}`) == "1" && b.value(t, `lockdrill_watch_holders{holder="pod-b",lock="billing-leader"}`) == "1"
	})
	b.await(t, "go away", func(firing []string) bool { return len(firing) == 0 })
}

const watchScale = 0.02 // a quarter of an hour is 18 s

// value is what the Prometheus has of a series now; "" = nothing.
func (b *bench) value(t *testing.T, series string) string {
	t.Helper()
	res, err := http.Get(b.url + "/api/v1/query?query=" + url.QueryEscape(series))
	must(t, err)
	defer res.Body.Close()
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	must(t, json.NewDecoder(res.Body).Decode(&answer))
	if len(answer.Data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1])
}

// elect holds the Lease billing-leader as an elector does, with a lease of two seconds, until ctx ends: then it dies.
func elect(ctx context.Context, env *kubetest.Env, who string) {
	leases, seconds := env.Client.CoordinationV1().Leases("shop"), int32(2)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil { // what is not held fails the test that waits for it
		now := metav1.NowMicro()
		l, err := leases.Get(ctx, "billing-leader", metav1.GetOptions{})
		if err != nil {
			l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "billing-leader"}}
		}
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != who {
			l.Spec.AcquireTime, l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &now, &who, &seconds
			l.Spec.LeaseTransitions = new(int32(1))
		}
		l.Spec.RenewTime = &now
		if err != nil {
			_, _ = leases.Create(ctx, l, metav1.CreateOptions{})
		} else {
			_, _ = leases.Update(ctx, l, metav1.UpdateOptions{})
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
