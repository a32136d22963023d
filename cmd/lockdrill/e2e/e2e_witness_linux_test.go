package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// ownPython is the machine's Python itself, and the folder that it lives in.
func ownPython(t *testing.T) (path, prefix string) {
	t.Helper()
	path = witnesstest.Python(t)
	out, err := exec.Command(path, "-c", "import sys; print(sys.base_prefix)").Output()
	must(t, err)
	return path, strings.TrimSpace(string(out))
}

// withPython is a pod whose container has the machine's own Python, and the witness, mounted: no image has to be built with them.
func withPython(t *testing.T, args ...string) corev1.PodSpec {
	t.Helper()
	python, prefix := ownPython(t)
	spec := corev1.PodSpec{
		ShareProcessNamespace: new(true), // no signal from inside of a container reaches its process 1: let that be another
		Containers: []corev1.Container{{
			Image: kubetest.PodImage, ImagePullPolicy: corev1.PullNever, Command: []string{python}, Args: args,
			Env: []corev1.EnvVar{{Name: "PYTHONDONTWRITEBYTECODE", Value: "1"}},
		}},
	}
	dirs := []string{"/usr", "/lib", "/lib64", witnesstest.Folder()}
	if !strings.HasPrefix(prefix, "/usr") {
		dirs = append(dirs, prefix)
	}
	for i, dir := range dirs {
		name := fmt.Sprint("of-the-machine-", i)
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}})
		k := &spec.Containers[0]
		k.VolumeMounts = append(k.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: dir, ReadOnly: true})
	}
	return spec
}

// killsPython ends the witness from within its pod.
const killsPython = `import os; [os.kill(int(p), 9) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid() and b'scheduler' in open('/proc/' + p + '/cmdline', 'rb').read()]`

// witnessInContainers: the times that a drill of the witness in pods measures contain what really happened, by the node's kernel and the
// witness's own records.
func (c *realCluster) witnessInContainers(t *testing.T) {
	store := c.redis(t)
	python, _ := ownPython(t)
	t.Cleanup(func() {
		if t.Failed() {
			c.tellPods(t, witnessLabels)
		}
		c.remove(t, "witness", witnessLabels)
	})
	runWitness(t, c.env.Client, c.kube.Namespace, store, withPython(t))
	yaml := witnessYAML(t, "kills", c.kube.Namespace, store, `log: {pattern: 'lock acquired key=(?P<key>\S+) token=(?P<token>\S+)'}`,
		"environment: staging", "environment: e2e", `[kill, "-9", "1"]`, fmt.Sprintf("[%s, -c, %q]", python, killsPython))
	ends := c.witness(t)
	o := runDrill(t, yaml, nil, "--kubeconfig", c.env.Kubeconfig, "--environment", "e2e", "--confirm", "pods", "--seed", "1")
	t.Log(o.text)
	if o.code != verdict.ExitPass {
		keep(t, o.dir)
		t.Errorf("exit %d, verdict %q", o.code, o.j.Verdict)
	}
	c.takeoversAreTrue(t, o, store, ends())
}

// tellPods shows the ends of pods' logs, and what the cluster says of pods.
func (c *realCluster) tellPods(t *testing.T, labels map[string]string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), podsWithin)
	defer cancel()
	pods, err := c.kube.Pods(ctx, labels, "")
	t.Log(err)
	for _, p := range pods {
		text, err := c.kube.LastLines(ctx, p.Name, "", 20)
		t.Logf("%s: %+v %v\n%s", p.Name, p.Container, err, text)
	}
	events, err := c.env.Client.CoreV1().Events(c.kube.Namespace).List(ctx, metav1.ListOptions{})
	t.Log(err)
	for _, e := range events.Items {
		t.Log(e.InvolvedObject.Name, e.Reason, e.Message)
	}
}

