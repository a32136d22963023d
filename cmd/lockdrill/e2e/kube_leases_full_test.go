//go:build full

package e2e

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// TestKubeLocksInLeases: lockdrill's own workers take their locks in a real API server, in a namespace that says that it may be drilled, by what the
// guards ask for and no more, and leave no object there. Anywhere else they take none.
func TestKubeLocksInLeases(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	e := kubetest.Start(t, kubetest.Options{NoNode: true, Audit: true})
	for _, name := range []string{"drills", "other"} {
		e.Namespace(name, map[string]string{kube.EnvironmentAnnotation: "staging"})
	}
	e.Namespace("silent", nil)
	file := read(t, "../../../experiments/testdata/lease.yaml")
	yaml := strings.Replace(string(file), "context: staging, ", "", 1)
	replicas := e.KubeconfigForElector("drills", "")
	kubeconfig := withReplicas(t, e.Kubeconfig, replicas)
	s := &site{Env: e, namespace: "drills", kubeconfig: e.KubeconfigForServiceAccount("drills", "leases")}
	before := s.objects(t)
	confirm := []string{"--confirm", "lease"}
	admin := append([]string{"--kubeconfig", kubeconfig}, confirm...)
	nobody := append([]string{"--kubeconfig", e.KubeconfigFor("nobody")}, confirm...)
	free := strings.Replace(yaml, "limits: {namespaces: [drills]}", "", 1)
	for _, c := range []struct {
		name, yaml, says string
		flags            []string
	}{
		{"without a word", yaml, "--confirm lease", admin[:2]},
		{"outside of the caps", yaml, "limits.namespaces", append(admin, "--namespace", "other")},
		{"in a namespace that does not say what it is", free, "silent does not say what it is", append(admin, "--namespace", "silent")},
		{"of another environment", strings.Replace(yaml, "environment: staging", "environment: production", 1), `"production"`, admin},
		{"by somebody who may not", yaml, `resources: ["leases"]`, nobody},
		{"with replicas in another cluster", strings.Replace(yaml, "staging-{replica}", "elsewhere", 1), "context elsewhere of replica r1 leads to another cluster", admin},
	} {
		if o := runDrill(t, c.yaml, nil, c.flags...); o.code != 13 || !strings.Contains(o.text, c.says) {
			t.Errorf("%s: exit %d, want 13 and %q\n%s", c.name, o.code, c.says, o.text)
		}
	}
	if o := runDrill(t, strings.Replace(yaml, "staging-{replica}", "nowhere", 1), nil, admin...); o.code != 2 || !strings.Contains(o.text, `there is no context "nowhere"`) {
		t.Errorf("replicas by a context that is not there: exit %d\n%s", o.code, o.text)
	}
	s.permit(t, "leases", yaml)
	from := auditedUntil(t, e)
	o := runDrill(t, yaml, nil, append([]string{"--kubeconfig", withReplicas(t, s.kubeconfig, replicas)}, confirm...)...)
	if o.code != 0 && o.code != 10 && o.code != 11 {
		t.Fatalf("exit %d\n%s", o.code, o.text)
	}
	usedAsPermitted(t, e, from, s.kubeconfig, "leases", "drills")
	// The first shot finds nobody where the other kill struck the leader; it is made again.
	for _, want := range []string{`locks in Kubernetes v`, `kill-leader#\d+  confirmed`, `gone#\d+ +confirmed`, `nothing left behind`} {
		if !regexp.MustCompile(want).MatchString(o.text) {
			t.Errorf("the run does not say %q:\n%s", want, o.text)
		}
	}
	for _, r := range o.j.Rows() {
		if r.Verdict == verdict.Fail && !strings.HasPrefix(r.Measure, "takeover") { // how fast the machine is decides that
			t.Errorf("%+v", r)
		}
	}
	if after := s.objects(t); strings.Join(before, " ") != strings.Join(after, " ") {
		t.Errorf("before: %q, afterwards: %q", before, after)
	}
	if t.Failed() {
		keep(t, o.dir)
		t.Log(o.text)
	}
}

// withReplicas is the kubeconfig of a runner with a context for each replica, who may do no more than take locks, and one of another
// cluster, in which there is nothing.
func withReplicas(t *testing.T, runner, replica string) string {
	all, err := clientcmd.LoadFromFile(runner)
	must(t, err)
	one, err := clientcmd.LoadFromFile(replica)
	must(t, err)
	as := one.Contexts[one.CurrentContext]
	all.AuthInfos["replicas"], all.Clusters["replicas"] = one.AuthInfos[as.AuthInfo], one.Clusters[as.Cluster]
	for _, name := range []string{"r1", "r2", "r3"} {
		all.Contexts["staging-"+name] = &api.Context{Cluster: "replicas", AuthInfo: "replicas"}
	}
	empty := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(empty.Close)
	all.Clusters["elsewhere"], all.Contexts["elsewhere"] = &api.Cluster{Server: empty.URL}, &api.Context{Cluster: "elsewhere"}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*all, file))
	return file
}

// permit gives an account of the namespace a Role with the rules that the guards of this experiment ask for: nothing prints one of a drill without
// pods.
func (s *site) permit(t *testing.T, account, experiment string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drill.yaml")
	write(t, path, []byte(experiment))
	e, err := experiments.Load(path)
	must(t, err)
	o := deploy.RoleOptions{Name: account, Namespace: s.namespace, ServiceAccount: account}
	rules := drill.Rules(e, "")
	for _, r := range rules {
		o.Rules = append(o.Rules, deploy.Rule(r))
	}
	docs, err := deploy.Role(o)
	must(t, err)
	s.applyAll(t, string(deploy.Join(docs)))
	awaitRules(t, s.cluster(t), rules)
}
