package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newWorkerCheckCmd answers a command that is gone with the drill that does its work, as it is to be typed.
func newWorkerCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "worker-check -- COMMAND [ARGUMENT...]",
		Short:              "Gone: lockdrill run worker-check -- COMMAND checks a worker of yours",
		Hidden:             true,
		DisableFlagParsing: true, // whatever was typed, the answer is the same
		RunE: func(_ *cobra.Command, args []string) error {
			return usagef("lockdrill worker-check: a drill checks workers now; type: %s", checkedByADrill(args))
		},
	}
}

// checkedByADrill is the command line of the drill for whoever typed these arguments of worker-check.
func checkedByADrill(args []string) string {
	old := pflag.NewFlagSet("worker-check", pflag.ContinueOnError)
	old.SetOutput(io.Discard)
	old.SetInterspersed(false)
	old.ParseErrorsAllowlist.UnknownFlags = true
	var format string
	old.StringVarP(&format, "output", "o", "", "")
	for _, name := range []string{"ttl", "ready", "only"} { // the drill has no such flag
		old.String(name, "", "")
	}
	line := []string{"lockdrill", "run", "worker-check"}
	if err := old.Parse(args); err == nil && format == string(outputJSON) {
		line = append(line, "-o", format)
	}
	worker := old.Args()
	if len(worker) == 0 {
		worker = []string{"COMMAND"}
	}
	for i, word := range worker {
		worker[i] = shellWord(word)
	}
	return strings.Join(slices.Concat(line, []string{"--"}, worker), " ")
}

// shellWord writes a word so that a shell reads it as this one.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("%+,-./:=@_", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
