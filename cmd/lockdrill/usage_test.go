package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
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
	tiny := edit(t, goodDrill, "steady_state:", "time_scale: 0.03\nsteady_state:", "stop_budget: ", "stop_budget: 300us #") // which this machine can never keep
	for name, data := range map[string]string{"good.yaml": string(good), "bad.yaml": bad, "tiny.yaml": tiny} {
		write(t, filepath.Join(dir, name), []byte(data))
	}

	got := tryIn(t, dir, "validate", "good.yaml", "first-drill")
	if got.code != verdict.ExitPass || !strings.HasPrefix(got.stdout, "good.yaml: ok: first-drill: ") || strings.Count(got.stdout, "\n") != 2 || strings.Count(got.stdout, ", 11 SLOs, ") != 2 { // as a run of it has rows
		t.Errorf("good files: %+v", got)
	}
	got = tryIn(t, dir, "validate", "bad.yaml", "good.yaml")
	if got.code != verdict.ExitUsage || !strings.HasPrefix(got.stderr, "bad.yaml:6:") || !strings.HasPrefix(got.stdout, "good.yaml: ok") {
		t.Errorf("a bad file before a good one: %+v", got)
	}

	tryIn(t, dir, "validate", "tiny.yaml").refused(t, "tiny.yaml: this machine is too slow: time_scale 0.03 makes the ")
	other := tryIn(t, "../../experiments/testdata", "validate", "etcd.yaml")
	if plain := buildTags == ""; other.code != verdict.ExitPass || strings.Contains(other.stderr, "warning: run and plan would refuse: etcd: store.kind etcd: this build has no driver of it") != plain {
		t.Errorf("what this build may have no driver of: %+v", other)
	}
	var doc validateDoc
	got = tryIn(t, dir, "validate", "-f", "json", "good.yaml", "bad.yaml", "absent.yaml")
	decode(t, got.stdout, &doc)
	if got.code != verdict.ExitUsage || len(doc.Files) != 3 || !doc.Files[0].OK || doc.Files[1].OK || doc.Files[1].Problems[0].Line != 6 ||
		doc.Files[2].Problems[0].Message == "" {
		t.Errorf("document: %+v of %+v", doc, got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("validate touched its folder: %v, %v", entries, err)
	}
}

