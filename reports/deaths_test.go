package reports

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// podRun is a recorded drill of pods.
func podRun(t *testing.T, name string) Run {
	t.Helper()
	return runIn(t, filepath.Join("..", "scenarios", "testdata", name))
}

// Every report tells call, object and process apart, and what that leaves open.
func TestAKillOfAPodIsToldInThreeInstants(t *testing.T) {
	for name, want := range map[string][]string{
		"pods-force-delete-overlap": {"T+11.010s", "T+11.019s", "T+13.060s", "T+13.120s", "seen by the end of its log", "surely lived for 2.04s after its object was gone"},
		"pods-end-not-seen":         {"T+11.019s", "T+11.056s", "Nobody saw the process end"},
		"pods-crash":                {"told to die", "T+11.008s", "T+11.900s", "seen in the container's status"},
		"pods-observed-lease":       {"a command in its container", "T+21.000s"},
	} {
		r := podRun(t, name)
		var terminal, markdown bytes.Buffer
		if err := Terminal(&terminal, r.Judgement, Options{Width: 4000, Verbose: true}); err != nil {
			t.Fatal(err)
		}
		if err := Markdown(&markdown, r, Options{}); err != nil {
			t.Fatal(err)
		}
		page := strings.NewReplacer("&#43;", "+", "&#39;", "'").Replace(htmlOf(t, r))
		md := strings.ReplaceAll(markdown.String(), `\`, "")
		for _, w := range want {
			for format, text := range map[string]string{"terminal": terminal.String(), "markdown": md, "html": page} {
				if !strings.Contains(text, w) {
					t.Errorf("%s: %s does not say %q", name, format, w)
				}
			}
		}
		picture := strings.Contains(page, "its pod's object gone")
		if object := name != "pods-crash" && name != "pods-observed-lease"; picture != object {
			t.Errorf("%s: the timeline marks the object's end: %v", name, picture)
		}
	}
}

func TestAStorySaysHowAPodWasKilled(t *testing.T) {
	for name, want := range map[string]string{
		"pods-force-delete-overlap": "deleted the pod of r1.1 (pod worker-1) holding drill:leader, with grace 0",
		"pods-graceful":             "deleted the pod of r1.1 (pod worker-1) holding drill:leader, with its own grace",
		"pods-crash":                "crashed r1.1 (pod worker-1) holding drill:leader",
	} {
		e, h := testkit.Run(t, filepath.Join("..", "scenarios", "testdata", name))
		s, said := NewStory(e), ""
		for _, e := range h.Events {
			if line := s.Line(e); e.Kind == history.FaultApplied {
				said = line
			}
		}
		if !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", name, said, want)
		}
	}
}

func TestAStorySaysWhatAnObservedDrillStandsOn(t *testing.T) {
	e, h := testkit.Run(t, filepath.Join("..", "scenarios", "testdata", "pods-observed-lease"))
	line := NewStory(e).Line(h.Events[0])
	if !strings.HasSuffix(line, "  2 pods of somebody's own, only watched in Kubernetes v1.36.3; linux/amd64, 2 CPUs") || strings.Contains(line, "redis") {
		t.Errorf("%q", line)
	}
}
