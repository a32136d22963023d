package kube

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/lockdrill/lockdrill/internal/kubefake"
)

// An answer to an eviction is told apart by its code and its causes, and a budget that blocks is named.
func TestEvictSaysWhatBlocks(t *testing.T) {
	blocked := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	blocked.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget web needs 2 healthy pods and has 2 currently"}}
	pods := corev1.Resource("pods")
	for _, c := range []struct {
		answer error
		want   error
		says   string
	}{
		{nil, nil, ""},
		{blocked, ErrBudget, "budget web needs 2"},
		{apierrors.NewTooManyRequests("not looked at yet", 10), ErrBudget, "not looked at yet"},
		{apierrors.NewNotFound(pods, "w"), ErrGone, ""},
		{apierrors.NewConflict(pods, "w", errors.New("uid")), ErrAnother, ""},
		{apierrors.NewInternalError(errors.New("more than one PodDisruptionBudget")), ErrUnanswered, "more than one"},
	} {
		client := fake.NewClientset()
		client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			e := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
			if a.GetSubresource() != "eviction" || e.Name != "w" || *e.DeleteOptions.Preconditions.UID != "u" {
				t.Errorf("asked for %s of %+v", a.GetSubresource(), e)
			}
			return true, e, c.answer
		})
		err := New(kubefake.Generic(client), "locks").Evict(t.Context(), "w", "u")
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %v", c.answer, err, c.want)
		}
	}
}

func TestBudgetsOfTheNamespace(t *testing.T) {
	budget := func(name string, allows int32, labels map[string]string) *policyv1.PodDisruptionBudget {
		least := intstr.FromInt32(2)
		return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "locks"},
			Spec:   policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: labels}},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allows}}
	}
	client := fake.NewClientset(budget("web", 1, map[string]string{"app": "web"}), budget("db", 0, map[string]string{"app": "db"}))
	all, err := New(kubefake.Generic(client), "locks").Budgets(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "db" || all[1].Name != "web" || all[1].Allows != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if pod := (Pod{Labels: map[string]string{"app": "web", "more": "x"}}); all[0].Covers(pod) || !all[1].Covers(pod) {
		t.Errorf("%+v", all)
	}
}
