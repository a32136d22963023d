package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	for name, data := range map[string]string{"good.yaml": string(good), "bad.yaml": bad} {
		write(t, filepath.Join(dir, name), []byte(data))
	}

	got := tryIn(t, dir, "validate", "good.yaml", "first-drill")
	if got.code != verdict.ExitPass || !strings.HasPrefix(got.stdout, "good.yaml: ok: first-drill: ") || strings.Count(got.stdout, "\n") != 2 {
		t.Errorf("good files: %+v", got)
	}
	got = tryIn(t, dir, "validate", "bad.yaml", "good.yaml")
	if got.code != verdict.ExitUsage || !strings.HasPrefix(got.stderr, "bad.yaml:6:") || !strings.HasPrefix(got.stdout, "good.yaml: ok") {
		t.Errorf("a bad file before a good one: %+v", got)
	}

	var doc validateDoc
	got = tryIn(t, dir, "validate", "-f", "json", "good.yaml", "bad.yaml", "absent.yaml")
	decode(t, got.stdout, &doc)
	if got.code != verdict.ExitUsage || len(doc.Files) != 3 || !doc.Files[0].OK || doc.Files[1].OK || doc.Files[1].Problems[0].Line != 6 ||
		doc.Files[2].Problems[0].Message == "" {
		t.Errorf("document: %+v of %+v", doc, got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
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

// A flag that would change nothing, and a word that names nothing, are refused before anything is done.
func TestWhatWouldDoNothingIsRefused(t *testing.T) {
	t.Parallel()
	misused(t, t.TempDir(), "", map[string]string{
		"run first-drill --job nightly":                    "--job goes with --pushgateway",
		"run first-drill --pushgateway banana":             "--pushgateway banana: want the URL of a Pushgateway",
		"run first-drill --pushgateway ftp://push:9091":    "--pushgateway ftp://push:9091: want",
		"rehearse first-drill --replay 3 --seeds 5":        "--seeds and --fail-above do not go with it",
		"rehearse first-drill --replay 3 --fail-above 0.1": "--seeds and --fail-above do not go with it",
		"rehearse first-drill --sweep rate=5/s..1/s":       "--sweep: rate=5/s..1/s: the second value must be above the first",
		"selftest --time-scale 0.5":                        "--time-scale goes with --live",
		"completion":                                       "which shell? There are bash, fish, powershell, zsh",
		"completion bsh":                                   "which shell? There are bash, fish, powershell, zsh",
		"list first-drill":                                 `lockdrill list: takes no argument, and "first-drill" is one`,
	})
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

// What has another name now answers with the command line to type, which parses, and touches nothing.
func TestWhatHasGoneNamesItsSuccessor(t *testing.T) {
	t.Parallel()
	for was, now := range map[string]string{
		"version":                                    "--version",
		"version -o json":                            "--version -f json",
		"schema --write x.json":                      "validate --schema -o x.json",
		"schema gameday":                             "validate --schema=gameday",
		"report latest -f csv -o x.csv":              "judge latest -f csv -o x.csv",
		"report latest -f text":                      "judge latest -f text --verbose",
		"report latest -f html --baseline runs-1.3":  "judge latest -f html --against runs-1.3",
		"sweep first-drill --rate 5/s..500/s":        "rehearse --sweep rate=5/s..500/s first-drill",
		"sweep x.yaml --live --hold=1s..2s --page p": "run --sweep hold=1s..2s x.yaml -f html -o p",
		"gameday first-gameday --out day":            "run first-gameday --out day",
		"gameday note day pager":                     "judge day",
		"judge --pool runs --label release=1.4":      "history --pool runs --label release=1.4",
		"judge latest -o json":                       "judge latest -f json",
		"list --output=json":                         "list -f=json",
		"compare a b -omd":                           "compare a b -f=md",
		"export prometheus-rules --metrics cordum":   "export alerts --recording --metrics cordum",
		"export grafana-dashboard":                   "export dashboard",
		"export metrics-mapping":                     "export mapping",
		"explain locks first-drill":                  "plan --verbose first-drill",
		"explain sums --profile x --work-p99 2s":     "tune --profile x --p99 2s",
	} {
		got := tryIn(t, t.TempDir(), strings.Fields(was)...)
		if got.code != verdict.ExitUsage || got.stdout != "" || !strings.HasSuffix(got.stderr, ": lockdrill "+now+"\n") {
			t.Errorf("%s: %+v\nwant %s", was, got, now)
		}
		words := strings.Fields("lockdrill " + now)
		if words[1] != "--version" {
			cmd, rest, err := testRoot().Find(words[1:])
			if err != nil || cmd.ParseFlags(rest) != nil {
				t.Errorf("%s does not parse: %v", now, err)
			}
		}
	}
	for _, still := range [][]string{{"list", "-f", "json"}, {"--version", "-f", "json"}, {"explain", "takeover"}, {"export", "alerts"}} {
		if err := moved(still); err != nil {
			t.Errorf("%q: %v", still, err)
		}
	}
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

// Misuse is status 2, nothing on stdout, and one line on stderr that begins with its place and ends with what to do.
func TestMisuse(t *testing.T) {
	t.Parallel()
	var shipped []string
	for _, s := range scenarios.List() {
		shipped = append(shipped, s.Name)
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"vlidate x.yaml", `lockdrill: unknown command "vlidate", did you mean "validate"?; see lockdrill --help`},
		{"vlidate --seeds 3", `lockdrill: unknown command "vlidate", did you mean "validate"?; see lockdrill --help`},
		{"frobnicate", `lockdrill: unknown command "frobnicate"; see lockdrill --help`},
		{"--frobnicate", `lockdrill: unknown flag: --frobnicate; see lockdrill --help`},
		{"judge", `lockdrill judge: no argument given, usage: lockdrill judge DIR [flags]; see lockdrill judge --help`},
		{"judge a b", `lockdrill judge: 2 arguments given, usage: lockdrill judge DIR [flags]; see lockdrill judge --help`},
		{"judge --ouput x.json a", `lockdrill judge: unknown flag: --ouput, did you mean "--output"?; see lockdrill judge --help`},
		{"run first-drill --seed abc", `lockdrill run: invalid argument "abc" for "--seed" flag: want a whole number; see lockdrill run --help`},
		{"rehearse first-drill --fail-above much", `lockdrill rehearse: invalid argument "much" for "--fail-above" flag: want a number such as 0.05; see lockdrill rehearse --help`},
		{"list -f xml", `lockdrill list: invalid argument "xml" for "-f, --format" flag: must be text, json; see lockdrill list --help`},
		{"list -o no/such/x", `no/such/x: write: no such file or directory`},
		{"validate", `lockdrill validate: no argument given, usage: lockdrill validate FILE|NAME... [flags]; see lockdrill validate --help`},
		{"validate frist-drill", `frist-drill: no such scenario, did you mean "first-drill"? A file is named with its .yaml or a path; lockdrill list shows the scenarios`},
		{"validate nothing-like-it", `nothing-like-it: no such scenario (shipped: ` + strings.Join(shipped, ", ") + `; a file is named with its .yaml or a path)`},
		{"plan .", `.: this is a folder; name an experiment file in it, such as NAME.lockdrill.yaml`},
		{"plan ..", `..: this is a folder; name an experiment file in it, such as ../NAME.lockdrill.yaml`},
		{"plan ./.", `./.: this is a folder; name an experiment file in it, such as NAME.lockdrill.yaml`},
		{"validate .", `.: this folder has no experiment file; one is YAML with kind: Experiment`},
		{"validate not-there.yaml", `not-there.yaml: read: no such file or directory`},
		{"list all", `lockdrill list: takes no argument, and "all" is one; see lockdrill list --help`},
		{"help exit-code", `lockdrill help: unknown topic "exit-code", did you mean "exit-codes"?`},
		{"run", `lockdrill run: no argument given, usage: lockdrill run FILE|NAME|DIR... [-- WORKER ARGUMENT...] [flags]; see lockdrill run --help`},
		{"judge not-there", `not-there: no such folder; runs are folders such as runs/latest`},
	} {
		t.Run(c.args, func(t *testing.T) {
			got := try(t, strings.Fields(c.args)...)
			if want := (result{verdict.ExitUsage, "", c.want + "\n"}); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
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

// A time scale that this machine can never keep is refused by validate already, and not when the drill has begun.
func TestATimeScaleThatTheMachineCannotKeepIsRefusedByValidate(t *testing.T) {
	t.Parallel()
	file := edit(t, goodDrill, "steady_state:", "time_scale: 0.03\nsteady_state:", "stop_budget: ", "stop_budget: 300us #")
	path := filepath.Join(t.TempDir(), "tiny.yaml")
	write(t, path, []byte(file))
	got := try(t, "validate", path)
	if got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "this machine is too slow: time_scale 0.03 makes the ") {
		t.Errorf("status %d: %s%s", got.code, got.stdout, got.stderr)
	}
}
