package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// podDrillYAML is the experiment of the manifests' golden files.
func podDrillYAML(t *testing.T) string {
	t.Helper()
	return string(read(t, "../../deploy/testdata/game-day.yaml"))
}

// podDir holds the experiment as drill.yaml.
func podDir(t *testing.T) string {
	t.Helper()
	dir := folder(t, "drill.yaml", podDrillYAML(t))
	return dir
}

// exported runs export and gives the documents by their kinds.
func exported(t *testing.T, dir string, args ...string) map[string][]byte {
	t.Helper()
	got := tryIn(t, dir, append([]string{"export"}, args...)...)
	got.ends(t, verdict.ExitPass)
	docs := map[string][]byte{}
	for _, doc := range bytes.Split([]byte(got.stdout), []byte("\n---\n")) {
		_, kind, err := scheme.Codecs.UniversalDeserializer().Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		docs[kind.Kind] = doc
	}
	return docs
}

// decoded is an object of a document.
func decoded[T any](t *testing.T, doc []byte) *T {
	t.Helper()
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(doc, nil, nil)
	must(t, err)
	return any(o).(*T)
}

func kindsOf(docs map[string][]byte) []string {
	var kinds []string
	for k := range docs {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

func TestExportManifests(t *testing.T) {
	t.Parallel()
	dir := podDir(t)
	for args, want := range map[string]string{
		"deployment drill.yaml":                          "ConfigMap Deployment ServiceAccount",
		"rbac drill.yaml":                                "Role RoleBinding ServiceAccount",
		"rbac drill.yaml --service-account drills":       "Role RoleBinding",
		"job drill.yaml --release v1":                    "ConfigMap Job PersistentVolumeClaim",
		"job drill.yaml --ephemeral":                     "ConfigMap Job",
		"cronjob drill.yaml --schedule @daily":           "ConfigMap CronJob PersistentVolumeClaim",
		"cronjob drill.yaml --schedule @daily --claim c": "ConfigMap CronJob",
		"toxiproxy --image registry.example/toxiproxy":   "Deployment Service",
		"server --image l -n staging":                    "Deployment NetworkPolicy PersistentVolumeClaim Service ServiceAccount",
		"server --image l -n staging --claim c":          "Deployment NetworkPolicy Service ServiceAccount",
	} {
		docs := exported(t, dir, strings.Fields(args)...)
		if got := strings.Join(kindsOf(docs), " "); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
		for kind, doc := range docs {
			if !bytes.Contains(doc, []byte("  namespace: staging\n")) && !strings.HasPrefix(args, "toxiproxy") {
				t.Errorf("%s: the %s is in no namespace", args, kind)
			}
		}
	}
}

// The exported experiment is one that can be run as it is: resolved, with the flags of the export, and the files that it names. Whoever the
// run asks from its pod, it asks as the file says: with what the Secret holds, and by the authority that came along.
func TestExportedExperimentStandsAlone(t *testing.T) {
	t.Parallel()
	dir := podDir(t)
	text := edit(t, podDrillYAML(t), `ledger: {url: "redis://ledger.staging.svc:6380"}`, `ledger: {url: "rediss://ledger.staging.svc:6380", ca: certs/ledger.pem}`,
		"namespace: staging, ", "context: mine, namespace: staging, ") + `probes:
  metrics: [{name: m, scrape: "https://m.staging/metrics", series: m_total, bearer_env: METRICS_TOKEN, ca: certs/a.pem}]
  promql: [{name: q, url: "https://prometheus:9090", query: q_total, username_env: PROM_USER, password_env: PROM_PASSWORD, ca: certs/b.pem}]
  alerts: {url: "http://prometheus:9090", headers_env: {X-Scope-OrgID: ALERTS_TENANT}}
blocked_by: [{promql: {url: "https://other:9090", query: up, bearer_env: BLOCKS_TOKEN, ca: certs/b.pem}}]
`
	write(t, filepath.Join(dir, "drill.yaml"), []byte(text))
	must(t, os.Mkdir(filepath.Join(dir, "certs"), 0o700))
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("hunter2")})
	certificates := map[string]string{}
	for _, name := range []string{"ledger", "a", "b"} {
		certificate := read(t, redistest.Authority(t))
		certificates[name] = strings.TrimSpace(string(certificate))
		write(t, filepath.Join(dir, "certs", name+".pem"), slices.Concat([]byte("our authority, hunter2\n"), key, certificate))
	}
	other := t.TempDir() // the files are found beside the experiment, wherever export is called
	docs := exported(t, other, "job", filepath.Join(dir, "drill.yaml"), "-n", "pre", "--image", "registry.example/l:2", "--secret", "stores")
	var names []string
	for _, v := range decoded[batchv1.Job](t, docs["Job"]).Spec.Template.Spec.Containers[0].Env {
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil && v.ValueFrom.SecretKeyRef.Key == v.Name {
			names = append(names, v.Name)
		}
	}
	if want := []string{"ALERTS_TENANT", "BLOCKS_TOKEN", "METRICS_TOKEN", "PROM_PASSWORD", "PROM_USER", "REDIS_PASSWORD"}; !slices.Equal(names, want) {
		t.Errorf("variables %q, want %q", names, want)
	}
	data := decoded[corev1.ConfigMap](t, docs["ConfigMap"]).Data
	write(t, filepath.Join(other, "experiment.yaml"), []byte(data["experiment.yaml"]))
	e, _, err := loadExperiment(filepath.Join(other, "experiment.yaml"))
	must(t, err)
	if e.Kubernetes.Namespace != "pre" || e.Kubernetes.Image != "registry.example/l:2" || e.Kubernetes.Secret != "stores" || e.Kubernetes.Context != "" || e.Ledger.CA != deploy.FilesDir+"/ledger-ca.pem" {
		t.Errorf("%+v, %q", e.Kubernetes, e.Ledger.CA)
	}
	for at, of := range map[string]string{e.Ledger.CA: "ledger", e.Probes.Metrics[0].CA: "a", e.Probes.PromQL[0].CA: "b", e.BlockedBy[0].PromQL.CA: "b"} {
		if name, ok := strings.CutPrefix(at, deploy.FilesDir+"/"); !ok || strings.TrimSpace(data[name]) != certificates[of] {
			t.Errorf("%s: %q, want the certificate %s alone", at, data[name], of)
		}
	}
	if bytes.Contains(docs["ConfigMap"], []byte(dir)) {
		t.Errorf("a folder of this machine in\n%s", docs["ConfigMap"])
	}
	workers := exported(t, dir, "deployment", "drill.yaml") // they ask nobody but the stores
	if !bytes.Contains(workers["Deployment"], []byte("REDIS_PASSWORD")) || bytes.Contains(workers["Deployment"], []byte("_TOKEN")) {
		t.Errorf("%s", workers["Deployment"])
	}
}

