package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubefake"
	"github.com/lockdrill/lockdrill/internal/upload"
)

// tryWith is tryIn with variables of the environment.
func tryWith(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	cmd := lockdrill(args...)
	cmd.Env = append(os.Environ(), env...)
	return finish(t, dir, cmd)
}

// theirDrill is refused before anything is touched: its Redis is somebody else's, and nobody has confirmed it.
func theirDrill(t *testing.T) string {
	t.Helper()
	return edit(t, goodDrill, "name: good", "name: theirs", "redis: {mode: spawn}", `redis: {mode: external, url: "redis://127.0.0.1:1"}`)
}

// A run that was refused, or whose file is wrong, leaves what a gate reads all the same, and nothing green of an earlier one.
func TestARunWithoutAVerdictIsToldToTheGate(t *testing.T) {
	t.Parallel()
	const good, refused, bad = "good.yaml", "theirs.yaml", "bad.yaml"
	dir := folder(t, good, goodDrill, refused, theirDrill(t), bad, "apiVersion: lockdrill/v2\n")
	for _, c := range []struct {
		args []string
		word string
		code int
	}{
		{[]string{refused}, "refused", verdict.ExitRefused},
		{[]string{bad}, "usage", verdict.ExitUsage},
		{[]string{good, refused}, "refused", verdict.ExitRefused},
		{[]string{good, "-f", "json", refused}, "usage", verdict.ExitUsage},
		{[]string{good, "--out", ""}, "usage", verdict.ExitUsage},
	} {
		write(t, filepath.Join(dir, "word"), []byte("pass"))
		write(t, filepath.Join(dir, "j.xml"), []byte("<testsuites></testsuites>"))
		got := tryWith(t, dir, []string{"GITHUB_STEP_SUMMARY=" + filepath.Join(dir, "summary.md")},
			append([]string{"run", "--result-file", "word", "--junit", "j.xml", "--metrics-file", "m.prom"}, c.args...)...)
		if got.code != c.code || got.stdout != "" {
			t.Errorf("%v: %+v", c.args, got)
		}
		if word := string(read(t, filepath.Join(dir, "word"))); word != c.word {
			t.Errorf("%v: the word is %q, want %q", c.args, word, c.word)
		}
		if junit := string(read(t, filepath.Join(dir, "j.xml"))); !strings.Contains(junit, `type="`+c.word+`"`) || !strings.Contains(junit, `errors="1"`) {
			t.Errorf("%v: %s", c.args, junit)
		}
	}
	if text := string(read(t, filepath.Join(dir, "m.prom"))); !strings.Contains(text, `lockdrill_run_verdict{experiment="theirs",verdict="refused"} 1`) {
		t.Errorf("the refused run is not in the metrics:\n%s", text)
	}
	if text := string(read(t, filepath.Join(dir, "summary.md"))); !strings.Contains(text, "## REFUSED · theirs · no verdict") || !strings.Contains(text, "confirm") {
		t.Errorf("the refused run is not in the summary:\n%s", text)
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, runsFolder)); len(entries) > 0 {
		t.Errorf("a refused run left %v", entries)
	}
}

func TestStepSummaryIsKeptUnderItsLimit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "summary.md")
	for _, text := range []string{"first", strings.Repeat("ä", maxSummary/2-60), strings.Repeat("what does not fit is cut. ", 100)} {
		must(t, appendSummary(path, text))
	}
	got := string(read(t, path))
	if len(got) > maxSummary || !strings.HasPrefix(got, "first\nää") || !strings.HasSuffix(got, summaryCut) || !strings.Contains(got, "what does") {
		t.Errorf("%d bytes, %.40s ... %s", len(got), got, got[len(got)-200:])
	}
	if err := appendSummary(path, "nor this"); err == nil || len(read(t, path)) != len(got) {
		t.Errorf("of what is left out nothing is said: %v", err)
	}
}

