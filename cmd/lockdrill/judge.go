package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/experiments/drill"
	"github.com/lockdrill/lockdrill/reports"
)

// Files of a run's folder.
const (
	experimentFile = drill.ExperimentFile
	historyFile    = drill.HistoryFile
	verdictFile    = "verdict.json"
	runsFolder     = drill.RunsFolder
)

func newJudgeCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge DIR",
		Short: "Judge a stored run again, or many together",
		Long: "judge reads experiment.yaml and history.jsonl in the folder of a run. It writes verdict.json and the reports anew, byte for byte\n" +
			"the same for the same two files. If it refuses the files, it renames the verdict of an earlier judgement, so that nobody takes\n" +
			"that verdict for theirs. DIR is a folder, or the name of one in runs/ (such as latest).\n\n" +
			"With --pool, DIR is a folder of runs, or several of them. Percentiles of takeover and tick gap are judged over all runs together,\n" +
			"and nothing is written. A p95 needs some 72 kills that keep it; one night rarely gives so many. A row passes only if it was\n" +
			"settled before the runs which of them belong together: by their label, or by a start that history --start wrote down.",
		Example: "  lockdrill judge latest\n  lockdrill judge --pool runs --label release=1.4",
		Args:    cobra.MinimumNArgs(1),
	}
	format := outputFlag(cmd.Flags())
	var verbose bool
	verboseFlag(cmd.Flags(), &verbose)
	var result resultFile
	result.flag(cmd.Flags())
	var onInconclusive inconclusiveAs
	onInconclusive.flag(cmd.Flags())
	var of selection
	pool := cmd.Flags().Bool("pool", false, "judge the runs in DIR... together")
	of.flags(cmd.Flags())
	cmd.Flags().StringVar(&of.start, "since", "", "--pool: only runs since the start that history --start NAME wrote down")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := onInconclusive.check(); err != nil {
			return err
		}
		if err := errors.Join(namesNothing(cmd), result.claim()); err != nil {
			return err
		}
		if *pool {
			return judgePool(io, args, of, *format == outputJSON, &result, onInconclusive)
		}
		if len(args) > 1 || of.start != "" || of.experiment != "" || len(of.labels.Labels) > 0 {
			err := usagef("lockdrill judge: several folders, --label, --experiment and --since go with --pool; see lockdrill judge --help")
			result.write(io.Err, codeOf(err))
			return err
		}
		dir := runFolder(args[0])
		r, err := judgeDir(io.Err, dir)
		if err != nil {
			result.write(io.Err, codeOf(err))
			return err
		}
		result.write(io.Err, r.Judgement.ExitCode)
		if err := printJudgement(io, *format, verbose, dir, r); err != nil {
			return err
		}
		return status(onInconclusive.code(io.Err, r.Judgement.ExitCode))
	}
	return cmd
}

// runFolder resolves the name of a run: a path as it stands, else a folder in runs/.
func runFolder(name string) string {
	if name == "" {
		return "" // and not the folder that this process is in, as Clean has it
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) && filepath.Base(name) == name {
		if inRuns := filepath.Join(runsFolder, name); isDir(inRuns) {
			return inRuns
		}
	}
	return filepath.Clean(name)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// judgeGC keeps the memory of a long history near what is in use: nearly all that is read of it stays in use until it is judged.
const judgeGC = 40

// judgeDir judges what a run's folder holds and writes verdict.json into it, and the reports that are made of it.
// Files that are missing, damaged or not of one run are usage errors: nothing is written, and what an earlier judgement left is set aside.
func judgeDir(stderr io.Writer, dir string) (reports.Run, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(judgeGC))
	r, err := readRun(stderr, dir, "it is replaced")
	if err != nil {
		setAside(stderr, dir)
		return r, err
	}
	doc, err := r.Judgement.Marshal()
	if err != nil {
		return r, fmt.Errorf("%s: encode verdict: %w", dir, err)
	}
	dropUnfinished(dir)
	if err := writeAtomically(filepath.Join(dir, verdictFile), doc); err != nil {
		setAside(stderr, dir)
		return r, fmt.Errorf("%w; the verdict is not written: once it can be, lockdrill judge %s; to see it now, lockdrill report %[2]s", err, fromHere(dir))
	}
	defer sayEvery(stderr, func() string { return "writing the reports of " + fromHere(dir) })()
	writeReports(stderr, dir, r)
	return r, nil
}

// printJudgement says the verdict on stdout: the summary, or verdict.json itself. Nobody need read it: the verdict stands.
func printJudgement(io streams, form output, verbose bool, dir string, r reports.Run) error {
	if form == outputJSON {
		return unlessUnread(writeVerdict(io.Out, r))
	}
	look := placed(lookOf(io.Out), fromHere(dir), r)
	look.Verbose = verbose
	return unlessUnread(reports.Terminal(io.Out, r.Judgement, look))
}

// fromHere is a path as one would type it in the working directory: relative where it lies below it.
func fromHere(path string) string {
	here, err := os.Getwd()
	if err != nil || !filepath.IsAbs(path) {
		return path
	}
	if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
