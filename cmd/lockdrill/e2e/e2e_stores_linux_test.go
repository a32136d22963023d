package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// guardedStore is a Redis that pods reach by TLS, with a password, and where a user is named, by that name alone.
type guardedStore struct {
	addr, plain        string // for pods, by TLS; of loopback, without
	ca, user, password string
}

func (c *realCluster) guarded(t *testing.T, user string) *guardedStore {
	t.Helper()
	// Without compression DUMP shows what is kept.
	addr, ca, plain := redistest.StartTLS(t, "--bind", "127.0.0.1", c.ip, "--protected-mode", "no", "--rdbcompression", "no")
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	s := &guardedStore{addr: net.JoinHostPort(c.ip, port), plain: plain, ca: ca, user: user, password: "swordfish-" + port}
	client := redis.NewClient(&redis.Options{Addr: plain})
	defer client.Close()
	set := []any{"CONFIG", "SET", "requirepass", s.password}
	if user != "" {
		set = []any{"ACL", "SETUSER", user, "on", ">" + s.password, "~*", "&*", "+@all"}
	}
	if err = client.Do(t.Context(), set...).Err(); err == nil && user != "" {
		by := redis.NewClient(s.options())
		defer by.Close()
		err = by.Do(t.Context(), "ACL", "SETUSER", "default", "off").Err()
	}
	must(t, err)
	return s
}

func (s *guardedStore) options() *redis.Options {
	return &redis.Options{Addr: s.plain, Username: s.user, Password: s.password}
}

// hides: nothing that the store keeps has a secret in it.
func (s *guardedStore) hides(t *testing.T, secrets []string) {
	t.Helper()
	client := redis.NewClient(s.options())
	defer client.Close()
	n := 0
	keys := client.Scan(t.Context(), 0, "*", 0).Iterator()
	for ; keys.Next(t.Context()); n++ {
		kept, err := client.Dump(t.Context(), keys.Val()).Result()
		if err != nil && err != redis.Nil { // it may have been over
			t.Error(err)
		}
		hides(t, keys.Val()+" at "+s.addr, kept, secrets)
	}
	if n == 0 || keys.Err() != nil {
		t.Errorf("%d keys were looked at, %v", n, keys.Err())
	}
}

// hides: no text has a secret in it.
func hides(t *testing.T, what, text string, secrets []string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("%s tells the password %s", what, s)
		}
	}
}

// hides: of all objects that the namespace has only a Secret tells one.
func (c *realCluster) hides(t *testing.T, when string, secrets []string) {
	t.Helper()
	for _, kind := range []string{"/api/v1/%s/pods", "/api/v1/%s/configmaps", "/api/v1/%s/serviceaccounts", "/api/v1/%s/events", "/apis/apps/v1/%s/deployments",
		"/apis/apps/v1/%s/replicasets", "/apis/batch/v1/%s/jobs", "/apis/coordination.k8s.io/v1/%s/leases"} {
		path := fmt.Sprintf(kind, "namespaces/"+c.kube.Namespace)
		data, err := c.env.Client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if err != nil {
			t.Error(err)
		}
		hides(t, path+" "+when, string(data), secrets)
	}
}

// secretIsMissing: workers whose Secret is not there never start. The run ends without an answer, and says why.
func (c *realCluster) secretIsMissing(t *testing.T) {
	locks, ledger := c.guarded(t, ""), c.redis(t)
	yaml := edit(t, fmt.Sprintf(e2eDrill, locks.addr, ledger, "apply", c.image, "  - {id: crash, at: 0s, kill: {holder_of: loop, form: crash}}"),
		`"redis://`+locks.addr+`"`, `"rediss://`+locks.addr+`", password_env: REDIS_PASSWORD, ca: `+locks.ca,
		"pods: apply,", "pods: apply, secret: nowhere,", "timeout: 60s", "timeout: 4s")
	t.Setenv("REDIS_PASSWORD", locks.password)
	o := runDrill(t, yaml, nil, "--kubeconfig", c.env.Kubeconfig, "--environment", "e2e", "--confirm", "pods")
	if o.code != verdict.ExitInconclusive || !strings.Contains(o.text, ` waits: worker: CreateContainerConfigError (secret "nowhere" not found)`) {
		t.Errorf("status %d\n%s", o.code, o.text)
	}
}

