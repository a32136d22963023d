package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/scenarios"
)

// storedRun makes the folder of a run in which nothing happened, as runs/<name> below dir, and returns its path.
func storedRun(t *testing.T, dir, name string) string {
	t.Helper()
	experiment, ok := scenarios.Get("first-drill")
	if !ok {
		t.Fatal("first-drill is not shipped")
	}
	var h bytes.Buffer
	header := history.Header{Tool: "test", Run: name, Experiment: "first-drill", Digest: experiments.Digest(experiment), Seed: 1,
		Mode: history.Live, TimeScale: 1, Started: "2026-01-02T03:04:05Z"}
	now := int64(0)
	rec, err := history.NewRecorder(&h, header, func() int64 { now++; return now }, nil)
	must(t, err)
	for _, e := range []history.Event{
		{Kind: history.RunPhase, Source: "runner", Phase: &history.Phase{Name: history.PhaseSteady}},
		{Kind: history.RunEnd, Source: "runner", Note: &history.Note{What: "completed", OK: true}},
	} {
		if _, err := rec.RecordNow(e); err != nil {
			t.Fatal(err)
		}
	}
	run := filepath.Join(dir, runsFolder, name)
	must(t, os.MkdirAll(run, 0o700))
	write(t, filepath.Join(run, experimentFile), experiment)
	write(t, filepath.Join(run, historyFile), h.Bytes())
	return run
}

// What an inconclusive run counts as changes the status and nothing that is written.
func TestJudgeOnInconclusive(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	storedRun(t, work, "a-run")
	must(t, os.Symlink("a-run", filepath.Join(work, runsFolder, "latest")))
	for _, c := range []struct {
		flag string
		code int
		says string
	}{
		{"", verdict.ExitInconclusive, ""},
		{"fail", verdict.ExitSLOFailed, "exit status 10 because of --on-inconclusive=fail; the verdict is inconclusive"},
		{"pass", verdict.ExitPass, "exit status 0 because of --on-inconclusive=pass; the verdict is inconclusive"},
		{"maybe", verdict.ExitUsage, `--on-inconclusive "maybe": want fail or pass`},
	} {
		got := tryIn(t, work, "judge", "latest", "--on-inconclusive", c.flag)
		if got.code != c.code || !strings.Contains(got.stderr, c.says) || c.code != verdict.ExitUsage && !strings.Contains(got.stdout, "runs/latest") {
			t.Errorf("%q: %+v", c.flag, got)
		}
		if told := strings.Contains(strings.Join(strings.Fields(got.stdout), " "), "A gate stops here, unless it says --on-inconclusive pass."); told != (c.code != verdict.ExitUsage) {
			t.Errorf("%q: what a gate does is told: %t\n%s", c.flag, told, got.stdout)
		}
		if c.code != verdict.ExitUsage && !strings.Contains(string(read(t, filepath.Join(work, runsFolder, "a-run", verdictFile))), `"exitCode": 11`) {
			t.Errorf("%q: the verdict changed", c.flag)
		}
	}
}

func TestJudgeToleratesTornEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(storedRun(t, dir, "a-run"), historyFile)
	whole := read(t, path)
	write(t, path, whole[:len(whole)-20])
	if got := tryIn(t, dir, "judge", "a-run"); got.code == verdict.ExitPass || got.code == verdict.ExitUsage || !strings.Contains(got.stdout, "cut off") {
		t.Errorf("a torn history: %+v", got)
	}
}

// A folder that is not what it should be is status 2, says its place, and gets no verdict.
func TestJudgeRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, run string)
		want  string
	}{
		"no experiment": {
			func(t *testing.T, run string) { must(t, os.Remove(filepath.Join(run, experimentFile))) },
			"runs/a-run: experiment.yaml is missing: not the folder of a run\n",
		},
		"no history": {
			func(t *testing.T, run string) { must(t, os.Remove(filepath.Join(run, historyFile))) },
			"runs/a-run: history.jsonl is missing: not the folder of a run\n",
		},
		"damaged history": {
			func(t *testing.T, run string) {
				path := filepath.Join(run, historyFile)
				lines := bytes.SplitAfter(read(t, path), []byte("\n"))
				write(t, path, bytes.Join([][]byte{lines[0], []byte("{\"n\":1}\n"), lines[2]}, nil))
			},
			"runs/a-run/history.jsonl: history line 2: ",
		},
		"changed experiment": {
			func(t *testing.T, run string) {
				path := filepath.Join(run, experimentFile)
				write(t, path, append(read(t, path), "# a later thought\n"...))
			},
			"runs/a-run/experiment.yaml: not the file of this run: its digest is sha256:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run := storedRun(t, dir, "a-run")
			c.spoil(t, run)
			got := tryIn(t, dir, "judge", "runs/a-run")
			if got.code != verdict.ExitUsage || got.stdout != "" || !strings.HasPrefix(got.stderr, c.want) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("got %+v, want status 2 and %q", got, c.want)
			}
			isGone(t, filepath.Join(run, verdictFile))
		})
	}
}

