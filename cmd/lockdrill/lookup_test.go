package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/scenarios"
)

// decode reads one strict JSON document.
func decode(t *testing.T, text string, into any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if dec.More() {
		t.Fatalf("more than one document: %s", text)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	var doc versionDoc
	decode(t, try(t, "--version", "-f", "json").stdout, &doc)
	if doc.SchemaVersion != 1 || doc.Version == "" || doc.HistorySchema != 3 || doc.VerdictSchema != 1 || doc.WorkerProtocol != 1 {
		t.Errorf("document: %+v", doc)
	}
	if got := try(t, "--version"); !strings.HasPrefix(got.stdout, "lockdrill "+doc.Version+" (") {
		t.Errorf("text: %+v", got)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, ok := scenarios.Get("first-drill")
	if !ok {
		t.Fatal("first-drill is not shipped")
	}
	bad := strings.Replace(string(good), "kind: Experiment", "kind: Experimnt", 1)
	for name, data := range map[string]string{"good.yaml": string(good), "bad.yaml": bad} {
		write(t, filepath.Join(dir, name), []byte(data))
	}

	got := tryIn(t, dir, "validate", "good.yaml", "first-drill")
	if got.code != verdict.ExitPass || !strings.HasPrefix(got.stdout, "good.yaml: ok: first-drill: ") || strings.Count(got.stdout, "\n") != 2 {
		t.Errorf("good files: %+v", got)
	}
	got = tryIn(t, dir, "validate", "bad.yaml", "good.yaml")
	if got.code != verdict.ExitUsage || !strings.HasPrefix(got.stderr, "bad.yaml:6:") || !strings.HasPrefix(got.stdout, "good.yaml: ok") {
		t.Errorf("a bad file before a good one: %+v", got)
	}

	var doc validateDoc
	got = tryIn(t, dir, "validate", "-f", "json", "good.yaml", "bad.yaml", "absent.yaml")
	decode(t, got.stdout, &doc)
	if got.code != verdict.ExitUsage || len(doc.Files) != 3 || !doc.Files[0].OK || doc.Files[1].OK || doc.Files[1].Problems[0].Line != 6 ||
		doc.Files[2].Problems[0].Message == "" {
		t.Errorf("document: %+v of %+v", doc, got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("validate touched its folder: %v, %v", entries, err)
	}
}
