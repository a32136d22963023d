package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// pairNamespace and besideNamespace are those of one drill: an election in each.
const (
	pairNamespace   = "pair"
	besideNamespace = "beside"
)

// besideDrill kills whoever leads in the second of two namespaces, and then whoever leads in the first.
func besideDrill(t *testing.T, first, second string) string {
	t.Helper()
	yaml := fmt.Sprintf(electedDrill, first)
	from, to := strings.Index(yaml, "    - name: leader"), strings.Index(yaml, "steady_state:")
	lock := edit(t, yaml[from:to], "name: leader", "name: other", "lease: "+electedLease, "lease: "+second+"/"+electedLease)
	return edit(t, yaml[:to]+lock+yaml[to:], "selector: {app: web}", "namespaces: ["+second+"], events: true, selector: {app: web}", "replicas: 3", "replicas: 6",
		"  - {id: kill, at: 0s, kill: {holder_of: leader, form: force_delete}}\n", "  - {id: other, at: 0s, kill: {holder_of: other, form: force_delete}}\n"+
			"  - {id: leader, at: 30s, kill: {holder_of: leader, form: force_delete}}\n",
		"  - {lock: leader, takeover", "  - {lock: other, takeover: {max: 12s}}\n  - {lock: leader, takeover")
}

// besideOthers: two namespaces in one drill, by the shipped Roles and no more. Each is guarded, and each one's turn is taken.
func besideOthers(t *testing.T, s *site) {
	other := newSite(t, s.Env, besideNamespace)
	yaml, dir := besideDrill(t, pairNamespace, besideNamespace), t.TempDir()
	write(t, filepath.Join(dir, "pods.yaml"), []byte(yaml))
	s.elections(t)
	other.elections(t)
	s.shippedRole(t, yaml)
	refused := func(want ...string) {
		t.Helper()
		until(t, "a plan that is refused, and says "+strings.Join(want, ", "), func() bool {
			got := tryIn(t, dir, append([]string{"plan", "pods.yaml"}, s.flags()...)...)
			said := strings.Join(strings.Fields(got.stdout+got.stderr), " ")
			for _, w := range want {
				if !strings.Contains(said, w) {
					return false
				}
			}
			return got.code == verdict.ExitRefused
		})
	}
	annotate := func(environment string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, kube.EnvironmentAnnotation, environment)
		if _, err := s.Client.CoreV1().Namespaces().Patch(t.Context(), besideNamespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	annotate("production")
	refused("namespace " + besideNamespace + ` says it is "production"`)
	annotate("staging")
	run, hour, now := "somebody", int32(3600), metav1.NewMicroTime(time.Now())
	leases := s.Client.CoordinationV1().Leases(besideNamespace)
	if _, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: kube.RunLease, Labels: map[string]string{kube.RunLabel: run}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &run, LeaseDurationSeconds: &hour, AcquireTime: &now, RenewTime: &now}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused("kubernetes kubetest/" + besideNamespace + " is held by run somebody")
	must(t, leases.Delete(t.Context(), kube.RunLease, metav1.DeleteOptions{}))
	before := append(s.objects(t), other.objects(t)...)
	s.since = auditedUntil(t, s.Env)
	o := s.drill(t, yaml, verdict.ExitPass)
	struckInEach(t, o, besideNamespace)
	s.roleFits(t, besideNamespace)
	events, err := s.Client.CoreV1().Events(besideNamespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	said := map[string]bool{}
	for i := range events.Items {
		said[events.Items[i].Reason] = true
	}
	if !said["LockdrillBegins"] || !said["LockdrillStruck"] || !said["LockdrillEnds"] {
		t.Errorf("events of the second namespace: %v", said)
	}
	if after := append(s.objects(t), other.objects(t)...); len(after) != len(before) || strings.Contains(strings.Join(after, " "), kube.RunLease) {
		t.Errorf("before: %q, afterwards: %q", before, after)
	}
}

// struckInEach: of two namespaces, three pods in each, the leader in the second was struck, and then that in the first; others took over.
func struckInEach(t *testing.T, o drillOut, second string) *history.History {
	t.Helper()
	h := historyIn(t, o.dir)
	if len(o.j.Faults) != 2 || len(o.j.Takeovers) != 2 {
		t.Fatalf("faults %+v, takeovers %+v\n%s", o.j.Faults, o.j.Takeovers, o.text)
	}
	for i, f := range o.j.Faults {
		x, pod := o.j.Takeovers[i], podOfLife(h, f.Victim).Name
		if !f.Confirmed || x.Victim != f.Victim || x.Successor == "" || strings.HasPrefix(pod, second+"/") != (f.ID == "other") {
			t.Errorf("%s struck %s, in pod %s: confirmed %v, takeover %+v", f.ID, f.Victim, pod, f.Confirmed, x)
		}
	}
	uids := map[bool]map[string]bool{false: {}, true: {}}
	for _, e := range h.Events {
		if e.Kind == history.ReplicaStart {
			uids[strings.HasPrefix(e.Replica.Pod.Name, second+"/")][e.Replica.Pod.UID] = true
		}
	}
	if len(uids[false]) < 3 || len(uids[true]) < 3 {
		t.Errorf("pods by namespace: %v", uids)
	}
	return h
}
