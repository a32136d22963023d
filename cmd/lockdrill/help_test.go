package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
