package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// apiFaults are the rows of docs/stores.md: what befalls the API server, and for whom. A row that is brief is tried by each test-kube;
// LOCKDRILL_API_FAULTS=N measures all of them, with N shots each.
var apiFaults = []struct {
	name, fault string
	brief       bool
	readOnly    bool
}{
	{name: "away for the leader", fault: "do: away, holder_of: leader", brief: true},
	{name: "away for all", fault: "do: away, all: true"},
	{name: "slow by 5s for the leader", fault: "do: slow, delay: 5s, holder_of: leader"},
	{name: "slow by 5s for all", fault: "do: slow, delay: 5s, all: true"},
	{name: "slow by 1s for all", fault: "do: slow, delay: 1s, all: true"},
	{name: "refuses writes of the leader", fault: "do: refuse_writes, holder_of: leader", brief: true, readOnly: true},
	{name: "loses the answer to a renewal", fault: "do: lose_reply, of: renew, holder_of: leader", readOnly: true},
	{name: "refuses writes of all", fault: "do: refuse_writes, all: true", readOnly: true},
}

// TestKubeAPIServerFaults: electors of client-go reach a real API server through lockdrill's proxy, which makes it slow, read-only or away, or keeps
// one answer back.
// Who leads when, the electors say themselves.
func TestKubeAPIServerFaults(t *testing.T) {
	atLength(t, "no drill through the binary")
	t.Parallel()
	candidates := needElector(t)
	shots, _ := strconv.Atoi(os.Getenv("LOCKDRILL_API_FAULTS"))
	var leads sync.Map // kubeconfigs, by namespace
	e := kubetest.Start(t, kubetest.Options{Audit: true, NodeOptions: kubetest.NodeOptions{Run: func(ctx context.Context, l *kubetest.Life) int {
		file, _ := leads.Load(l.Pod.Namespace)
		return kubetest.Command(candidates, "KUBECONFIG="+file.(string))(ctx, l)
	}}})
	for i, c := range apiFaults {
		if !c.brief && shots == 0 {
			continue
		}
		namespace := fmt.Sprintf("api-%d", i)
		e.Namespace(namespace, map[string]string{kube.EnvironmentAnnotation: "staging"})
		s := &site{Env: e, namespace: namespace, kubeconfig: e.Kubeconfig}
		args := []string{"--upstream", e.Config.Host}
		if c.readOnly {
			cert, key, ca := e.ServingFiles()
			args = append(args, "--cert", cert, "--key", key, "--ca", ca)
		}
		t.Run(c.name, func(t *testing.T) {
			if shots == 0 { // a measurement goes alone
				t.Parallel()
			}
			clients, api := startProxy(t, args...)
			leads.Store(namespace, s.KubeconfigForElector(namespace, "https://"+clients))
			diary := s.barePods(t)
			yaml := edit(t, fmt.Sprintf(electedDrill, namespace),
				"selector: {app: web}}", `selector: {app: web}, api_proxy: "`+api+`"}`,
				"{id: kill, at: 0s, kill: {holder_of: leader, form: force_delete}}", fmt.Sprintf("{id: api, at: 0s, for: 12s, repeat: {count: %d, every: settled}, api_server: {%s}}", max(1, shots), c.fault),
				"takeover: {max: 12s}", "takeover: {max: 25s}", "max_run: 3m", "max_run: 10m")
			s.shippedRole(t, yaml)
			o := runDrill(t, yaml, nil, s.runFlags()...)
			if o.code != verdict.ExitPass && o.code != verdict.ExitInconclusive {
				t.Errorf("exit %d\n%s", o.code, o.text)
			}
			h := historyIn(t, o.dir)
			n := 0
			for _, f := range h.Events {
				if f.Kind == history.FaultConfirmed {
					n++
				}
			}
			if n < max(1, shots) {
				t.Errorf("%d of %d shots were confirmed\n%s", n, max(1, shots), o.text)
			}
			s.roleFits(t)
			diary.agree(t, s, o, electedLease)
			tellBeliefs(t, c.name, string(diary)+beliefs, h, o, "api")
		})
	}
}

// barePods are three electors without an owner, whose containers are started again; it returns their diary when one leads.
func (s *site) barePods(t *testing.T) diary {
	t.Helper()
	d := filepath.Join(t.TempDir(), "diary")
	for i := range 3 {
		_, err := s.Client.CoreV1().Pods(s.namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{NodeName: kubetest.Node, Containers: []corev1.Container{candidate(corev1.EnvVar{Name: "DIARY", Value: d})}}}, metav1.CreateOptions{})
		must(t, err)
	}
	until(t, "a leader", func() bool {
		lease, err := s.Client.CoordinationV1().Leases(s.namespace).Get(t.Context(), electedLease, metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	})
	return diary(d)
}

// belief is a stretch in which an elector took itself for the leader, in seconds of a run.
type belief struct {
	who      string
	from, to float64
}

func readBeliefs(t *testing.T, file string, origin int64) []*belief {
	t.Helper()
	var all []*belief
	for lines := bufio.NewScanner(strings.NewReader(string(read(t, file)))); lines.Scan(); {
		var at int64
		var leads bool
		var who string
		if _, err := fmt.Sscanf(lines.Text(), "%d %t %q", &at, &leads, &who); err != nil {
			t.Fatal(err)
		}
		when := float64(at-origin) / 1e9
		if leads {
			all = append(all, &belief{who, when, math.Inf(1)})
			continue
		}
		if i := slices.IndexFunc(all, func(b *belief) bool { return b.who == who && math.IsInf(b.to, 1) }); i >= 0 {
			all[i].to = when
		}
	}
	return all
}

// tellBeliefs logs a row for each shot of a fault: when the old leader stopped and the next one began, by their own words, from when the fault began
// and for how long both led. It returns how long after that beginning each old leader stopped, infinitely late if it went on.
func tellBeliefs(t *testing.T, name, file string, h *history.History, o drillOut, fault string) (stopped []float64) {
	t.Helper()
	all := readBeliefs(t, file, originOf(t, h))
	for _, f := range h.Events {
		if f.Kind != history.FaultApplied || f.Fault.ID != fault {
			continue
		}
		at := float64(f.From) / 1e9
		var old, next *belief
		for _, b := range all {
			if b.from <= at && b.to > at {
				old = b
			}
			if b.from > at && (next == nil || b.from < next.from) {
				next = b
			}
		}
		if old == nil {
			t.Errorf("%s: nobody led at %.3fs", f.Op, at)
			continue
		}
		stopped = append(stopped, old.to-at)
		switch {
		case old.to > at+20: // the fault is over by then
			t.Logf("| %s | %s | the leader goes on |", name, f.Op)
		case next == nil:
			t.Logf("| %s | %s | the leader stopped after %.1fs | nobody else led |", name, f.Op, old.to-at)
		default:
			t.Logf("| %s | %s | the leader stopped after %.1fs | the next led after %.1fs | both led for %.1fs |", name, f.Op, old.to-at, next.from-at, max(0, old.to-next.from))
		}
	}
	for _, x := range o.j.Takeovers {
		if !strings.HasPrefix(x.Fault, fault+"#") {
			continue
		}
		hi := math.Inf(1)
		if x.Hi != nil {
			hi = *x.Hi
		}
		t.Logf("%s: %s [%.1fs, %.1fs] was measured from %s", name, x.Class, x.Lo, hi, x.Fault)
	}
	return stopped
}
