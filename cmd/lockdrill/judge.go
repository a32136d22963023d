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
		Short: "Judge a stored run again",
		Long: "judge reads experiment.yaml and history.jsonl of a run's folder and writes verdict.json and the reports anew, byte for\n" +
			"byte the same for the same two files. Where they are refused, the verdict of an earlier judgement is renamed: none is left that\n" +
			"could be taken for theirs. DIR is a folder, or the name of one in runs/ (such as latest).",
		Args: cobra.ExactArgs(1),
	}
	format := outputFlag(cmd.Flags())
	var result resultFile
	result.flag(cmd.Flags())
	var onInconclusive inconclusiveAs
	onInconclusive.flag(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := onInconclusive.check(); err != nil {
			return err
		}
		if err := errors.Join(namesNothing(cmd), result.claim()); err != nil {
			return err
		}
		dir := runFolder(args[0])
		r, err := judgeDir(io.Err, dir)
		if err != nil {
			result.write(io.Err, codeOf(err))
			return err
		}
		result.write(io.Err, r.Judgement.ExitCode)
		if err := printJudgement(io, *format, dir, r); err != nil {
			return err
		}
		return status(onInconclusive.code(io.Err, r.Judgement.ExitCode))
	}
	return cmd
}

// runFolder resolves the name of a run: a path as it stands, else a folder in runs/.
func runFolder(name string) string {
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

// printJudgement says the verdict on stdout: the summary, or verdict.json itself.
func printJudgement(io streams, form output, dir string, r reports.Run) error {
	if form == outputJSON {
		return writeVerdict(io.Out, r)
	}
	return reports.Terminal(io.Out, r.Judgement, placed(lookOf(io.Out), fromHere(dir), r))
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
