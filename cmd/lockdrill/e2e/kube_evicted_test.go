package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// evictedNamespace is one of electors, whose leader is evicted.
const evictedNamespace = "evicted"

// budget makes, or changes, the disruption budget of the electors, and returns when its controller has said what it allows.
func (s *site) budget(t *testing.T, least, allows int32) {
	t.Helper()
	budgets, keep := s.Client.PolicyV1().PodDisruptionBudgets(s.namespace), intstr.FromInt32(least)
	_, err := budgets.Get(t.Context(), "web-stays", metav1.GetOptions{})
	if err != nil {
		_, err = budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web-stays"},
			Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &keep, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}, metav1.CreateOptions{})
	} else {
		var b *policyv1.PodDisruptionBudget
		if b, err = budgets.Get(t.Context(), "web-stays", metav1.GetOptions{}); err == nil {
			b.Spec.MinAvailable = &keep
			_, err = budgets.Update(t.Context(), b, metav1.UpdateOptions{})
		}
	}
	must(t, err)
	until(t, fmt.Sprintf("a budget that allows %d disruptions", allows), func() bool {
		b, err := budgets.Get(t.Context(), "web-stays", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy == 3 && b.Status.DisruptionsAllowed == allows
	})
}

// evicted: a leader is evicted as the disruption budget of its pods says, by the shipped Role and no more. A budget that blocks leaves
// everybody as they are, makes the shot void and is named; a delete goes around it, and plan says so.
func evicted(t *testing.T, s *site) {
	diary := s.elections(t, corev1.EnvVar{Name: "RELEASE", Value: "1"})
	s.budget(t, 3, 0)
	deletes := fmt.Sprintf(electedDrill, s.namespace)
	yaml := edit(t, deletes, "form: force_delete", "form: evict")
	for text, want := range map[string]string{deletes: "kill deletes pods, which goes around PodDisruptionBudget web-stays (allows 0 disruptions now)",
		yaml: "kill evicts pods only as PodDisruptionBudget web-stays (allows 0 disruptions now) lets it"} {
		if planned := strings.Join(strings.Fields(s.plan(t, text)), " "); !strings.Contains(planned, want) {
			t.Errorf("the plan does not say %q:\n%s", want, planned)
		}
	}
	s.shippedRole(t, yaml)
	before := s.objects(t)
	o := s.drill(t, yaml, verdict.ExitInconclusive)
	if len(o.j.Faults) == 0 || o.j.Faults[0].Confirmed || !strings.Contains(o.j.Faults[0].Why, "web-stays") || !strings.Contains(o.j.Faults[0].Why, "blocked by a disruption budget") {
		t.Errorf("faults %+v\n%s", o.j.Faults, o.text)
	}
	if after := s.objects(t); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("before the eviction: %q, after it: %q", before, after)
	}
	s.budget(t, 2, 1)
	o = s.drill(t, yaml, verdict.ExitPass)
	if len(o.j.Takeovers) != 1 || o.j.Takeovers[0].Class != "hand-over" || !strings.Contains(o.text, "evicted the pod of") {
		t.Errorf("takeovers: %+v\n%s", o.j.Takeovers, o.text)
	}
	s.roleFits(t)
	diary.agree(t, s, o, electedLease)
}

// drainedNamespace is one of electors, whose node is drained.
const drainedNamespace = "drained"

// cordoned reports whether the node takes no pods, and which run says so.
func (s *site) cordoned(t *testing.T) (closed bool, by string) {
	t.Helper()
	n, err := s.Client.CoreV1().Nodes().Get(t.Context(), kubetest.Node, metav1.GetOptions{})
	must(t, err)
	return n.Spec.Unschedulable, n.Annotations[kube.CordonAnnotation]
}

// drained: the one node is cordoned, and then drained of all electors and of nobody else's pods; whatever becomes of the runner, it is
// uncordoned, and they come back. All by the shipped Role and ClusterRole and no more.
func drained(t *testing.T, s *site) {
	others := newSite(t, s.Env, "others")
	bystander := others.bystander(t)
	diary := s.elections(t, corev1.EnvVar{Name: "RELEASE", Value: "1"})
	cordon := edit(t, fmt.Sprintf(electedDrill, s.namespace), "kill: {holder_of: leader, form: force_delete}", "for: 50s, node: {do: cordon, holder_of: leader}")
	s.shippedRole(t, cordon)
	isCordoned := func(want bool) {
		t.Helper()
		if closed, by := s.cordoned(t); closed != want || (by != "") != want {
			t.Errorf("cordoned %v, by %q, want %v", closed, by, want)
		}
	}
	s.killed(t, cordon, "node", "injected", func() { isCordoned(true) }, func() { isCordoned(false) })
	o := s.drill(t, edit(t, cordon, "for: 50s", "for: 2s"), verdict.ExitInconclusive) // nobody takes over
	if len(o.j.Faults) != 1 || !o.j.Faults[0].Confirmed {
		t.Errorf("faults %+v\n%s", o.j.Faults, o.text)
	}
	s.roleFits(t)
	drain := edit(t, cordon, "for: 50s", "for: 3s", "do: cordon", "do: drain", "max_kills: 4", "max_kills: 6")
	s.shippedRole(t, drain)
	o = s.drill(t, drain, verdict.ExitInconclusive)
	if len(o.j.Faults) == 0 || o.j.Faults[0].Confirmed || !strings.Contains(o.text, "limits.last_replica") {
		t.Errorf("all replicas are on the node: %+v\n%s", o.j.Faults, o.text)
	}
	o = s.drill(t, edit(t, drain, "max_kills: 6", "max_kills: 6, last_replica: true"), verdict.ExitPass)
	if len(o.j.Takeovers) != 1 || len(o.j.Faults) == 0 || len(o.j.Faults[0].Victims) != 3 || !strings.Contains(o.text, "drained the node of") {
		t.Errorf("takeovers %+v, faults %+v\n%s", o.j.Takeovers, o.j.Faults, o.text)
	}
	s.roleFits(t)
	diary.agree(t, s, o, electedLease)
	isCordoned(false)
	if after := others.objects(t); strings.Join(after, " ") != strings.Join(bystander, " ") {
		t.Errorf("somebody else's: before %q, after %q", bystander, after)
	}
}