// Somebody's own pods: the runner's image is not theirs, and what is exported can be read again.
func TestExportForObservedPods(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	docs := exported(t, dir, "job", "kubernetes-leader-election", "--image", "registry.example/lockdrill:1.0.0")
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(docs["Job"], nil, nil)
	if err != nil || o.(*batchv1.Job).Spec.Template.Spec.Containers[0].Image != "registry.example/lockdrill:1.0.0" {
		t.Errorf("%v\n%s", err, docs["Job"])
	}
	role := exported(t, dir, "rbac", "kubernetes-leader-election")["Role"]
	if bytes.Contains(role, []byte("deployments")) || !bytes.Contains(role, []byte("resourceNames: [my-controller]")) {
		t.Errorf("%s", role)
	}
	got := tryIn(t, dir, "export", "deployment", "kubernetes-leader-election")
	got.ends(t, verdict.ExitUsage, "no workers to deploy")
}

// The metrics of a run in a cluster go where the flags say, the run itself to a server, and its NetworkPolicy lets them. What is exported is
// what the commands take: the server's arguments, the Job's, and the way from one to the other.
func TestExportedRunsAreBroughtOut(t *testing.T) {
	t.Parallel()
	dir := podDir(t)
	docs := exported(t, dir, "server", "--image", "registry.example/lockdrill:1", "--namespace", "staging")
	pod := templateOf(t, docs["Deployment"]).Spec
	serve := newServeCmd(streams{})
	if args := pod.Containers[0].Args; args[0] != serve.Name() || serve.ParseFlags(args[1:]) != nil || len(serve.Flags().Args()) > 0 {
		t.Errorf("%q", args)
	}
	if mode := *pod.Volumes[0].Secret.DefaultMode; mode&0o027 != 0 || *pod.SecurityContext.FSGroup != *pod.SecurityContext.RunAsGroup {
		t.Errorf("tokens have mode %o, which the server refuses or cannot read", mode)
	}
	service := decoded[corev1.Service](t, docs["Service"])
	url := fmt.Sprintf("http://%s.%s:%d", service.Name, service.Namespace, service.Spec.Ports[0].Port)
	ways := []string{"--upload", url, "--pushgateway", "http://push.monitoring:9091", "--metrics-file", "drills.prom"}
	for kind, arg := range map[string]string{"Job": "job drill.yaml", "CronJob": "cronjob drill.yaml --schedule @daily"} {
		args := templateOf(t, exported(t, dir, append(strings.Fields(arg), ways...)...)[kind]).Spec.Containers[0].Args
		run := newRunCmd(streams{Out: &sink{}})
		if err := run.ParseFlags(args[1:]); err != nil {
			t.Fatalf("%s: %q: %v", kind, args, err)
		}
		for i := 0; i < len(ways); i += 2 {
			if got := run.Flags().Lookup(strings.TrimPrefix(ways[i], "--")).Value.String(); got != ways[i+1] {
				t.Errorf("%s: %s is %q, want %q", kind, ways[i], got, ways[i+1])
			}
		}
	}
	got := tryIn(t, dir, append([]string{"export", "kustomize", "drill.yaml", "--schedule", "@daily", "--dir", "base"}, ways...)...)
	if text := string(read(t, filepath.Join(dir, "base", "network.yaml"))); got.code != verdict.ExitPass || !strings.Contains(text, "port: 9091") || !strings.Contains(text, "port: 8420") {
		t.Errorf("%+v\n%s", got, text)
	}
	for _, bad := range []string{"http://me:secret@push:9091", "push:9091", "nowhere"} {
		if got := tryIn(t, dir, "export", "job", "drill.yaml", "--pushgateway", bad); got.code != verdict.ExitUsage || strings.Contains(got.stderr, "secret") {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}
