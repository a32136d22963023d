package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

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