// killedRunnerIsRecovered: the runner is killed with -9, and with it all that its container has. What it made in the cluster and at the
// stores stays until the next Job of the claim undoes it by the journal there, in its init container, and then drills. `export job --recover`
// finds nothing left to do.
func (c *realCluster) killedRunnerIsRecovered(t *testing.T) {
	locks, ledger := c.redis(t), c.redis(t)
	yaml := fmt.Sprintf(e2eDrill, locks, ledger, "apply", c.image, "  - {id: crash, at: 30s, kill: {holder_of: loop, phase: random, form: crash}}")
	h := c.host(t, "killed", yaml)
	job := h.run(t, "--release", "killed", "--environment", "e2e")
	c.ready(t, deploy.AppliedLabels(), 3)
	pid, err := pidOf(c.ready(t, jobLabels(job), 1)[0])
	must(t, err)
	must(t, unix.Kill(pid, unix.SIGKILL))
	c.await(t, job).want(t, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, 137)
	if keys, objects := keysAt(t, &redis.Options{Addr: locks}), c.ofRuns(t); len(keys) == 0 || len(objects) == 0 {
		t.Errorf("a runner that was killed left keys %q and objects %q: this test must show that recover removes both", keys, objects)
	}
	c.await(t, h.run(t, "--release", "next", "--environment", "e2e")).want(t, batchv1.JobComplete, batchv1.JobReasonCompletionsReached, verdict.ExitPass)
	end := c.await(t, h.run(t, "--recover"))
	if end.condition.Type != batchv1.JobComplete {
		t.Errorf("recover: %s: %s, %d", end.condition.Type, end.condition.Reason, end.codes())
	}
	for _, addr := range []string{locks, ledger} {
		if left := keysAt(t, &redis.Options{Addr: addr}); len(left) > 0 {
			t.Errorf("keys are left at %s: %s", addr, left)
		}
	}
	if left := c.ofRuns(t); len(left) > 0 {
		t.Errorf("recover has left %q", left)
	}
}

// ofRuns are the objects that runs have made in the namespace.
func (c *realCluster) ofRuns(t *testing.T) (names []string) {
	t.Helper()
	for _, kind := range []string{"/api/v1/namespaces/%s/pods", "/api/v1/namespaces/%s/configmaps", "/api/v1/namespaces/%s/serviceaccounts", "/apis/apps/v1/namespaces/%s/deployments"} {
		data, err := c.env.Client.Discovery().RESTClient().Get().AbsPath(fmt.Sprintf(kind, c.kube.Namespace)).Param("labelSelector", deploy.RunLabel).DoRaw(t.Context())
		var list metav1.PartialObjectMetadataList
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		must(t, err)
		for _, o := range list.Items {
			names = append(names, o.Name)
		}
	}
	return names
}

// toxiproxyInAPod: the exported Toxiproxy, by the name of its headless Service, between workers and locks; a Job drives its API.
func (c *realCluster) toxiproxyInAPod(t *testing.T) {
	locks, ledger := c.redis(t), c.redis(t)
	yaml := fmt.Sprintf(e2eDrill, locks, ledger, "apply", c.image, `  - {id: slow, at: 0s, for: 2s, latency: {add: 50ms}}
  - {id: cut, at: 4s, for: 4s, black_hole: {holder_of: loop}}`)
	yaml = edit(t, yaml, "  - {lock: loop, takeover: {max: 10s}}\n", "", // nobody dies
		"kubernetes:", `proxy: {mode: external, url: "http://lockdrill-toxiproxy.drills:8474"}`+"\nkubernetes:")
	h := c.host(t, "toxic", yaml)
	h.apply(t, "toxiproxy", "--image", c.toxiproxy, "--namespace", c.kube.Namespace)
	labels := map[string]string{deploy.NameLabel: "toxiproxy"}
	t.Cleanup(func() { c.remove(t, deploy.DefaultToxiproxy, labels) })
	c.ready(t, labels, 1)
	job := h.run(t, "--release", "1", "--environment", "e2e", "--ephemeral")
	c.await(t, job).want(t, batchv1.JobComplete, "CompletionsReached", verdict.ExitPass)
}
