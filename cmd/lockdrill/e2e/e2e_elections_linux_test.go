package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// leadersAreCutOff: policies are enforced, and the pods that lead two elections of client-go are cut off for longer than a lease, by the
// shipped Roles and no more. They live on. When each stops to lead, and when the next one begins, the electors say themselves. One election
// is in a further namespace of the drill, and its electors release.
func (c *realCluster) leadersAreCutOff(t *testing.T) {
	c.enforcePolicies(t)
	first, second := c.electionsIn(t, "first"), c.electionsIn(t, "second")
	keeps, releases := first.elections(t), second.elections(t, corev1.EnvVar{Name: "RELEASE", Value: "1"})
	yaml := besideDrill(t, "first", "second")
	for _, lock := range []string{"other", "leader"} {
		yaml = edit(t, yaml, "kill: {holder_of: "+lock+", form: force_delete}", "for: 12s, network_policy: {holder_of: "+lock+"}")
	}
	first.shippedRole(t, yaml)
	o := first.drill(t, yaml, verdict.ExitPass)
	t.Log(o.text)
	first.roleFits(t, "second")
	first.nothingIsCut(t)
	second.nothingIsCut(t)
	h := struckInEach(t, o, "second")
	keeps.agree(t, first, o, electedLease)
	releases.agree(t, first, o, "second/"+electedLease)
	c.stopped(t, tellBeliefs(t, "keeps its lease", string(keeps)+beliefs, h, o, "leader"), renewDeadline+retryPeriod)
	c.stopped(t, tellBeliefs(t, "releases", string(releases)+beliefs, h, o, "other"), 2*renewDeadline+retryPeriod)
}

// stopped: an old leader counts from its last renewal, which was up to a retry period before it was cut off. What releases tries that for
// as long again, and stops to lead after that.
func (c *realCluster) stopped(t *testing.T, after []float64, by time.Duration) {
	t.Helper()
	for _, s := range after {
		if s < (by-2*retryPeriod).Seconds() || s > (by+leaseDuration).Seconds() { // later than it should: a machine that is busy
			t.Errorf("an old leader stopped %.1f s after it was cut off, want about %s", s, by)
		}
	}
	if len(after) != 1 {
		t.Errorf("%d old leaders were cut off", len(after))
	}
}

// electionsIn is a namespace for electors in real pods, which keep their diary in a folder of the node.
func (c *realCluster) electionsIn(t *testing.T, namespace string) *site {
	t.Helper()
	c.env.Namespace(namespace, map[string]string{kube.EnvironmentAnnotation: "staging"})
	in := *c
	var err error
	if in.kube, err = kube.Open(kube.Options{Kubeconfig: c.env.Kubeconfig, Namespace: namespace}); err != nil {
		t.Fatal(err)
	}
	s := &site{Env: c.env, namespace: namespace, kubeconfig: c.env.Kubeconfig}
	s.KubeconfigForElector(s.namespace, "")
	labels := map[string]string{"app": "web"}
	s.onNode = func(spec *corev1.PodSpec) {
		t.Cleanup(func() {
			if t.Failed() {
				in.tellPods(t, labels)
			}
			in.remove(t, "web", labels)
		})
		k := &spec.Containers[0]
		k.Image, k.ImagePullPolicy = c.elector, corev1.PullNever
		spec.ServiceAccountName, spec.TerminationGracePeriodSeconds = "elector", new(int64(1))
		for _, e := range k.Env {
			if e.Name != "DIARY" {
				continue
			}
			dir := filepath.Dir(e.Value)
			if err := os.Chmod(dir, 0o777); err != nil { // the image's user is nobody
				t.Fatal(err)
			}
			k.VolumeMounts = []corev1.VolumeMount{{Name: "diary", MountPath: dir}}
			spec.Volumes = []corev1.Volume{{Name: "diary", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
		}
	}
	return s
}
