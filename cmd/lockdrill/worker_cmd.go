package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/lockcore/worker"
)

// newWorkerCmd is the replica that the runner starts: the same binary, speaking the worker protocol on its standard streams.
func newWorkerCmd(io streams) *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Short:  "A replica on the lock core: the worker protocol over stdin and stdout (docs/worker-protocol.md)",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := worker.Run(cmd.Context(), io.In, io.Out); err != nil {
				return fmt.Errorf("lockdrill worker: %w", err)
			}
			return nil
		},
	}
}
