package main

import "github.com/spf13/cobra"

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
