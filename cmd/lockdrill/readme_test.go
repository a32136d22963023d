package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The first minute, as the README promises it: the drill passes, in under a minute, and prints what the transcript shows.
func TestFirstDrillIsAsTheReadmeSays(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("first-drill takes the better part of a minute")
	}
	command, shown := transcript(t)
	if command != "$ go run ./cmd/lockdrill run first-drill" {
		t.Errorf("the transcript begins with %q", command)
	}
	start := time.Now()
	got := try(t, "run", "first-drill")
	if took := time.Since(start); took > time.Minute {
		t.Errorf("first-drill took %v", took)
	}
	if got.code != exitPass {
		t.Fatalf("first-drill: %+v", got)
	}
	if was, is := shape(shown), shape(got.stdout); !slices.Equal(was, is) {
		t.Errorf("the README's transcript has another shape than a real run; paste a new one.\nREADME:\n%s\nrun:\n%s",
			strings.Join(was, "\n"), strings.Join(is, "\n"))
	}
}

// transcript is the README's transcript of first-drill: its command, and what that printed.
func transcript(t *testing.T) (command, output string) {
	t.Helper()
	_, rest, ok := strings.Cut(string(read(t, "../../README.md")), "<!-- transcript:first-drill -->\n```\n")
	block, _, closed := strings.Cut(rest, "```\n<!-- /transcript -->\n")
	if !ok || !closed {
		t.Fatal("README.md has no block between <!-- transcript:first-drill --> and <!-- /transcript -->")
	}
	command, output, _ = strings.Cut(block, "\n")
	return command, output
}

// shape is what a summary says whatever was measured: the titles, the labels, and each SLO with its word.
func shape(text string) []string {
	gaps, figures := regexp.MustCompile(` {2,}`), regexp.MustCompile(`\d[\d,.]*`)
	chance := []string{"void", "unconfirmed", "besides", "Remarks", "warning", "finding", "lock debt", "not owned", "held", "wait"} // lines that a good run may have or not
	_, text, _ = strings.Cut("\n"+text, "\nPASS")
	var lines []string
	for line := range strings.Lines("PASS" + text) {
		if strings.HasPrefix(line, "   ") { // wrapped
			continue
		}
		fields := gaps.Split(strings.TrimSpace(line), -1)
		if label := fields[0]; label == "" || slices.Contains(chance, label) {
			continue
		}
		keep := 1
		if fields[0] == "PASS" {
			keep = min(3, len(fields))
		}
		lines = append(lines, figures.ReplaceAllString(strings.Join(fields[:keep], "  "), "#"))
	}
	return lines
}
