package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// exportDir holds the files that the examples of the documents name.
func exportDir(t *testing.T) string {
	t.Helper()
	dir := folder(t, "drill.yaml", goodDrill)
	_, rest, ok := strings.Cut(string(read(t, "../../docs/alerts.md")), "```yaml ignore\n")
	if !ok {
		t.Fatal("docs/alerts.md has no mapping between ```yaml ignore and ```")
	}
	mapping, _, _ := strings.Cut(rest, "```")
	write(t, filepath.Join(dir, "mapping.yaml"), []byte(mapping))
	write(t, filepath.Join(dir, "game-day.yaml"), []byte(edit(t, podDrillYAML(t), "pods: apply", "pods: use")))
	return dir
}

// Each example prints a document on stdout and nothing else there.
func TestExportExamples(t *testing.T) {
	t.Parallel()
	dir := exportDir(t)
	examples := 0
	for _, page := range []string{"../../docs/alerts.md", "../../docs/gating.md", "../../docs/kubernetes.md"} {
		_, rest, _ := strings.Cut(string(read(t, page)), "<!-- examples:export -->\n```\n")
		block, _, ok := strings.Cut(rest, "```\n<!-- /examples -->")
		if !ok {
			t.Fatalf("%s has no examples", page)
		}
		for line := range strings.Lines(block) {
			command, _, _ := strings.Cut(line, "#")
			var args []string
			for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(command, -1) {
				args = append(args, strings.Trim(word, `"`))
			}
			got := tryIn(t, dir, args[1:]...)
			if got.code != verdict.ExitPass || !strings.HasSuffix(got.stdout, "\n") || len(got.stdout) < 200 {
				t.Errorf("%s: %+v", command, got)
			}
			for said := range strings.Lines(got.stderr) {
				if !strings.Contains(said, " is left out: the mapping has no ") {
					t.Errorf("%s: stderr %q", command, said)
				}
			}
			examples++
		}
	}
	write(t, filepath.Join(dir, "external.yaml"), []byte(theirDrill(t)))
	tryIn(t, dir, "export", "ci", "gitlab", "external.yaml").ends(t, verdict.ExitPass, "--confirm ") // which each run of it needs
	if examples < 10 {
		t.Errorf("only %d examples", examples)
	}
}

const kustomizeFolder = "../../deploy/kustomize"

// The shipped base is what export makes of the experiment beside it, byte for byte. To renew it, empty deploy/kustomize/base and run the
// command in the experiment's first line.
func TestKustomizeBaseIsExported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "experiment.yaml"), read(t, filepath.Join(kustomizeFolder, "experiment.yaml")))
	got := tryIn(t, dir, "export", "kustomize", "experiment.yaml", "--schedule", "0 3 * * 1-5", "--dir", "base")
	got.ends(t, verdict.ExitPass)
	made, shipped := filesOf(t, filepath.Join(dir, "base")), filesOf(t, filepath.Join(kustomizeFolder, "base"))
	if !slices.Equal(made, shipped) {
		t.Errorf("export makes %q, and shipped are %q", made, shipped)
	}
	for _, name := range made {
		if want := read(t, filepath.Join(dir, "base", name)); !bytes.Equal(want, read(t, filepath.Join(kustomizeFolder, "base", name))) {
			t.Errorf("deploy/kustomize/base/%s is not what export makes now:\n%s", name, want)
		}
	}
	tryIn(t, dir, "export", "kustomize", "experiment.yaml", "--schedule", "@daily", "--dir", "base").ends(t, verdict.ExitUsage)
	tryIn(t, dir, "export", "kustomize", "experiment.yaml", "--schedule", "@daily").ends(t, verdict.ExitUsage)
}

func filesOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// The namespace of the overlay says what the experiment is for. What kustomize makes of base and overlay is TestKubeKustomizeBuildsTheOverlay.
func TestTheOverlayIsForItsNamespace(t *testing.T) {
	t.Parallel()
	var overlay struct{ Namespace string }
	must(t, yaml.Unmarshal(read(t, filepath.Join(kustomizeFolder, "overlays/staging/kustomization.yaml")), &overlay))
	e, _, err := loadExperiment(filepath.Join(kustomizeFolder, "experiment.yaml"))
	must(t, err)
	if ns := decoded[corev1.Namespace](t, read(t, filepath.Join(kustomizeFolder, "namespace.yaml"))); ns.Name != overlay.Namespace || ns.Annotations[kube.EnvironmentAnnotation] != e.Environment {
		t.Errorf("namespace %s says %v; the overlay is for %s, the experiment for %s", ns.Name, ns.Annotations, overlay.Namespace, e.Environment)
	}
}

// kustomized are the objects that kubectl's kustomize, which make test-kube builds, makes of an overlay.
func kustomized(t *testing.T, dir string) []unstructured.Unstructured {
	t.Helper()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil && os.Getenv("LOCKDRILL_KUBE") == "1" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("SKIPPED, NOT TESTED: no kubectl on the PATH; make test-kube builds one")
	}
	cmd := exec.CommandContext(t.Context(), kubectl, "kustomize", dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var objects []unstructured.Unstructured
	for _, doc := range bytes.Split(out, []byte("\n---\n")) {
		var o unstructured.Unstructured
		must(t, yaml.Unmarshal(doc, &o.Object))
		objects = append(objects, o)
	}
	return objects
}

// The patch of docs/kubernetes.md adds a port to the rule of the API server, and to none else.
func TestKubeKustomizeTakesTheDocumentedPatch(t *testing.T) {
	_, patch, found := strings.Cut(string(read(t, "../../docs/kubernetes.md")), "```yaml ignore\npatches:\n")
	patch, _, closed := strings.Cut(patch, "```")
	if !found || !closed {
		t.Fatal("docs/kubernetes.md has no patch")
	}
	base, err := filepath.Abs(filepath.Join(kustomizeFolder, "base"))
	must(t, err)
	dir := t.TempDir()
	up, err := filepath.Rel(dir, base)
	must(t, err)
	write(t, filepath.Join(dir, "kustomization.yaml"), []byte("resources: ["+up+"]\npatches:\n"+patch))
	for _, o := range kustomized(t, dir) {
		if o.GetKind() != "NetworkPolicy" {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "egress")
		if got := fmt.Sprint(portsOf(rules)); got != "[[53 53] [443 6443 8443] [6379]]" {
			t.Errorf("the policy lets out to %s", got)
		}
		return
	}
	t.Error("there is no NetworkPolicy")
}

// portsOf are the ports of each rule of a NetworkPolicy.
func portsOf(rules []any) (all [][]any) {
	for _, r := range rules {
		var of []any
		for _, p := range r.(map[string]any)["ports"].([]any) {
			of = append(of, p.(map[string]any)["port"])
		}
		all = append(all, of)
	}
	return all
}

// With kubectl's kustomize: every object is in the namespace, the RoleBinding's account as well, and the patch took effect.
func TestKubeKustomizeBuildsTheOverlay(t *testing.T) {
	objects := kustomized(t, filepath.Join(kustomizeFolder, "overlays/staging"))
	for _, o := range objects {
		if o.GetKind() == "Namespace" {
			t.Error("the overlay owns the namespace: a delete of it would take away what other teams have there")
		}
		if o.GetNamespace() != "staging" {
			t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
		}
		switch o.GetKind() {
		case "RoleBinding":
			subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
			if s := subjects[0].(map[string]any); s["namespace"] != "staging" {
				t.Errorf("the account is %v", s)
			}
		case "CronJob":
			if s, _, _ := unstructured.NestedString(o.Object, "spec", "schedule"); s != "30 9 * * 2" {
				t.Errorf("schedule %q: the patch had no effect", s)
			}
		}
	}
	if len(objects) != 7 {
		t.Errorf("%d objects", len(objects))
	}
}
