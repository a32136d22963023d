package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/drill"
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
	j := judgeCmd{format: outputText}
	cmd := &cobra.Command{
		Use:     "judge DIR",
		Short:   "Judge a stored run again, and report on it",
		Example: "  lockdrill judge latest\n  lockdrill judge latest -f postmortem-md -o postmortem.md\n  lockdrill judge runs/latest -f html -o release.html --against runs-1.3",
		Args:    cobra.ExactArgs(1),
	}
	var long strings.Builder
	long.WriteString("judge reads experiment.yaml and history.jsonl in the folder of a run. It writes verdict.json and the reports anew, byte for byte\n" +
		"the same for the same two files. If it refuses the files, it renames the verdict of an earlier judgement, so that nobody takes\n" +
		"that verdict for theirs. DIR is a folder, or the name of one in runs/ (such as latest). Of a game day it makes the report anew,\n" +
		"with what people have written into notes.md.\n\nExit status: that of the verdict.\n\nFormats:\n")
	var names []output
	for _, f := range formats() {
		fmt.Fprintf(&long, "  %-14s %s\n", f.name, f.what)
		names = append(names, output(f.name))
	}
	cmd.Long = strings.TrimRight(long.String(), "\n")
	flags := cmd.Flags()
	flags.VarP(formValue{&j.format, names}, "format", "f", "form of the result")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formatNames(), cobra.ShellCompDirectiveNoFileComp))
	fileFlag(cmd, io)
	verboseFlag(flags, &j.verbose)
	flags.StringVar(&j.against, "against", "", "html: hold the run beside these, as BASE of compare")
	flags.StringSliceVar(&j.allow, "allow-different", nil, "html: settings in which those may differ, as of compare")
	j.gated.flags(flags)
	j.upload.flags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return j.gated.run(cmd, io.Err, func() (int, error) { return j.run(io, runFolder(args[0])) })
	}
	return cmd
}

// judgeCmd is what was asked of judge.
type judgeCmd struct {
	gated
	format  output
	verbose bool
	against string
	allow   []string
	upload  uploadFlags
}

func (j *judgeCmd) run(io streams, dir string) (int, error) {
	if err := errors.Join(j.upload.check(), j.comparable(dir)); err != nil {
		return 0, err
	}
	if isGameDay(dir) {
		return judgeGameDay(io, dir, j.format)
	}
	baseline, err := j.beside(io.Err, dir) // before anything is written
	if err != nil {
		return 0, err
	}
	r, err := judgeDir(io.Err, dir)
	if err != nil {
		return 0, err
	}
	r.Baseline = baseline
	if err := j.upload.bring(io.Err, r.Judgement.Run.ID, dir); err != nil {
		fmt.Fprintf(io.Err, "lockdrill: --upload: %s; the verdict stands\n", reports.Harmless(err.Error()))
	}
	return r.Judgement.ExitCode, printJudgement(io, j.format, j.verbose, dir, r)
}

// beside compares the run with those that it is to be held against; nothing where there are none, or where the run itself cannot be read: judgeDir
// says why, and sets its former verdict aside.
func (j *judgeCmd) beside(w io.Writer, dir string) (*compare.Comparison, error) {
	if j.against == "" {
		return nil, nil
	}
	c, err := besideBaseline(w, j.against, j.allow, dir)
	if err != nil {
		if _, _, own := readFacts(io.Discard, dir); own != nil {
			return nil, nil
		}
	}
	return c, err
}

// comparable refuses a comparison that no form but the page shows.
func (j *judgeCmd) comparable(dir string) error {
	switch {
	case j.against == "" && j.allow != nil:
		return usagef("lockdrill judge: --allow-different goes with --against")
	case j.against != "" && j.format != outputHTML:
		return usagef("lockdrill judge: --against goes with -f html; lockdrill compare %s %s says the same in text, Markdown and JSON", j.against, fromHere(dir))
	}
	return nil
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
		return r, fmt.Errorf("%w; the verdict is not written: once it can be, lockdrill judge %s; to see it now, judge a copy of the folder", err, fromHere(dir))
	}
	defer sayEvery(stderr, func() string { return "writing the reports of " + fromHere(dir) })()
	writeReports(stderr, dir, r)
	return r, nil
}

// printJudgement says the verdict in one of its forms. Nobody need read it: the verdict stands.
func printJudgement(io streams, form output, verbose bool, dir string, r reports.Run) error {
	all := formats()
	at := slices.IndexFunc(all, func(f format) bool { return f.name == string(form) })
	look := placed(lookOf(io.Out), fromHere(dir), r)
	look.Verbose = verbose
	return unlessUnread(all[at].write(io.Out, r, look))
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
