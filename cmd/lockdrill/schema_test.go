package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

func TestSchemaIsPrintedOrWritten(t *testing.T) {
	t.Parallel()
	printed := try(t, "schema")
	var doc map[string]any
	if err := json.Unmarshal([]byte(printed.stdout), &doc); err != nil || printed.code != verdict.ExitPass || doc["$schema"] == nil {
		t.Fatalf("schema: %v, status %d, %.100q", err, printed.code, printed.stdout)
	}
	file := filepath.Join(t.TempDir(), experiments.SchemaFile)
	for range 2 { // over what is there
		if got := try(t, "schema", "--write", file); got != (result{}) {
			t.Fatalf("schema --write: %+v", got)
		}
	}
	if written, err := os.ReadFile(file); err != nil || string(written) != printed.stdout {
		t.Errorf("what was written is not what is printed (%v)", err)
	}
	if got := try(t, "schema", "gameday"); got.code != verdict.ExitPass || got.stdout == printed.stdout || json.Unmarshal([]byte(got.stdout), &doc) != nil {
		t.Errorf("schema gameday: status %d, %.100q", got.code, got.stdout)
	}
	if got := try(t, "schema", "schedule"); got.code != verdict.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, "lockdrill export cronjob") {
		t.Errorf("schema schedule: %+v", got)
	}
	if got := try(t, "schema", "scheduled"); got.code != verdict.ExitUsage || got.stdout != "" {
		t.Errorf("schema scheduled: %+v", got)
	}
	if got := try(t, "schema", "--write", ""); got.code != verdict.ExitUsage || got.stdout != "" {
		t.Errorf("schema --write '': %+v", got)
	}
}
