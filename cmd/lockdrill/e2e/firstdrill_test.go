package e2e

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/scenarios"
)

// The first minute, as the README promises it: the drill passes, in under a minute, and prints what the transcript shows.
func TestLiveFirstDrillIsAsTheReadmeSays(t *testing.T) {
	atLength(t, "first-drill takes the better part of a minute")
	t.Parallel()
	command, shown := testkit.Transcript(t, "../../../README.md", "first-drill")
	if command != "$ go run ./cmd/lockdrill run first-drill" {
		t.Errorf("the transcript begins with %q", command)
	}
	var plan struct{ Duration struct{ Expected float64 } } // of a machine that does little else, whatever this one does
	if err := json.Unmarshal([]byte(try(t, "plan", "first-drill", "-f", "json").stdout), &plan); err != nil || plan.Duration.Expected > 60 {
		t.Errorf("first-drill takes %gs, %v", plan.Duration.Expected, err)
	}
	dir := t.TempDir()
	got := tryIn(t, dir, "run", patientDrill(t))
	skipIfTooLate(t, got.code, filepath.Join(dir, "runs", "latest"))
	got.ends(t, verdict.ExitPass)
	if was, is := shape(shown), shape(got.stdout); !slices.Equal(was, is) {
		t.Errorf("the README's transcript has another shape than a real run; paste a new one.\nREADME:\n%s\nrun:\n%s",
			strings.Join(was, "\n"), strings.Join(is, "\n"))
	}
}

// patientDrill is first-drill with fewer kills and jobs, and with promises and witnesses that a machine keeps which does much else: what is
// compared is what a run says, and not how fast this machine is. Promises at the shipped limits are the scenarios' tests.
func patientDrill(t *testing.T) (path string) {
	t.Helper()
	shipped, _ := scenarios.Get("first-drill")
	file := string(shipped)
	for _, r := range [][2]string{
		{"max_gap: 500ms", "max_gap: 10s"}, {"timeout: 20s}", "timeout: 90s}"}, {"max_run: 2m", "max_run: 8m"}, {"takeover: {min: 400ms, max: 3s}", "takeover: {min: 1ms, max: 60s}"},
		{"count: 6,", "count: 2,"}, {"jobs: 100,", "jobs: 60,"}, {"min_jobs: 50", "min_jobs: 30"}, {"takeover: {min: 400ms, max: 4s}", "takeover: {min: 1ms, max: 60s}"}, {"tick_gap: {max: 3500ms}", "tick_gap: {max: 60s}"}, {"abandonments: {max: 2}", "abandonments: {max: 100}"},
	} {
		if !strings.Contains(file, r[0]) {
			t.Fatalf("first-drill has no %q any more", r[0])
		}
		file = strings.ReplaceAll(file, r[0], r[1])
	}
	path = filepath.Join(t.TempDir(), "first-drill.yaml")
	write(t, path, []byte(file))
	return path
}

// shape is what a summary says whatever was measured: the titles, the labels, and each SLO with its word.
func shape(text string) []string {
	gaps, figures := regexp.MustCompile(` {2,}`), regexp.MustCompile(`\d[\d,.]*`)
	chance := []string{"void", "unconfirmed", "besides", "Remarks", "warning", "finding", "lock debt", "not owned", "held", "wait", "machine", "remarks"} // lines that a good run may have or not
	_, text, _ = strings.Cut("\n"+text, "\nPASS")
	var lines []string
	valid := false // what there is to know beside the drill's validity goes on to the table
	for line := range strings.Lines("PASS" + text) {
		if valid = valid && strings.TrimSpace(line) != ""; valid || strings.HasPrefix(line, "   ") { // wrapped
			continue
		}
		valid = strings.HasPrefix(strings.TrimSpace(line), "Was the drill valid?")
		line, _, _ = strings.Cut(line, "Yes. ") // what there is to know beside it
		fields := gaps.Split(strings.TrimSpace(line), -1)
		if label := fields[0]; label == "" || slices.Contains(chance, label) {
			continue
		}
		keep := 1
		if fields[0] == "PASS" {
			keep = min(3, len(fields))
		}
		said := figures.ReplaceAllString(strings.Join(fields[:keep], "  "), "#")
		if last := len(lines) - 1; last > 0 && strings.Contains(lines[last], "promises") && !strings.HasSuffix(lines[last], ".") {
			lines[last] += " " + said // where a sentence is wrapped depends on its figures
			continue
		}
		lines = append(lines, said)
	}
	return lines
}