// takeoversAreTrue holds each takeover against the witness's own records: from when the kernel saw its victim end to the first effect under
// that key that came then.
func (c *realCluster) takeoversAreTrue(t *testing.T, o drillOut, store string, ends map[string]time.Time) {
	t.Helper()
	h := historyIn(t, o.dir)
	lives := map[string]string{} // by incarnation
	for _, e := range h.Events {
		if e.Kind == history.ReplicaStart && e.Replica.Pod != nil {
			lives[e.Replica.Incarnation] = lifeOf(e.Replica.Pod.UID, e.Replica.Pod.Restarts)
		}
	}
	client := redis.NewClient(&redis.Options{Addr: store})
	defer client.Close()
	held := 0
	for _, x := range o.j.Takeovers {
		dead, seen := ends[lives[x.Victim]]
		if !seen || x.Hi == nil || x.Class != verdict.ClassCrash {
			continue
		}
		stream := map[string]string{"job": "cordum:jobs:log", "reconciler": "cordum:ticks:reconciler"}[x.Lock]
		records, err := client.XRange(t.Context(), stream, strconv.FormatInt(dead.UnixMilli(), 10), "+").Result()
		must(t, err)
		first := slices.IndexFunc(records, func(r redis.XMessage) bool { return r.Values["lock_key"] == x.Key })
		if first < 0 {
			t.Errorf("%s after %s: the witness has no record of key %s after its end", x.Fault, x.Victim, x.Key)
			continue
		}
		at, _, _ := strings.Cut(records[first].ID, "-")
		millis, err := strconv.ParseInt(at, 10, 64)
		must(t, err)
		truth := time.UnixMilli(millis).Sub(dead).Seconds()
		held++
		t.Logf("%s, key %s: takeover [%.3f, %.3f]s, in truth %.3fs", x.Fault, x.Key, x.Lo, *x.Hi, truth)
		if truth < x.Lo-slack.Seconds() || truth > *x.Hi+slack.Seconds() {
			t.Errorf("%s, key %s: the takeover of %.3fs is not within [%.3f, %.3f]s", x.Fault, x.Key, truth, x.Lo, *x.Hi)
		}
	}
	if held < 2 {
		t.Errorf("%d takeovers could be held against the witness's records, want those of both locks: %+v", held, o.j.Takeovers)
	}
}

// ruleset drops what goes to and comes from the addresses in cut, and what comes from those in held to any port but those in open, on the bridge
// that joins pods and node; open connections too.
const ruleset = `table bridge lockdrill {
	set cut { type ipv4_addr; }
	set held { type ipv4_addr; }
	set open { type inet_proto . inet_service; }
	chain through {
		type filter hook prerouting priority 0
		ip saddr @cut drop
		ip daddr @cut drop
		ip saddr @held meta l4proto . th dport != @open drop
	}
	chain from { type filter hook output priority 0; ip daddr @cut drop; }
}
`

// enforcePolicies is the network plugin that the node's bridge is not, until the test ends: pods that a NetworkPolicy isolates in both
// directions, and that no rule of it lets anything through to, are cut off. Of pods whose way out it limits to ports, one policy at a time, nothing
// goes to others; nobody connects to such pods, so nothing is an answer. It knows no other policies, and fails the test where one comes.
func (c *realCluster) enforcePolicies(t *testing.T) {
	t.Helper()
	nft := func(text string) {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("nft: %v: %s", err, out)
		}
	}
	nft(ruleset)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for before := ""; ; {
			if isolated, err := c.isolated(ctx); err == nil && isolated != before {
				nft("flush set bridge lockdrill cut\nflush set bridge lockdrill held\nflush set bridge lockdrill open\n" + isolated)
				before = isolated
			} else if err != nil && ctx.Err() == nil {
				t.Errorf("enforce policies: %v", err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		nft("delete table bridge lockdrill\n")
	})
}

// isolated are the commands that put the addresses of pods that policies isolate, and the ports that one leaves open, into the sets, in all
// namespaces.
func (c *realCluster) isolated(ctx context.Context) (commands string, err error) {
	policies, err := c.env.Client.NetworkingV1().NetworkPolicies("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, p := range policies.Items {
		set := "cut"
		switch {
		case slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}):
			set = "held"
			for _, rule := range p.Spec.Egress {
				if len(rule.To) > 0 || len(rule.Ports) == 0 {
					return "", fmt.Errorf("policy %s lets out to an address: nobody here knows how to enforce it", p.Name)
				}
				for _, port := range rule.Ports {
					commands += fmt.Sprintf("add element bridge lockdrill open { %s . %d }\n", strings.ToLower(string(*port.Protocol)), port.Port.IntVal)
				}
			}
		case len(p.Spec.Ingress) > 0 || len(p.Spec.Egress) > 0 || len(p.Spec.PolicyTypes) != 2:
			return "", fmt.Errorf("policy %s lets something through: nobody here knows how to enforce it", p.Name)
		}
		pods, err := c.env.Client.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&p.Spec.PodSelector)})
		if err != nil {
			return "", err
		}
		for _, pod := range pods.Items {
			if pod.Status.PodIP != "" {
				commands += "add element bridge lockdrill " + set + " { " + pod.Status.PodIP + " }\n"
			}
		}
	}
	return commands, nil
}
