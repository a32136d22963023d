package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
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
	write(t, filepath.Join(dir, "game-day.yaml"), []byte(edit(t, string(read(t, "../../deploy/testdata/game-day.yaml")), "pods: apply", "pods: use")))
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
