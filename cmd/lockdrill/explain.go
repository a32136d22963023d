package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
)

// wordDoc is the document of `explain WORD -o json`.
type wordDoc struct {
	SchemaVersion int    `json:"schemaVersion"`
	Word          string `json:"word"`
	Kind          string `json:"kind"`
	Meaning       string `json:"meaning"`
}

func newExplainCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain WORD",
		Short: "What a word, a profile or a sum means",
		Long: "explain WORD says what a word of lockdrill means: a measure, a lint, a policy's value.\n" +
			"Words: " + strings.Join(wordNames(), ", "),
		Args: cobra.MaximumNArgs(1),
	}
	format := outputFlag(cmd.Flags())
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("lockdrill explain: which word? There are %s; and explain profile, explain sums", strings.Join(wordNames(), ", "))
		}
		w, ok := wordOf(args[0])
		if !ok {
			if slices.Contains(experiments.ProfileNames(), args[0]) {
				return usagef("lockdrill explain: %s is a profile: lockdrill explain profile %s", args[0], args[0])
			}
			return usagef("lockdrill explain: unknown word %q%s; see lockdrill explain --help", args[0], didYouMean(args[0], wordNames()))
		}
		if *format == outputJSON {
			return writeJSON(io.Out, wordDoc{1, w.name, w.kind, w.meaning})
		}
		_, err := fmt.Fprintf(io.Out, "%s (%s): %s\n", w.name, w.kind, w.meaning)
		return err
	}
	cmd.AddCommand(newExplainProfileCmd(io), newExplainSumsCmd(io))
	return cmd
}

// profileDoc is the document of `explain profile -o json`; durations of the policy are ns.
type profileDoc struct {
	SchemaVersion int             `json:"schemaVersion"`
	Profile       string          `json:"profile"`
	Key           string          `json:"key,omitempty"`
	KeyPrefix     string          `json:"keyPrefix,omitempty"`
	Policy        lockcore.Policy `json:"policy"`
	Words         []string        `json:"words"`
	Beyond        []string        `json:"beyond,omitempty"` // what of the real lock the policy cannot say
}

func newExplainProfileCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile NAME",
		Short: "What a shipped profile resolves to, as YAML and in words",
		Long:  "Shipped profiles: " + strings.Join(experiments.ProfileNames(), ", "),
		Args:  cobra.ExactArgs(1),
	}
	format := outputFlag(cmd.Flags())
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		l, err := experiments.Profile(args[0])
		if err != nil {
			return usagef("lockdrill explain profile: %w", err)
		}
		beyond, err := experiments.Beyond(args[0])
		if err != nil {
			return err
		}
		if *format == outputJSON {
			return writeJSON(io.Out, profileDoc{1, l.Profile, l.Key, l.KeyPrefix, l.Policy, l.Policy.Describe(), beyond})
		}
		l.Name = shortName(args[0])
		text, err := experiments.MarshalLock(l)
		if err != nil {
			return err
		}
		fmt.Fprintf(io.Out, "# %s\n", args[0])
		for _, line := range l.Policy.Describe() {
			fmt.Fprintf(io.Out, "# %s\n", line)
		}
		for _, line := range beyond {
			fmt.Fprintf(io.Out, "# Not in these words: %s\n", line)
		}
		_, err = fmt.Fprintf(io.Out, "%s", text)
		return err
	}
	return cmd
}

// shortName is a profile's name without its family.
func shortName(profile string) string { return profile[strings.LastIndex(profile, "/")+1:] }
