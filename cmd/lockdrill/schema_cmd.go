package main

import (
	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/experiments"
)

func newSchemaCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "The JSON Schema of experiment files, for editors",
		Long: "schema prints the JSON Schema (draft 2020-12) of the experiment files that this binary reads. Editors complete and check by it, and\n" +
			"show what each field is for. Put it beside your experiments, and begin each of them with the line\n\n  " + experiments.Modeline,
		Example: "  lockdrill schema --write " + experiments.SchemaFile,
		Args:    cobra.NoArgs,
	}
	write := cmd.Flags().String("write", "", "write it to this file, whatever is there, and not to stdout")
	cmd.RunE = func(*cobra.Command, []string) error {
		data, err := experiments.Schema()
		if err != nil {
			return err
		}
		if *write != "" {
			return writeAtomically(*write, data)
		}
		_, err = io.Out.Write(data)
		return err
	}
	return cmd
}
