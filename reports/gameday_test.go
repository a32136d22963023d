package reports

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/gameday"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// A bar in what somebody wrote ends no cell, and no backslash stands beside it that a reader would see.
func TestBarsStayInTheirCells(t *testing.T) {
	g := &gameday.Document{Name: "day", Observations: []gameday.Observation{{At: "2026-07-06T12:00:00Z", Who: "ann|bob", Text: `queue \| stood still | then went on`}}}
	var run strings.Builder
	day := doc.Markdown(GameDay(g), doc.Full)
	r := recorded(t, "fail")
	r.Record.Header.Tool = "lockdrill a|b"
	if err := Postmortem(&run, r, Options{Report: "page.html", Folder: "runs/a|b", Reproduce: "lockdrill run a|b"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, row string }{
		{"game day", day, `| ann\|bob |  | queue \\\| stood still \| then went on |`},
		{"tool", run.String(), "- recorded by: lockdrill a\\|b\n"},
		{"folder", run.String(), "- folder: runs/a\\|b\n"},
		{"command", run.String(), "- run again: lockdrill run a\\|b\n"},
	} {
		if !strings.Contains(c.text, c.row) {
			t.Errorf("%s: no row %s in\n%s", c.name, c.row, c.text)
		}
	}
}
