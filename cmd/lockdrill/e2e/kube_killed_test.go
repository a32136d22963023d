package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// killedRunner: whoever undoes what a killed runner has in a cluster removes exactly that.
func killedRunner(t *testing.T, s *site) {
	bystander := s.bystander(t)
	for kind, left := range map[string][]string{"pods": nil, "kill": {"deployment lockdrill-", "serviceaccount lockdrill-", "pod lockdrill-", "lease lockdrill-run"}} {
		s.killed(t, s.yaml(), kind, "intent", func() { s.has(t, left...) }, func() { s.clean(t, bystander...) })
	}
}

// killed kills the runner of a drill twice, at a state of a kind of record. What is left is undone once by recover, once by its watchdog.
func (s *site) killed(t *testing.T, yaml, kind, state string, left, undone func()) {
	t.Helper()
	for _, by := range []string{"recover", "watchdog"} {
		dir, was := killAt(t, killable{yaml: yaml, args: s.flags()}, kind, state, by == "recover")
		t.Logf("%s: killed at %q", by, was)
		if by == "recover" {
			left()
			recoverAfter(t, dir)
		}
		nothingIsLeft(t, dir)
		undone()
	}
}

// has checks what a killed run has left: otherwise nothing is shown by its removal.
func (s *site) has(t *testing.T, want ...string) {
	t.Helper()
	all := strings.Join(s.objects(t), "\n")
	says(t, all, want...)
}

// killedApplying: the runner is killed between two of the objects that it makes.
func killedApplying(t *testing.T, s *site) {
	bystander := s.bystander(t)
	held := s.holdUp(t, "deployments")
	dir := killWhen(t, killable{yaml: s.yaml(), args: s.flags()}, true, func(_ string, said fmt.Stringer) {
		select {
		case <-held:
		case <-time.After(time.Minute):
			t.Fatalf("it never made its Deployment:\n%s", said)
		}
	})
	s.has(t, "serviceaccount lockdrill-", "lease lockdrill-run")
	if all := strings.Join(s.objects(t), "\n"); strings.Contains(all, "deployment lockdrill-") {
		t.Fatalf("it was killed too late:\n%s", all)
	}
	recoverAfter(t, dir)
	nothingIsLeft(t, dir)
	s.clean(t, bystander...)
}

// holdUp leads drills of this site by a way to the API server on which objects of a kind are never applied. held tells of the first.
func (s *site) holdUp(t *testing.T, kind string) (held <-chan struct{}) {
	t.Helper()
	transport, err := rest.TransportFor(s.Config)
	must(t, err)
	to, err := url.Parse(s.Config.Host)
	must(t, err)
	onward := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Del("Authorization") // that of the transport counts
	}}
	seen := make(chan struct{}, 1)
	way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/"+kind+"/") {
			onward.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // a server knows of the caller's end only when all is read
		select {
		case seen <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	t.Cleanup(way.Close)
	dir := t.TempDir()
	testkit.Kubeconfig(t, dir, way.URL)
	s.kubeconfig = filepath.Join(dir, "kubeconfig")
	return seen
}

// noRoom: a namespace that takes no pods. The run ends without an answer, says why, and leaves nothing.
func noRoom(t *testing.T, s *site) {
	quotas, no := s.Client.CoreV1().ResourceQuotas(s.namespace), corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	q, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: no}}, metav1.CreateOptions{})
	must(t, err)
	q.Status = corev1.ResourceQuotaStatus{Hard: no, Used: no} // as its controller does, which is not here
	if _, err := quotas.UpdateStatus(t.Context(), q, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the quota is in force", func() bool {
		return strings.Contains(fmt.Sprint(admitPod(t, s.Env, s.namespace, corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})), "exceeded quota")
	})
	o := s.drill(t, edit(t, s.yaml(), "for: 6s, timeout: 60s", "for: 500ms, timeout: 4s"), verdict.ExitInconclusive)
	says(t, o.text, "does not make its 3 pods", "FailedCreate", "exceeded quota: none")
	s.clean(t)
}