// The header says at which scale limits were judged: one that the file does not give is another run's, or was edited.
func TestAHeaderThatContradictsTheFile(t *testing.T) {
	t.Parallel()
	for _, swap := range [][2]string{{`"time_scale":`, `"time_scale":1e300,"x":`}, {`"experiment":"`, `"experiment":"other-`}} {
		dir := t.TempDir()
		run := recordedRun(t, dir, "pass-1")
		path := filepath.Join(run, historyFile)
		text := string(read(t, path))
		line, rest, _ := strings.Cut(text, "\n")
		line = strings.Replace(line, swap[0], swap[1], 1)
		if before, after, ok := strings.Cut(line, `,"x":`); ok { // the old figure goes
			_, after, _ = strings.Cut(after, ",")
			line = before + "," + after
		}
		write(t, path, []byte(line+"\n"+rest))
		if got := tryIn(t, dir, "judge", run); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "not the history of") {
			t.Errorf("%v: exit %d\n%s", swap, got.code, got.stderr)
		}
	}
}

// recordedRun copies a recorded run to runs/name below dir.
func recordedRun(t *testing.T, dir, name string) string {
	t.Helper()
	run := filepath.Join(dir, runsFolder, name)
	must(t, os.MkdirAll(run, 0o700))
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
			must(t, os.Remove(filepath.Join(run, file)))
		}
		tryIn(t, run, "judge", ".").ends(t, want)
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
	must(t, os.MkdirAll(filepath.Join(run, "junit.xml", "in the way"), 0o700))
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

// Every document comes as text, as Markdown, as a page and as data, with the same status: a figure of the text stands in both others.
func TestEveryDocumentHasItsForms(t *testing.T) {
	t.Parallel()
	dir := comparedIn(t)
	for args, figure := range map[string]string{
		"plan first-drill --hash --verbose":                                             "gives up ttl 1s - drift 10ms",
		"tune --profile cordum/scheduler-job":                                           "over ttl 60s",
		"tune --p99 18s --jitter 4s --guard 2s --takeover 30s --seeds 1":                "= 22.64s, under ttl 24s",
		"rehearse first-drill --seeds 2":                                                "470ms to 1.62s by the timings",
		"rehearse first-drill --seeds 1 --sweep rate=6/s..7/s,steps=2,finer=0":          "of lock job from 6/s to 7/s",
		"history runs/base":                                                             "3 runs",
		"history --pool runs/base":                                                      "3 runs together",
		"compare base head --slo takeover --allow-different=system.locks.leader.policy": "base 3 runs",
	} {
		text := tryIn(t, dir, strings.Fields(args)...)
		if !strings.Contains(strings.Join(strings.Fields(text.stdout), " "), figure) {
			t.Errorf("%s: no %q in\n%s%s", args, figure, text.stdout, text.stderr)
		}
		for form, opens := range map[string]string{"md": "#", "html": "<!doctype html>"} {
			got := tryIn(t, dir, append(strings.Fields(args), "-f", form)...)
			if got.code != text.code || !strings.HasPrefix(got.stdout, opens) || !strings.Contains(strings.NewReplacer(`\`, "", "**", "").Replace(got.stdout), figure) {
				t.Errorf("%s -f %s: status %d, want %d; no %q at the start, or no %q in\n%s%s", args, form, got.code, text.code, opens, figure, got.stdout, got.stderr)
			}
			if strings.Contains(args, "--hash") && (!strings.Contains(got.stdout, "--plan sha256:") || !strings.Contains(got.stdout, "ttl: 1s")) {
				t.Errorf("%s -f %s: no hash, or no policy", args, form)
			}
		}
		if got := tryIn(t, dir, append(strings.Fields(args), "-f", "json")...); got.code != text.code || !json.Valid(bytes.TrimSpace([]byte(got.stdout))) {
			t.Errorf("%s -f json: status %d, want %d: %s", args, got.code, text.code, got.stdout)
		}
	}
}
