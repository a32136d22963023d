package kube

import (
	"errors"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/lockdrill/lockdrill/internal/kubefake"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// The summary is that of the last run: no word of an earlier one stays. What somebody else keeps under the name is left alone.
func TestSummary(t *testing.T) {
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "staging"}, Data: map[string]string{"a": "b"}}
	client := fake.NewClientset(theirs)
	c := New(kubefake.Generic(client), "staging")
	for _, data := range []map[string]string{{"verdict": "slo-failed", "only": "first"}, {"verdict": "pass"}} {
		testkit.Must(t, c.WriteSummary(t.Context(), "last", data))
		got, err := client.CoreV1().ConfigMaps("staging").Get(t.Context(), "last", metav1.GetOptions{})
		if err != nil || !maps.Equal(got.Data, data) {
			t.Errorf("%v, %v, want %v", got.Data, err, data)
		}
	}
	for _, refused := range []string{"once", "again"} { // beside the verdict, until the next one
		testkit.Must(t, c.MarkSummary(t.Context(), "last", map[string]string{"refused": refused}))
		got, err := client.CoreV1().ConfigMaps("staging").Get(t.Context(), "last", metav1.GetOptions{})
		if want := map[string]string{"verdict": "pass", "refused": refused}; err != nil || !maps.Equal(got.Data, want) {
			t.Errorf("%v, %v, want %v", got.Data, err, want)
		}
	}
	if err := c.MarkSummary(t.Context(), "new", map[string]string{"refused": "once"}); err != nil {
		t.Error(err)
	}
	if err := c.WriteSummary(t.Context(), "settings", map[string]string{"a": "c"}); !errors.Is(err, ErrForeign) {
		t.Errorf("%v, want %v", err, ErrForeign)
	}
	if got, err := client.CoreV1().ConfigMaps("staging").Get(t.Context(), "settings", metav1.GetOptions{}); err != nil || got.Data["a"] != "b" {
		t.Errorf("%v, %v", got.Data, err)
	}
}