// The list has every scenario once, below the heading of its group, with the time that it takes, in at most 100 columns.
func TestListIsByGroupsAndFits(t *testing.T) {
	t.Parallel()
	got := try(t, "list")
	for line := range strings.Lines(got.stdout) {
		if len(line) > mostColumns+1 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	for _, s := range scenarios.List() {
		title := s.Group
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

func TestSchemaIsPrintedOrWritten(t *testing.T) {
	t.Parallel()
	printed := try(t, "validate", "--schema")
	var doc map[string]any
	if err := json.Unmarshal([]byte(printed.stdout), &doc); err != nil || printed.code != verdict.ExitPass || doc["$schema"] == nil {
		t.Fatalf("schema: %v, status %d, %.100q", err, printed.code, printed.stdout)
	}
	file := filepath.Join(t.TempDir(), experiments.SchemaFile)
	for range 2 { // over what is there
		if got := try(t, "validate", "--schema", "-o", file); got != (result{}) {
			t.Fatalf("validate --schema -o: %+v", got)
		}
	}
	if written, err := os.ReadFile(file); err != nil || string(written) != printed.stdout {
		t.Errorf("what was written is not what is printed (%v)", err)
	}
	if got := try(t, "validate", "--schema=gameday"); got.code != verdict.ExitPass || got.stdout == printed.stdout || json.Unmarshal([]byte(got.stdout), &doc) != nil {
		t.Errorf("schema gameday: status %d, %.100q", got.code, got.stdout)
	}
	try(t, "validate", "--schema=schedule").refused(t, "lockdrill export cronjob")
	try(t, "validate", "--schema=scheduled").refused(t)
	try(t, "validate", "--schema", "-o", "").refused(t)
}

// The table is the same in the code, in the help and in the README.
func TestExitCodeTables(t *testing.T) {
	t.Parallel()
	readme := read(t, "../../README.md")
	help := try(t, "help", "exit-codes").stdout
	for _, m := range verdict.Exits() {
		if row := fmt.Sprintf("| %d | %s | %s |\n", m.Code, m.Name, m.Meaning); !strings.Contains(string(readme), row) {
			t.Errorf("README.md has no row %q", row)
		}
		if row := fmt.Sprintf("  %2d  %-12s  %s\n", m.Code, m.Name, m.Meaning); !strings.Contains(help, row) {
			t.Errorf("help exit-codes has no row %q", row)
		}
	}
}

// The help of every command fits a page of 100 columns and a terminal of 80, and loses no word on the way.
func TestHelpFitsWhereItIsRead(t *testing.T) {
	t.Parallel()
	walkCommands(testRoot(), func(cmd *cobra.Command) {
		for _, width := range []int{100, 80} {
			examples := false
			help := helpOf(cmd, width)
			for line := range strings.Lines(help) {
				line = strings.TrimRight(line, "\n")
				if !strings.HasPrefix(line, " ") {
					examples = line == "Examples:"
				}
				words := len(strings.Fields(line)) // a word of its own may be longer
				if len(line) > width && words > 1 && (!examples || len(line) > 100) {
					t.Errorf("%s --help: %d columns, want %d: %s", cmd.CommandPath(), len(line), width, line)
				}
			}
			said := strings.Join(strings.Fields(help), " ")
			if about := strings.Join(strings.Fields(cmd.Long), " "); !strings.HasPrefix(said, about) {
				t.Errorf("%s --help at %d columns begins with other words:\n%s", cmd.CommandPath(), width, help)
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if _, usage := pflag.UnquoteUsage(f); !f.Hidden && !strings.Contains(said, strings.Join(strings.Fields(usage), " ")) {
					t.Errorf("%s --help at %d columns lacks %q:\n%s", cmd.CommandPath(), width, usage, help)
				}
			})
		}
	})
}

// What goes on below a flag stands below its text, not below its name.
func TestFlagTextGoesOnBelowItself(t *testing.T) {
	t.Parallel()
	const line = "      --allow string     one two three four five six seven"
	if got, want := below(line, 45), "      --allow string     one two three four\n                         five six seven"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := flowed("a b\nc d\n\n  as it is\ne f", 5), "a b c\nd\n\n  as\n  it\n  is\ne f"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Sixteen commands in groups are shown to people; the rest is help, completion and a topic.
func TestSixteenCommandsInGroups(t *testing.T) {
	t.Parallel()
	root, shown := testRoot(), 0
	for _, cmd := range root.Commands() {
		switch {
		case cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" || cmd.IsAdditionalHelpTopicCommand():
		case cmd.GroupID == "":
			t.Errorf("%s is in no group", cmd.Name())
		default:
			shown++
		}
	}
	help := try(t, "--help").stdout
	if shown != 16 || strings.Contains(help, "Available Commands") || strings.Contains(help, "Additional Commands") || strings.Index(help, "\nStart:") > strings.Index(help, "\nMore:") {
		t.Errorf("%d commands, want 16:\n%s", shown, help)
	}
}

// -o names a file and -f a form, whatever the command.
func TestEachCommandHasAFormAndAFile(t *testing.T) {
	t.Parallel()
	walkCommands(testRoot(), func(cmd *cobra.Command) {
		o, f := cmd.Flags().ShorthandLookup("o"), cmd.Flags().ShorthandLookup("f")
		if o != nil && o.Name != "output" || f != nil && f.Name != "format" || f != nil && o == nil {
			t.Errorf("%s: -o %+v, -f %+v", cmd.CommandPath(), o, f)
		}
	})
}

// What a shell completes: scenarios, kinds, forms and words.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"run first-": "first-drill first-gameday", "plan five": "five-loops-of-a-sheet", "export c": "ci cronjob", "export ci git": "github gitlab",
		"export job pods": "pods-job-locks", "explain takeo": "takeover", "explain profile lockdrill/s": "lockdrill/standard", "judge -f j": "junit json", "run --log-level ": "debug info warn error",
		"init --from nobody": "nobody-home", "history -f h": "html", "validate first": "first-drill",
	} {
		words := strings.Split(args, " ")
		got := try(t, append([]string{"__complete"}, words...)...)
		for _, word := range strings.Fields(want) {
			if got.code != verdict.ExitPass || !strings.Contains("\n"+got.stdout, "\n"+word) {
				t.Errorf("%s: no %q in\n%s", args, word, got.stdout)
			}
		}
	}
}

// misused runs a command with arguments that are refused: status 2, nothing on standard output, on standard error why, and no secret.
func misused(t *testing.T, dir, command string, says map[string]string) {
	t.Helper()
	for args, want := range says {
		got := tryIn(t, dir, strings.Fields(command+" "+args)...)
		if got.code != verdict.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "hunter2") {
			t.Errorf("lockdrill %s %s: %+v, want %q", command, args, got, want)
		}
	}
}

// A gate whose command came out empty must not go green.
func TestNoCommand(t *testing.T) {
	t.Parallel()
	got := try(t)
	if got.code != verdict.ExitUsage || got.stdout != "" || !strings.HasSuffix(got.stderr, "lockdrill: no command given\n") {
		t.Errorf("got %+v", got)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--help", "help", "help judge", "judge --help", "help exit-codes", "completion bash"} {
		if got := try(t, strings.Fields(args)...); got.code != verdict.ExitPass || got.stdout == "" || got.stderr != "" {
			t.Errorf("lockdrill %s: %+v", args, got)
		}
	}
	if got := try(t, "--help"); strings.Contains(got.stdout, "\n  worker") {
		t.Errorf("a worker command is shown to people:\n%s", got.stdout)
	}
}

// A worker's command stands beside the experiment file, wherever lockdrill is run; one that cannot be executed is known at once.
func TestWorkerCommandIsPlacedBesideTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "drill.yaml")
	yaml := edit(t, goodDrill, "  replicas: 2\n", "  replicas: 2\n  worker: [./their-worker, --fast]\n")
	write(t, file, []byte(yaml))
	got := tryIn(t, t.TempDir(), "run", file)
	got.ends(t, verdict.ExitUsage, "system.worker")
	must(t, os.WriteFile(filepath.Join(dir, "their-worker"), []byte("#!/bin/sh\n"), 0o700))
	e, _, err := loadExperiment(file)
	if err != nil || e.System.Worker[0] != filepath.Join(dir, "their-worker") || e.System.Worker[1] != "--fast" {
		t.Errorf("worker %v, %v", e, err)
	}
}

// The rules that the documentation shows are rules.
func TestTheRulesInTheDocumentation(t *testing.T) {
	t.Parallel()
	page := read(t, "../../docs/faults.md")
	m := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/faults.md shows no rules")
	}
	path := filepath.Join(t.TempDir(), "rules.json")
	write(t, path, m[1])
	if rules, err := readRules(path); err != nil || len(rules.Commands) != 2 || len(rules.Scripts) < 3 {
		t.Errorf("%+v, %v", rules, err)
	}
}