// The problems of a file stand beside its lines in GitHub's view; elsewhere, and for anything else, there are no annotations.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "repo", "drills"), 0o700))
	name := "a,b%:c.yaml"
	write(t, filepath.Join(dir, "repo", "drills", name), []byte(edit(t, goodDrill, "poll: 50ms, mode", "poll: 50ms, moode", "name: good", "name: \"100%\"")))
	env := []string{"GITHUB_ACTIONS=true", "GITHUB_WORKSPACE=" + filepath.Join(dir, "repo")}
	work := filepath.Join(dir, "repo", "drills")
	want := "::error file=drills/a%2Cb%25%3Ac.yaml,line=21,col=28::system.locks[0].policy.loop.moode: unknown field: did you mean \"mode\"?\n"
	for _, command := range []string{"validate", "run", "plan", "rehearse"} {
		got := tryWith(t, work, env, command, name)
		if got.code != verdict.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, `"100%25"`) {
			t.Errorf("%s: %+v\nwant %s", command, got, want)
		}
	}
	write(t, filepath.Join(work, "theirs.yaml"), []byte(theirDrill(t)))
	if got := tryWith(t, work, env, "run", "theirs.yaml"); got.code != verdict.ExitRefused || strings.Contains(got.stderr, "::") {
		t.Errorf("a refused run is no problem of a file: %+v", got)
	}
	if got := tryIn(t, work, "validate", name); strings.Contains(got.stderr, "::") {
		t.Errorf("outside GitHub: %+v", got)
	}
}

// What a run leaves in a ConfigMap: the verdict in keys of their own, and the closing summary for people.
func TestSummaryOfARun(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	var stderr bytes.Buffer
	cluster := kube.New(kubefake.Generic(client), "staging")
	g := &gate{
		stderr: &stderr,
		leave:  func(data map[string]string) error { return cluster.WriteSummary(t.Context(), "last", data) },
		mark:   func(data map[string]string) error { return cluster.MarkSummary(t.Context(), "last", data) },
	}
	last := func() map[string]string {
		t.Helper()
		o, err := client.CoreV1().ConfigMaps("staging").Get(t.Context(), "last", metav1.GetOptions{})
		must(t, err)
		return o.Data
	}
	r, err := readRun(io.Discard, storedRun(t, t.TempDir(), "20260102T030405.000Z-first-drill"), judgesAnew)
	must(t, err)
	g.leaveVerdict(r)
	data, j := last(), r.Judgement
	if data["verdict"] != j.Verdict || data["exitCode"] != "11" || data["run"] != j.Run.ID || data["ended"] != j.Run.Ended || !strings.Contains(data["summary"], j.SLOs[0].Lock) {
		t.Errorf("%q", data)
	}

	for code, told := range map[int]bool{verdict.ExitUsage: false, verdict.ExitRefused: false, verdict.ExitAborted: true, verdict.ExitError: true} {
		before := last()["summary"]
		g.leaveUnjudged("drill", code, "because of redis://me:secret@host "+verdict.ExitName(code)+strings.Repeat("é", maxClosing), time.Unix(0, 0))
		data := last()
		if (data["summary"] != before) != told || told && (data["verdict"] != verdict.ExitName(code) || data["run"] != "") {
			t.Errorf("after %s: %.200q", verdict.ExitName(code), data)
		}
		if code == verdict.ExitRefused && data["refused"] == "" {
			t.Errorf("a refused run left no mark: %.200q", data)
		}
		if strings.Contains(data["summary"], "secret") || len(data["summary"]) > maxClosing+10 {
			t.Errorf("%.200q, %d bytes", data["summary"], len(data["summary"]))
		}
	}
	if stderr.Len() > 0 {
		t.Errorf("%s", &stderr)
	}
	client.PrependReactor("*", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("forbidden") })
	g.leaveVerdict(r)
	if !strings.Contains(stderr.String(), "lockdrill: --summary-configmap: ") || !strings.Contains(stderr.String(), "the verdict stands") {
		t.Errorf("a summary that cannot be written: %s", &stderr)
	}
}

// Where the server stays away, the command that brings the run later is named.
func TestAnUploadThatFailsSaysWhatBringsItLater(t *testing.T) {
	t.Parallel()
	u := uploadFlags{url: "http://127.0.0.1:1", target: upload.Target{URL: "http://127.0.0.1:1", Wait: func(time.Duration) {}}}
	if err := u.bring(io.Discard, "id", "runs/x"); err == nil || !strings.HasSuffix(err.Error(), "; to bring it later: lockdrill judge runs/x --upload http://127.0.0.1:1") {
		t.Errorf("it says %v", err)
	}
}
