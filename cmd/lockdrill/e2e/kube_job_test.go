package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// end is how a pod of a Job ended, as a kubelet would say it.
type end struct {
	exit    int32
	evicted bool // by the cluster, which told it to end
}

// The real job controller makes of the exit statuses what docs/kubernetes.md says: an answer ends the Job, whatever happened to the pod;
// only a drill that the cluster broke off, and that cleaned up, is drilled again.
func TestKubeJobEndsAsLockdrillDoes(t *testing.T) {
	env, dir := kubetest.Start(t, kubetest.Options{Controllers: true, NoNode: true}), podDir(t)
	env.Namespace("staging", nil)
	env.KubeconfigForServiceAccount("staging", deploy.RunnerName("game-day"))
	for name, c := range map[string]struct {
		pods []end // one after the other
		want batchv1.JobConditionType
		why  string
	}{
		"passed":         {[]end{{exit: verdict.ExitPass}}, batchv1.JobComplete, "CompletionsReached"},
		"failed":         {[]end{{exit: verdict.ExitSLOFailed}}, batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy},
		"aborted":        {[]end{{exit: verdict.ExitAborted}}, batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy},
		"killed":         {[]end{{exit: 137}}, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded},
		"evicted":        {[]end{{verdict.ExitAborted, true}, {exit: verdict.ExitPass}}, batchv1.JobComplete, "CompletionsReached"},
		"evicted-dirty":  {[]end{{verdict.ExitDirty, true}}, batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy},
		"evicted-answer": {[]end{{verdict.ExitSLOFailed, true}}, batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, _, err := scheme.Codecs.UniversalDeserializer().Decode(exported(t, dir, "job", "drill.yaml", "--ephemeral", "--release", name)["Job"], nil, nil)
			must(t, err)
			job, err := env.Client.BatchV1().Jobs("staging").Create(t.Context(), o.(*batchv1.Job), metav1.CreateOptions{})
			must(t, err)
			var seen []string
			for _, e := range c.pods {
				seen = append(seen, endNextPod(t, env, job, e, seen))
			}
			got, last := jobEnd(t, env, job)
			if got.Type != c.want || got.Reason != c.why {
				t.Errorf("%s: %s, want %s: %s", got.Type, got.Reason, c.want, c.why)
			}
			if pods := podsOf(t, env, job); last.Failed+last.Succeeded > int32(len(c.pods)) || len(pods) != len(c.pods) {
				t.Errorf("%d pods were made, want %d", len(pods), len(c.pods))
			}
		})
	}
}

// jobWithin bounds each wait for the controllers, and for a drill.
const jobWithin = 2 * time.Minute

// poll asks until it is told to stop.
func poll(t *testing.T, what string, done func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), jobWithin)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, jobWithin)
		}
	}
}

func podsOf(t *testing.T, env *kubetest.Env, job *batchv1.Job) []corev1.Pod {
	t.Helper()
	list, err := env.Client.CoreV1().Pods(job.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job.Name})
	must(t, err)
	return list.Items
}

// endNextPod waits for a pod of the Job that is not among seen, ends it, and returns its name.
func endNextPod(t *testing.T, env *kubetest.Env, job *batchv1.Job, e end, seen []string) string {
	t.Helper()
	var pod *corev1.Pod
	poll(t, "a pod of "+job.Name, func(context.Context) bool {
		for _, p := range podsOf(t, env, job) {
			if !slices.Contains(seen, p.Name) {
				pod = &p
			}
		}
		return pod != nil
	})
	phase := corev1.PodFailed
	if e.exit == 0 {
		phase = corev1.PodSucceeded
	}
	poll(t, "the end of "+pod.Name, func(ctx context.Context) bool {
		p, err := env.Client.CoreV1().Pods("staging").Get(ctx, pod.Name, metav1.GetOptions{})
		must(t, err)
		p.Status.Phase = phase
		if e.evicted {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: e.exit, FinishedAt: metav1.Now()},
		}}}
		_, err = env.Client.CoreV1().Pods("staging").UpdateStatus(ctx, p, metav1.UpdateOptions{})
		if err != nil && !strings.Contains(err.Error(), "the object has been modified") { // by the scheduler, which says that there is no node
			t.Fatal(err)
		}
		return err == nil
	})
	return pod.Name
}

// jobEnd is the condition that ends the Job.
func jobEnd(t *testing.T, env *kubetest.Env, job *batchv1.Job) (end batchv1.JobCondition, status batchv1.JobStatus) {
	t.Helper()
	poll(t, "the end of "+job.Name, func(ctx context.Context) bool {
		o, err := env.Client.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		must(t, err)
		for _, c := range o.Status.Conditions {
			if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
				end, status = c, o.Status
				return true
			}
		}
		return false
	})
	return end, status
}
