package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: w, labels: {lockdrill.dev/run: mine}}
spec:
  replicas: %d
  selector: {matchLabels: {app: w}}
  template:
    metadata: {labels: {app: w}}
    spec: {containers: [{name: c, image: none}]}
`

func manifest(t *testing.T, format string, args ...any) Object {
	t.Helper()
	objects, err := ParseManifests(fmt.Appendf(nil, format, args...))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%v, %v", objects, err)
	}
	return objects[0]
}

func TestKubeObjects(t *testing.T) {
	e := kubetest.Start(t, kubetest.Options{Controllers: true})
	e.Namespace(namespace, map[string]string{EnvironmentAnnotation: "staging"})
	c, err := Open(Options{Kubeconfig: e.Kubeconfig, Namespace: namespace})
	testkit.Must(t, err)
	s := &stand{Env: e, Cluster: c, t: t}
	t.Run("apply and remove", s.testApply)
	t.Run("cut", s.testCut)
	t.Run("any kind", s.testAnyKind)
	t.Run("turn", s.testTurn)
	t.Run("permissions", s.testPermissions)
}

func (s *stand) testApply(t *testing.T) {
	ctx := t.Context()
	testkit.Must(t, s.Apply(ctx, manifest(t, deployment, 2)))
	f, ok, err := s.Find(ctx, "apps/v1", "Deployment", "w")
	if err != nil || !ok || f.Run != "mine" || f.Ending || f.UID == "" {
		t.Fatalf("%+v, %v, %v", f, ok, err)
	}
	s.awaitPods(t, 2)
	// A field that somebody else has taken over since is not taken back by force.
	_, err = s.Env.Client.AppsV1().Deployments(namespace).Patch(ctx, "w", "application/merge-patch+json", []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{FieldManager: "somebody"})
	testkit.Must(t, err)
	if err := s.Apply(ctx, manifest(t, deployment, 3)); err == nil || !strings.Contains(err.Error(), "somebody") || !strings.Contains(err.Error(), "deployment w") {
		t.Errorf("a field of another manager: %v", err)
	}
	if err := s.Remove(ctx, "apps/v1", "Deployment", "w", "11111111-2222-3333-4444-555555555555"); !errors.Is(err, ErrAnother) {
		t.Errorf("an object that is another: %v", err)
	}
	testkit.Must(t, s.Remove(ctx, "apps/v1", "Deployment", "w", f.UID))
	s.awaitPods(t, 0)
	s.within(t, "the Deployment goes after its pods", func(ctx context.Context) bool {
		_, ok, err := s.Find(ctx, "apps/v1", "Deployment", "w")
		return err == nil && !ok
	})
	if err := s.Remove(ctx, "apps/v1", "Deployment", "w", f.UID); !errors.Is(err, ErrGone) {
		t.Errorf("an object that is gone: %v", err)
	}
}

func (s *stand) within(t *testing.T, what string, holds func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !holds(ctx) {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func (s *stand) awaitPods(t *testing.T, n int) {
	t.Helper()
	s.within(t, fmt.Sprintf("%d pods are ready", n), func(ctx context.Context) bool {
		pods, err := s.Pods(ctx, map[string]string{"app": "w"}, "")
		ready := 0
		for _, p := range pods {
			if p.Ready {
				ready++
			}
		}
		return err == nil && len(pods) == n && ready == n
	})
}

// Of many that ask at once, one has the turn; and none ends with an error.
func (s *stand) testTurn(t *testing.T) {
	const runs = 8
	var mu sync.Mutex
	var all sync.WaitGroup
	var winners []Turn
	for i := range runs {
		all.Go(func() {
			now, mine, err := s.TakeTurn(t.Context(), Turn{Name: RunLease, Run: fmt.Sprint("run-", i), Note: "note", TTL: 15 * time.Second})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("run %d: %v", i, err)
			}
			if mine {
				winners = append(winners, now)
			}
		})
	}
	all.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d of %d have the turn: %+v", len(winners), runs, winners)
	}
	w := winners[0]
	again, mine, err := s.TakeTurn(t.Context(), w)
	if err != nil || !mine || !again.Last.After(w.Last) || again.UID != w.UID || again.TTL != 15*time.Second || again.Note != "note" {
		t.Errorf("prolonged: %+v, %v, %v after %+v", again, mine, err, w)
	}
	if err := s.DropTurn(t.Context(), w); !errors.Is(err, ErrAnother) {
		t.Errorf("a turn that has been renewed since: %v", err)
	}
	if err := s.DropTurn(t.Context(), again); err != nil {
		t.Error(err)
	}
	if _, ok, err := s.Lease(t.Context(), RunLease); ok || err != nil {
		t.Errorf("the turn is still there: %v, %v", ok, err)
	}
}

// What RulesFor says and Missing asks is what the API server goes by.
func (s *stand) testPermissions(t *testing.T) {
	ctx, user := t.Context(), "drill-runner"
	as, err := Open(Options{Kubeconfig: s.KubeconfigForServiceAccount(namespace, user), Namespace: namespace})
	testkit.Must(t, err)
	rules := RulesFor(Needs{Namespace: namespace, Apply: true, Kill: true, Exec: true, Logs: true, Leases: []string{"leader"}})
	missing, err := as.Missing(ctx, rules)
	if err != nil || RuleYAML(missing) != RuleYAML(oneName(rules)) {
		t.Errorf("without a Role: %v\n%s\nwant\n%s", err, RuleYAML(missing), RuleYAML(rules))
	}
	if _, _, err := as.Environment(ctx); !errors.Is(err, ErrForbidden) {
		t.Errorf("the namespace without a Role: %v", err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}}
	for _, r := range rules {
		if r.Subresource == "log" {
			continue
		}
		resource := strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{r.APIGroup}, Resources: []string{resource}, Verbs: r.Verbs, ResourceNames: r.Names})
	}
	if _, err := s.Env.Client.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Env.Client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: user, Namespace: namespace}},
	}, metav1.CreateOptions{})
	testkit.Must(t, err)
	s.within(t, "the API server knows the Role, and only the logs are missing", func(ctx context.Context) bool {
		missing, err = as.Missing(ctx, rules)
		return err == nil && len(missing) == 1 && missing[0].Subresource == "log"
	})
	if name, said, err := as.Environment(ctx); name != "staging" || !said || err != nil {
		t.Errorf("the namespace is %q, %v, %v", name, said, err)
	}
	for name, may := range map[string]bool{"leader": true, "another": false} { // a name bounds a watch, too
		ctx, stop := context.WithTimeout(ctx, patience)
		var told bool
		var why error
		as.WatchLease(ctx, name, func(c LeaseChange) { told = c.Listed }, func(err error) {
			why = err
			stop()
		})
		if told != may || may != (why == nil) || !may && !apierrors.IsForbidden(why) {
			t.Errorf("the watch of lease %s: told %t, %v", name, told, why)
		}
	}
}

// oneName is the rules as Missing returns them: one for each name.
func oneName(rules []Rule) []Rule {
	var all []Rule
	for _, r := range rules {
		if len(r.Names) == 0 {
			all = append(all, r)
		}
		for _, n := range r.Names {
			r.Names = []string{n}
			all = append(all, r)
		}
	}
	return all
}
