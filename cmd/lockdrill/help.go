package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/experiments"
)

// newHelpCmd replaces cobra's own, which answers an unknown topic with status 0.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Help about a command or a topic",
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
