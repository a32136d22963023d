package main

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/scenarios"
)

// The list has every scenario once, below the heading of its group, with the time that it takes, in at most 100 columns.
func TestListIsByGroupsAndFits(t *testing.T) {
	t.Parallel()
	got := try(t, "list")
	for line := range strings.Lines(got.stdout) {
		if len(line) > mostColumns+1 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	for _, title := range scenarios.Groups() {
		if strings.Count(got.stdout, "\n"+title+"\n")+strings.Count(got.stdout[:len(title)+1], title+"\n") != 1 {
			t.Errorf("no heading %q", title)
		}
	}
	var doc listDoc
	decode(t, try(t, "list", "-f", "json").stdout, &doc)
	if doc.SchemaVersion != 1 || len(doc.Scenarios) != len(scenarios.List()) {
		t.Fatalf("%d scenarios", len(doc.Scenarios))
	}
	for _, s := range doc.Scenarios {
		if strings.Count(got.stdout, "\n  "+s.Name+" ") != 1 || s.Seconds <= 0 || s.Group == "" || s.Title == "" || s.Summary == "" || verdict.ExitName(s.Expect) == "unknown" {
			t.Errorf("%+v is not listed once", s)
		}
		if fails := strings.Contains(s.Summary, "Ends with"); s.Expect != 0 && fails {
			t.Errorf("%s says its end twice", s.Name)
		}
	}
	for _, line := range doc.lines(60) {
		if len(line) > 60 && strings.Contains(line, ", ") && !strings.HasPrefix(line, "Run one") {
			t.Errorf("at 60 columns: %q", line)
		}
	}
}
