package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/reports"
)

func newReportCmd(io streams) *cobra.Command {
	var name, out, baseline string
	var allow []string
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Make a report of a stored run",
		Args:  cobra.ExactArgs(1),
	}
	var long strings.Builder
	long.WriteString("report reads experiment.yaml and history.jsonl of a run's folder, judges them as judge does, and writes one report. It changes\nnothing in the folder. Exit status 0: the report was written, whatever the verdict says; a gate asks judge.\n\nFormats:\n")
	for _, f := range formats() {
		fmt.Fprintf(&long, "  %-14s %s\n", f.name, f.what)
	}
	cmd.Long = strings.TrimRight(long.String(), "\n")
	cmd.Flags().StringVarP(&name, "format", "f", "text", "what to write: "+strings.Join(formatNames(), ", "))
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write (default standard output)")
	cmd.Flags().StringVar(&baseline, "baseline", "", "html: hold the run beside these, as BASE of compare")
	cmd.Flags().StringSliceVar(&allow, "allow-different", nil, "html: settings in which those may differ, as of compare")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		all := formats()
		at := slices.IndexFunc(all, func(f format) bool { return f.name == name })
		if at < 0 {
			return usagef("lockdrill report: unknown format %q%s; formats are %s", name, didYouMean(name, formatNames()), strings.Join(formatNames(), ", "))
		}
		dir := runFolder(args[0])
		r, err := readRun(io.Err, dir, judgesAnew)
		if err != nil {
			return err
		}
		if r.Baseline, err = besideBaseline(io.Err, name, baseline, allow, dir); err != nil {
			return err
		}
		if out == "" {
			return all[at].write(io.Out, r, placed(lookOf(io.Out), fromHere(dir), r))
		}
		var b bytes.Buffer
		if err := all[at].write(&b, r, placed(reports.Options{}, fromHere(dir), r)); err != nil {
			return err
		}
		if err := writeAtomically(out, b.Bytes()); err != nil {
			return usagef("%w", err)
		}
		return nil
	}
	return cmd
}
