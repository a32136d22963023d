package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
)

// serverOutlivesPods: the exported server takes the run of an exported Job that keeps nothing itself. The Job and its pods are removed, and
// then the server's own pod: the run is still there.
func (c *realCluster) serverOutlivesPods(t *testing.T) {
	yaml := fmt.Sprintf(e2eDrill, c.redis(t), c.redis(t), "apply", c.image, "  - {id: crash, at: 0s, kill: {holder_of: loop, phase: random, form: crash}}")
	h := c.host(t, "brought", yaml)
	made := tryIn(t, h.dir, "serve", "token", "nightly", "read", "upload", "--tokens", "tokens")
	token := strings.TrimSpace(made.stdout)
	made.ends(t, verdict.ExitPass)
	for name, data := range map[string]map[string]string{
		deploy.DefaultServer: {"tokens": string(read(t, h.dir+"/tokens"))}, "uploads": {deploy.UploadTokenEnv: token},
	} {
		o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
		if _, err := c.env.Client.CoreV1().Secrets(c.kube.Namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.volume(t, deploy.DefaultServer, deploy.DefaultServer+"-runs", t.TempDir())
	h.apply(t, "server", "--image", c.image, "--namespace", c.kube.Namespace, "--storage", "2Gi")
	labels := map[string]string{deploy.NameLabel: deploy.DefaultServer}
	t.Cleanup(func() { c.remove(t, deploy.DefaultServer, labels) })
	first := net.JoinHostPort(c.address(t, c.ready(t, labels, 1)[0]), "8420") // no proxy for services here, so not by the Service's name

	job := decoded[batchv1.Job](t, h.apply(t, "job", "pods.yaml", "--release", "1", "--environment", "e2e", "--ephemeral", "--secret", "uploads",
		"--upload", "http://"+first)["Job"])
	end := c.await(t, job)
	end.want(t, batchv1.JobComplete, "CompletionsReached", verdict.ExitPass)
	for _, p := range end.pods {
		hides(t, "the log of "+p.name, p.log, []string{token})
	}
	c.forget(t, job)
	poll(t, "the end of the Job's pods", func(context.Context) bool { return len(podsOf(t, c.env, job)) == 0 })

	for _, when := range []string{"the pods are gone", "the server's pod is gone too"} {
		pod := c.ready(t, labels, 1)[0]
		runs := c.runsAt(t, net.JoinHostPort(c.address(t, pod), "8420"), token)
		if len(runs) != 1 || runs[0].Experiment != "brought" || runs[0].Verdict != "pass" || runs[0].Uploader != "nightly" {
			t.Errorf("%s: the server has %+v", when, runs)
		}
		must(t, c.kube.DeletePod(t.Context(), pod.Name, pod.UID, nil))
		poll(t, "the end of "+pod.Name, func(ctx context.Context) bool {
			o, err := c.env.Client.CoreV1().Pods(c.kube.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			return err != nil || string(o.UID) != pod.UID
		})
	}
}

// servedRun is what the test wants to know of a run that the server has.
type servedRun struct{ Experiment, Verdict, Uploader string }

// runsAt are the runs that a server has, once it lists any.
func (c *realCluster) runsAt(t *testing.T, addr, token string) []servedRun {
	t.Helper()
	var doc struct{ Runs []servedRun }
	poll(t, "a run at "+addr, func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/api/v1/runs", nil)
		must(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false // the pod has just begun
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&doc); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %v", response.StatusCode, err)
		}
		return len(doc.Runs) > 0
	})
	return doc.Runs
}
