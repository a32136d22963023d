package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// Instants of a line of a diary that are none.
const (
	unanswered = 0
	notWritten = -1
)

// diary is what all electors wrote.
type diary string

// written is a record that an elector wrote within at, on the clock of a run.
type written struct {
	at     history.Span
	holder string
}

// read returns what was written for sure, in its order, and what may have been, later than it was begun.
func (d diary) read(t *testing.T, run *history.History) (all, unsure []written) {
	t.Helper()
	origin := originOf(t, run)
	open := map[written]bool{}
	for lines := bufio.NewScanner(strings.NewReader(string(read(t, string(d))))); lines.Scan(); {
		var w written
		if _, err := fmt.Sscanf(lines.Text(), "%d %d %q", &w.at.From, &w.at.To, &w.holder); err != nil {
			t.Fatal(err)
		}
		from, to := w.at.From-origin, w.at.To
		w.at = history.Span{From: from, To: math.MaxInt64}
		if to == unanswered {
			open[w] = true
			continue
		}
		delete(open, w)
		if w.at.To = to - origin; to != notWritten {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b written) int { return cmp.Compare(a.at.To, b.at.To) })
	return all, slices.Collect(maps.Keys(open))
}

// agree holds each takeover of this Lease in a run against what the electors themselves say, and the history against every record that
// they wrote.
func (d diary) agree(t *testing.T, s *site, o drillOut, lease string) {
	t.Helper()
	h := historyIn(t, o.dir)
	wrote, unsure := d.read(t, h)
	const slack = int64(5 * time.Millisecond) // between the clock of the machine and that of a run
	calls, n := map[string]history.Span{}, 0
	for _, e := range h.Events {
		switch {
		case e.Kind == history.FaultApplied:
			calls[e.Op] = e.Span
		case e.Kind == history.LookKind && e.Key == lease && e.Look.Direct && e.Span != *e.Look.Prev:
			by := func(w written) bool {
				return w.holder == e.Look.Named && w.at.From-slack <= e.To && e.From-slack <= w.at.To
			}
			if n++; !slices.ContainsFunc(wrote, by) && !slices.ContainsFunc(unsure, by) {
				t.Errorf("nobody wrote %q within %v", e.Look.Named, e.Span)
			}
		}
	}
	if n < 5 {
		t.Errorf("%d changes were seen", n)
	}
	for _, x := range o.j.Takeovers {
		if x.Key != lease || x.Class == verdict.ClassRecovery { // of the same leader: nobody took over
			continue
		}
		victim, call, old := podOfLife(h, x.Victim), calls[x.Fault], ""
		died := call.To // whoever gives back begins a hand-over when it is told to
		if x.Class == verdict.ClassCrash {
			for _, l := range s.Lives() {
				if l.UID == victim.UID && !l.Ended.IsZero() {
					died = max(died, l.Ended.UnixNano()-originOf(t, h))
				}
			}
		}
		for _, w := range wrote {
			if w.at.To <= call.From {
				old = w.holder
			}
		}
		next := slices.IndexFunc(wrote, func(w written) bool { return w.at.To > call.From && w.holder != "" && w.holder != old })
		if next < 0 {
			t.Fatalf("nobody took over from %s", x.Victim)
		}
		lo, hi := wrote[next].at.From-died-slack, wrote[next].at.To-call.From+slack
		measured := math.Inf(1) // the end of a trial that was cut off is open
		if x.Hi != nil {
			measured = *x.Hi
		}
		t.Logf("%s: [%.3f s, %.3f s] was measured, the electors say [%.3f s, %.3f s]", x.Class, x.Lo, measured, float64(lo)/1e9, float64(hi)/1e9)
		if x.Lo > float64(hi)/1e9 || measured < float64(lo)/1e9 {
			t.Errorf("%s of %s: [%v, %v], which the truth is not in", x.Class, x.Victim, x.Lo, measured)
		}
	}
}

func originOf(t *testing.T, h *history.History) int64 {
	origin, err := time.Parse(time.RFC3339Nano, h.Header.Started)
	must(t, err)
	return origin.UnixNano()
}

func podOfLife(h *history.History, incarnation string) history.Pod {
	for _, e := range h.Events {
		if e.Kind == history.ReplicaStart && e.Replica.Incarnation == incarnation {
			return *e.Replica.Pod
		}
	}
	return history.Pod{}
}

// elections starts three electors that keep a diary, and returns when one of them leads.
func (s *site) elections(t *testing.T, env ...corev1.EnvVar) diary {
	t.Helper()
	d := filepath.Join(t.TempDir(), "diary")
	s.electors(t, append(env, corev1.EnvVar{Name: "DIARY", Value: d})...)
	s.elected(t)
	return diary(d)
}

