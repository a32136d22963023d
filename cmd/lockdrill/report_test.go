package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// recordedRun copies a recorded run to runs/name below dir.
func recordedRun(t *testing.T, dir, name string) string {
	t.Helper()
	run := filepath.Join(dir, runsFolder, name)
	if err := os.MkdirAll(run, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{experimentFile, historyFile} {
		write(t, filepath.Join(run, file), read(t, filepath.Join("../../reports/testdata/recorded", name, file)))
	}
	return run
}

// The command that runs it again has the consent that this experiment's run was asked for, and no other.
func TestRunAgainHasTheConsentThatIsNeeded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, consent := range map[string]string{"dirty": " --environment local --confirm left-behind", "pass-1": ""} {
		run := recordedRun(t, dir, name)
		for _, format := range []string{"text", "md", "postmortem-md", "html"} {
			got := tryIn(t, dir, "judge", run, "-f", format, "--verbose")
			again := regexp.MustCompile(`lockdrill run \S*experiment\.yaml --seed \d+( --environment \S+ --confirm [a-z0-9-]+)?`).FindStringSubmatch(strings.Join(strings.Fields(got.stdout), " "))
			if len(again) < 2 || again[1] != consent {
				t.Errorf("%s as %s: %q, want %q", name, format, again, consent)
			}
		}
	}
}

func reportFiles() []string {
	var files []string
	for _, f := range formats() {
		if f.file != "" {
			files = append(files, f.file)
		}
	}
	return files
}

// judge redoes everything from verdict.json on, byte for byte, wherever it is called from.
func TestJudgeWritesTheReportsAnew(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"pass-1": verdict.ExitPass, "fail": verdict.ExitSLOFailed, "dirty": verdict.ExitDirty} {
		dir := t.TempDir()
		run := recordedRun(t, dir, name)
		first := tryIn(t, dir, "judge", name)
		if report := "runs/" + name + "/" + fullReport(); first.code != want || !strings.Contains(first.stdout, "  report        "+report+"\n") {
			t.Errorf("%s: %+v, want status %d and the report %s named", name, first, want, report)
		}
		before := map[string][]byte{}
		for _, file := range append(reportFiles(), verdictFile) {
			before[file] = read(t, filepath.Join(run, file))
			remove(t, filepath.Join(run, file))
		}
		if again := tryIn(t, run, "judge", "."); again.code != want {
			t.Errorf("judged again: %+v", again)
		}
		if entries, err := os.ReadDir(run); err != nil || len(entries) != 2+len(before) {
			t.Errorf("%s: the folder holds %v (%v), want the two files, verdict.json and the reports", name, entries, err)
		}
		for file, was := range before {
			if !bytes.Equal(read(t, filepath.Join(run, file)), was) {
				t.Errorf("%s: %s is not what it was", name, file)
			}
		}
	}
}

// A report that cannot be written is said; the verdict and the status stand.
func TestAReportThatCannotBeWrittenChangesNoVerdict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "fail")
	if err := os.MkdirAll(filepath.Join(run, "junit.xml", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := tryIn(t, dir, "judge", "fail")
	if got.code != verdict.ExitSLOFailed || !strings.HasPrefix(got.stdout, "FAIL") ||
		!strings.Contains(got.stderr, "junit.xml not written; the verdict stands, and lockdrill judge runs/fail writes them anew") {
		t.Errorf("%+v", got)
	}
	for _, file := range append(reportFiles(), verdictFile) {
		if info, err := os.Stat(filepath.Join(run, file)); err != nil || file != "junit.xml" && info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(run, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestJudgeWritesEveryFormat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "fail")
	for _, f := range formats() {
		onStdout := tryIn(t, dir, "judge", "fail", "-f", f.name)
		if onStdout.code != verdict.ExitSLOFailed || onStdout.stdout == "" || onStdout.stderr != "" {
			t.Errorf("%s: %+v", f.name, onStdout)
		}
		if got := tryIn(t, dir, "judge", "fail", "-f", f.name, "-o", "out"); got != (result{code: verdict.ExitSLOFailed}) {
			t.Errorf("%s to a file: %+v", f.name, got)
		}
		if text := string(read(t, filepath.Join(dir, "out"))); text != onStdout.stdout {
			t.Errorf("%s: the file is not what standard output is", f.name)
		}
		if kept := map[string]string{"html": f.file, "json": verdictFile}[f.name]; kept != "" && string(read(t, filepath.Join(run, kept))) != onStdout.stdout {
			t.Errorf("%s: the folder has another %s", f.name, kept)
		}
	}
}

func TestJudgeRefusesForms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recordedRun(t, dir, "fail")
	for _, c := range []struct{ args, want string }{
		{"judge fail -f jnuit", `lockdrill judge: invalid argument "jnuit" for "-f, --format" flag: must be ` + strings.Join(formatNames(), ", ") + `; see lockdrill judge --help`},
		{"judge nowhere -f md", "nowhere: no such folder; runs are folders such as runs/latest"},
		{"judge runs/fail/history.jsonl", "runs/fail/history.jsonl: this is a file; runs are folders such as runs/fail"},
		{"judge fail -f md -o no/such/folder/x.md", "no/such/folder/x.md: write: no such file or directory"},
	} {
		if got := tryIn(t, dir, strings.Fields(c.args)...); got != (result{verdict.ExitUsage, "", c.want + "\n"}) {
			t.Errorf("%s: %+v\nwant %s", c.args, got, c.want)
		}
	}
}

// docs/gating.md names every format, and only flags that exist.
func TestGatingPageNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	page := string(read(t, "../../docs/gating.md"))
	for _, name := range formatNames() {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/gating.md does not name the format %s", name)
		}
	}
	help := try(t, "run", "--help").stdout + try(t, "export", "ci", "--help").stdout
	for _, flag := range regexp.MustCompile("--[a-z][a-z-]+").FindAllString(page, -1) {
		if !strings.Contains(help, flag) {
			t.Errorf("docs/gating.md names %s, which neither run nor export ci has", flag)
		}
	}
}
