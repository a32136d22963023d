package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
)

// gateway is a Pushgateway that pods reach at this URL.
func (c *realCluster) gateway(t *testing.T) (g *gateway, url string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(c.ip, "0"))
	must(t, err)
	g = &gateway{}
	s := httptest.NewUnstartedServer(g)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return g, s.URL
}

// metricsArePushed: the exported NetworkPolicy is enforced. One that was exported without a Pushgateway keeps a Job's push from it, which changes
// no exit status; one with it lets the push through, and nothing else of the drill is in its way.
func (c *realCluster) metricsArePushed(t *testing.T) {
	c.enforcePolicies(t)
	yaml := fmt.Sprintf(e2eDrill, c.redis(t), c.redis(t), "apply", c.image, "  - {id: crash, at: 0s, kill: {holder_of: loop, phase: random, form: crash}}")
	h := c.host(t, "pushing", yaml)
	g, push := c.gateway(t)
	drill := func(release string) string {
		end := c.await(t, h.run(t, "--release", release, "--environment", "e2e", "--ephemeral", "--pushgateway", push))
		end.want(t, batchv1.JobComplete, "CompletionsReached", verdict.ExitPass)
		return end.pods[0].log
	}
	const failed = "lockdrill: --pushgateway: "
	h.network(t)
	if log := drill("kept-in"); !strings.Contains(log, failed) || len(g.groups) > 0 { // nobody pushes any more
		t.Errorf("a push that is not let out: %v", g.groups)
	}
	h.network(t, "--pushgateway", push)
	if log := drill("let-out"); strings.Contains(log, failed) {
		t.Error("a push that is let out fails")
	}
	g.wants(t, "lockdrill", h.name, verdict.ExitName(verdict.ExitPass))
}

// network applies the NetworkPolicy of the kustomize base until the test ends.
func (h *hostedDrill) network(t *testing.T, flags ...string) {
	t.Helper()
	base := filepath.Join(t.TempDir(), "base")
	got := tryIn(t, h.dir, append([]string{"export", "kustomize", "pods.yaml", "--schedule", "@daily", "--dir", base}, flags...)...)
	got.ends(t, verdict.ExitPass)
	must(t, applied(t.Context(), h.env, h.kube.Namespace, read(t, filepath.Join(base, "network.yaml"))))
	t.Cleanup(func() { // twice is once
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), podsWithin)
		defer cancel()
		if err := h.env.Client.NetworkingV1().NetworkPolicies(h.kube.Namespace).Delete(ctx, deploy.ObjectName(h.name), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}
