package main

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/scenarios"
)

func testRoot() *cobra.Command {
	return newRootCmd(streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, nil)
}

// examplesOf are the lines of a command's examples, as the words that a shell would pass.
func examplesOf(cmd *cobra.Command) (lines [][]string) {
	for line := range strings.Lines(cmd.Example) {
		var words []string
		for _, word := range regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`).FindAllString(line, -1) {
			words = append(words, strings.Trim(word, `"'`))
		}
		lines = append(lines, words)
	}
	return lines
}

// walkCommands visits what people are shown; cobra's own completion command has its examples in its long text.
func walkCommands(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Hidden || cmd.Name() == "completion" || !cmd.Runnable() && !cmd.HasSubCommands() {
		return
	}
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walkCommands(sub, visit)
	}
}

func TestHelpOfEveryCommandHasExamplesThatParse(t *testing.T) {
	t.Parallel()
	walkCommands(testRoot(), func(cmd *cobra.Command) {
		lines := examplesOf(cmd)
		if len(lines) < 1 || len(lines) > 4 || cmd.Short == "" {
			t.Errorf("%s: %d examples, want 1 to 3; short text %q", cmd.CommandPath(), len(lines), cmd.Short)
		}
		own := cmd.HasSubCommands()
		for _, words := range lines {
			own = checkExample(t, words) == cmd.CommandPath() || own
		}
		if !own {
			t.Errorf("%s: no example is of the command itself: %q", cmd.CommandPath(), cmd.Example)
		}
	})
}

// checkExample holds one line against the command tree, its flags and the shipped scenarios, and returns the command it is of.
func checkExample(t *testing.T, words []string) (path string) {
	t.Helper()
	cmd, rest, err := testRoot().Find(words[1:])
	if err != nil || words[0] != "lockdrill" {
		t.Errorf("%q: no such command: %v", words, err)
		return ""
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", words, err)
		return ""
	}
	args := cmd.Flags().Args()
	if n := cmd.ArgsLenAtDash(); n > 0 { // behind it stands a command of the user's
		args = args[:n]
	}
	if err := cmd.ValidateArgs(args); err != nil {
		t.Errorf("%q: %v", words, err)
	}
	if strings.Contains(cmd.Use, "FILE|NAME") {
		for _, name := range args {
			_, shipped := scenarios.Get(name)
			if !shipped && cmd.Name() == "run" {
				_, shipped = scenarios.GameDay(name)
			}
			if !shipped && !(cmd.Name() == "ci" && name == args[0]) {
				t.Errorf("%q: no shipped scenario %q", words, name)
			}
		}
	}
	return cmd.CommandPath()
}

// What neither takes long nor needs a server or an earlier run is executed as it stands.
func TestExamplesOfHelpWork(t *testing.T) {
	t.Parallel()
	quick := []string{"validate", "list", "explain", "export", "help", "init"}
	seen := 0
	walkCommands(testRoot(), func(cmd *cobra.Command) {
		for _, words := range examplesOf(cmd) {
			if len(words) < 2 || !slices.Contains(quick, words[1]) {
				continue
			}
			seen++
			if got := tryIn(t, t.TempDir(), words[1:]...); got.code != verdict.ExitPass {
				t.Errorf("%q: %+v", words, got)
			}
		}
	})
	if seen < 20 {
		t.Errorf("only %d examples were executed", seen)
	}
}
