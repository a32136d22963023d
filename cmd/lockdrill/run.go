// Command lockdrill is a chaos game-day runner for lock SLOs: it kills holders of real locks, measures what happens and
// judges it.
//
// This package is the command line and nothing else: it parses, calls, prints, and turns what happened into an exit status.
// Results go to stdout and the story to stderr. Its one invariant: status 0 is returned only where a question was asked and
// answered with yes; whatever went wrong, was misspelt or left open has a status of its own (lockdrill help exit-codes).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/reports"
)

// run executes one command line and returns its exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	drill.Quiet()
	err := moved(args)
	if err == nil {
		out := &sink{to: stdout}
		err = newRootCmd(streams{In: stdin, Out: out, Err: stderr}, args).ExecuteContext(ctx)
		if failed := out.close(); failed != nil && err != nil { // the command's own end stands
			fmt.Fprintln(stderr, reports.Harmless(failed.Error()))
		} else if failed != nil {
			err = failed
		}
	}
	if err == nil {
		return verdict.ExitPass
	}
	end := exitOf(err)
	if end.err != nil {
		fmt.Fprintln(stderr, reports.Harmless(end.err.Error()+consenting(end.err, args)))
		annotate(stderr, end.err)
	}
	return end.code
}

func newRootCmd(io streams, args []string) *cobra.Command {
	if _, ok := io.Out.(*sink); !ok {
		io.Out = &sink{to: io.Out}
	}
	var versions *bool
	var format *output
	root := &cobra.Command{
		Use:   "lockdrill",
		Short: "Chaos game-days for lock SLOs",
		Long: "lockdrill kills the processes that hold locks, measures what happens, and judges it against the SLOs\n" +
			"of an experiment file. first-drill needs nothing but this binary. Your own service:\ndocs/your-service.md.",
		Example: "  lockdrill run first-drill\n  lockdrill list",
		Args:    knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if *versions {
				return printVersion(io, *format)
			}
			// Not a success: a gate whose command came out empty must not go green.
			cmd.SetOut(io.Err)
			return errors.Join(cmd.Help(), usagef("lockdrill: no command given"))
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Lookup("result-file") != nil {
				return nil // asked by the command itself: that file gets its word first
			}
			return namesNothing(cmd)
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(io.In)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	versions = root.Flags().BoolP("version", "v", false, "show the versions of the tool and of its formats")
	format = formFlags(root, io)
	for _, g := range []struct {
		title string
		of    []*cobra.Command
	}{
		{"Start:", []*cobra.Command{newListCmd(io), newInitCmd(io), newWatchCmd(io)}},
		{"Before a drill, touching nothing:", []*cobra.Command{newValidateCmd(io), newPlanCmd(io), newRehearseCmd(io), newTuneCmd(io)}},
		{"Run:", []*cobra.Command{newRunCmd(io), newRecoverCmd(io)}},
		{"Read:", []*cobra.Command{newJudgeCmd(io), newCompareCmd(io), newHistoryCmd(io), newExplainCmd(io)}},
		{"Integrate:", []*cobra.Command{newExportCmd(io), newServeCmd(io)}},
		{"More:", []*cobra.Command{newSelftestCmd(io)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.of {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	for _, cmd := range []*cobra.Command{newProxyCmd(io), newWorkerCmd(io), newWatchdogCmd(io)} {
		cmd.Hidden = true
		root.AddCommand(cmd)
	}
	root.AddCommand(newExitCodesTopic())
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		width, _ := terminal(cmd.OutOrStdout())
		fmt.Fprint(cmd.OutOrStdout(), helpOf(cmd, max(40, min(width, mostColumns))))
	})
	root.SetHelpCommand(newHelpCmd())
	root.SetHelpCommandGroupID("More:")
	root.SetCompletionCommandGroupID("More:")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args = cobra.ArbitraryArgs
		completion.RunE = func(cmd *cobra.Command, args []string) error {
			return usagef("lockdrill completion: which shell? There are %s", strings.Join(commandNames(cmd), ", "))
		}
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagProblem(cmd, args, err) })
	markUsage(root)
	return root
}

// markUsage makes every refusal of arguments, cobra's own included, a usage error in one line.
func markUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil || errors.As(err, new(*exitError)) {
				return err
			}
			if strings.Contains(err.Error(), "arg(s)") { // cobra's words for a wrong number of them
				return usagef("%s: %s given, usage: %s; see %s --help", c.CommandPath(), argumentCount(len(args)), c.UseLine(), c.CommandPath())
			}
			if strings.HasPrefix(err.Error(), "unknown command") { // cobra's word for an argument where none is taken
				return usagef("%s: takes no argument, and %q is one; see %s --help", c.CommandPath(), args[0], c.CommandPath())
			}
			return usagef("%s: %w; see %s --help", c.CommandPath(), err, c.CommandPath())
		}
	}
	for _, sub := range cmd.Commands() {
		markUsage(sub)
	}
}