// elected waits for a leader and three pods that are ready.
func (s *site) elected(t *testing.T) {
	t.Helper()
	until(t, "a leader and three pods that are ready", func() bool {
		lease, err := s.Client.CoordinationV1().Leases(s.namespace).Get(t.Context(), electedLease, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return false
		}
		d, err := s.Client.AppsV1().Deployments(s.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 3
	})
}

// handedOver: a leader that is asked to stop gives its lease back, another takes it between two looks, and both are seen, with the shipped
// Role and nothing more; where the way to the API server is cut again and again, what is said is still true.
func handedOver(t *testing.T, s *site) {
	diary := s.elections(t, corev1.EnvVar{Name: "RELEASE", Value: "1"})
	yaml := edit(t, fmt.Sprintf(electedDrill, s.namespace), "form: force_delete", "form: graceful")
	s.shippedRole(t, yaml)
	o := s.drill(t, yaml, verdict.ExitPass)
	if len(o.j.Takeovers) != 1 {
		t.Errorf("takeovers: %+v\n%s", o.j.Takeovers, o.text)
	}
	for _, x := range o.j.Takeovers {
		if x.Class != "hand-over" || x.Hi == nil || x.Lo > leaseDuration.Seconds() || x.Successor == "" {
			t.Errorf("takeover %+v", x)
		}
	}
	diary.agree(t, s, o, electedLease)
	s.roleFits(t)
	s.elected(t)
	way := s.Listener(s.kubeconfig)
	s.kubeconfig = way.Kubeconfig
	asks := s.cluster(t)
	over, cut, dir := make(chan struct{}), make(chan struct{}), t.TempDir()
	o = runDrillIn(t, dir, yaml, func(int) {
		until(t, "a run that has begun", func() bool { // one that cannot take its turn, or find its pods, ends
			data, err := os.ReadFile(filepath.Join(dir, "run", historyFile))
			return err == nil && bytes.Contains(data, []byte(`"steady"`))
		})
		go func() {
			defer close(cut)
			for tick := time.NewTicker(300 * time.Millisecond); ; {
				select {
				case <-tick.C:
					// Only what could be asked since the last cut is cut again: a busy machine may need longer for one call.
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					if _, _, err := asks.Lease(ctx, electedLease); err == nil {
						way.Cut(false)
					}
					cancel()
				case <-over:
					return
				}
			}
		}()
	}, s.flags()...)
	close(over)
	<-cut
	if o.code != verdict.ExitPass && o.code != verdict.ExitInconclusive {
		t.Errorf("exit %d\n%s", o.code, o.text)
	}
	diary.agree(t, s, o, electedLease)
}

// shippedRole makes drills of this site go by what export rbac prints, and returns the rules that they need.
func (s *site) shippedRole(t *testing.T, experiment string) []kube.Rule {
	t.Helper()
	dir := folder(t, "pods.yaml", experiment)
	inside, wide, _ := strings.Cut(tryIn(t, dir, "export", "rbac", "pods.yaml").stdout, "---\n# What is in no namespace.\n")
	s.applyAll(t, inside)
	s.applyWide(t, wide)
	e, err := experiments.Load(filepath.Join(dir, "pods.yaml"))
	must(t, err)
	s.kubeconfig = s.KubeconfigForServiceAccount(s.namespace, deploy.RunnerName("pods"))
	rules := drill.Rules(e, "")
	awaitRules(t, s.cluster(t), rules)
	// To make the ConfigMap of the summary is a permission as well, which only the first run uses.
	err = s.Client.CoreV1().ConfigMaps(s.namespace).Delete(t.Context(), deploy.SummaryName("pods"), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	s.since = auditedUntil(t, s.Env)
	return rules
}

// roleFits: since the shipped Role was applied, the drill was refused nothing, and each permission had a use, here and in the namespaces beside.
func (s *site) roleFits(t *testing.T, beside ...string) {
	t.Helper()
	usedAsPermitted(t, s.Env, s.since, s.kubeconfig, deploy.RunnerName("pods"), append([]string{s.namespace}, beside...)...)
}

// applyWide makes the ClusterRole of a Role, or makes it another, and its binding; "" = there is none.
func (s *site) applyWide(t *testing.T, manifests string) {
	t.Helper()
	if manifests == "" {
		return
	}
	for doc := range strings.SplitSeq(manifests, "---\n") {
		must(t, applied(t.Context(), s.Env, s.namespace, []byte(doc)))
	}
}

// cluster is the namespace as drills of this site reach it.
func (s *site) cluster(t *testing.T) *kube.Cluster {
	t.Helper()
	c, err := kube.Open(kube.Options{Kubeconfig: s.kubeconfig, Namespace: s.namespace})
	must(t, err)
	return c
}