// namesNothing refuses a flag with an empty value: a variable that came out empty would silently leave out what somebody wanted, a plan's
// approval or a server's tokens among it. It refuses as well a file of -o that cannot be written.
func namesNothing(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == "" || f.Value.String() == "[]"
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = empty || slices.Contains(list.GetSlice(), "")
		}
		if err == nil && empty {
			err = usagef("--%s '': give a value, or leave --%s out", f.Name, f.Name)
		}
		if err == nil && f.Name == "output" {
			if failed := canWrite(f.Value.String()); failed != nil { // before hours are spent
				err = usagef("%s: %w", f.Value, failed)
			}
		}
	})
	return err
}

func argumentCount(n int) string {
	switch n {
	case 0:
		return "no argument"
	case 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// knownCommand refuses the first word of a command line that is no command.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("lockdrill: unknown command %q%s; see lockdrill --help", args[0], didYouMean(args[0], commandNames(root)))
}

func commandNames(root *cobra.Command) []string {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// flagProblem words a flag that could not be parsed. Where the command itself was not known, that is the better message:
// cobra looks at the flags first and would blame them on the root.
func flagProblem(cmd *cobra.Command, args []string, err error) error {
	if !cmd.HasParent() {
		for _, arg := range args {
			if !strings.HasPrefix(arg, "-") {
				return knownCommand(cmd, []string{arg})
			}
		}
	}
	if at := slices.Index(args, cmd.Name()); cmd.Name() == "export" && at+1 < len(args) && !strings.HasPrefix(args[at+1], "-") {
		return cmd.RunE(cmd, args[at+1:])
	}
	var hint string
	if _, name, ok := strings.Cut(err.Error(), "unknown flag: --"); ok {
		hint = didYouMean("--"+name, flagNames(cmd))
	}
	text := err.Error()
	if num := new(strconv.NumError); errors.As(err, &num) {
		text = strings.Replace(text, num.Error(), wantedNumber(num), 1)
	}
	text = durationError.ReplaceAllString(text, "want a duration such as 30s or 1m30s")
	return usagef("%s: %s%s; see %s --help", cmd.CommandPath(), text, hint, cmd.CommandPath())
}

// durationError is what package time says of text that is no duration.
var durationError = regexp.MustCompile(`time: (invalid|missing unit in|unknown unit "[^"]*" in) duration "[^"]*"`)

// wantedNumber says what a number should have been, in words that are not Go's.
func wantedNumber(e *strconv.NumError) string {
	switch {
	case errors.Is(e, strconv.ErrRange):
		return "the number is too large"
	case e.Func == "ParseFloat":
		return "want a number such as 0.05"
	}
	return "want a whole number"
}

// newHelpCmd replaces cobra's own, which answers an unknown topic with status 0.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND|TOPIC]",
		Short:   "Show the help of a command or a topic",
		Example: "  lockdrill help run\n  lockdrill help exit-codes",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				word := append(rest, "")[0]
				return usagef("lockdrill help: unknown topic %q%s", word, didYouMean(word, commandNames(root)))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// didYouMean is `, did you mean "x"?` for a known word near to a mistyped one, or "" where none is near.
func didYouMean(word string, known []string) string {
	if near := experiments.Nearest(word, known); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return ""
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return names
}
