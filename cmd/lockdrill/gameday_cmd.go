package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	stdio "io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/drill"
	"github.com/lockdrill/lockdrill/internal/gameday"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/scenarios"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

type gameDayFlags struct {
	out, resume, who string
	fromSheet        bool
	consent          drill.Consent
}

func newGameDayCmd(io streams) *cobra.Command {
	var f gameDayFlags
	cmd := &cobra.Command{
		Use:   "gameday FILE|NAME",
		Short: "Lead people through several drills, and report on all of them",
		Long: "gameday runs the steps of a game day's sheet in their order: drills, and what people do by hand between them. Type enter when a\n" +
			"step is done, skip, stop, or a text: it is noted with your name. Every step is in a log before the next one begins, so a day\n" +
			"that was interrupted goes on with --resume. At its end the folder has one page, one text and one JSON file of all drills, with\n" +
			"the skeleton of a post-mortem. docs/gameday.md has the format; first-gameday is a sheet that needs nothing but this binary.\n\n" +
			"Exit status: the worst of the drills; 11 at best where a step was left out; 12 when interrupted.",
		Example: "  lockdrill gameday first-gameday\n  lockdrill gameday --from-sheet five-loops-of-a-sheet --out gamedays/loops\n  lockdrill gameday first-gameday --resume gamedays/20260302T100000Z-first-gameday",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.lead(cmd.Context(), io, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "folder of the game day (default gamedays/<UTC time>-<name>)")
	flags.StringVar(&f.resume, "resume", "", "folder of an interrupted game day: what is done is not repeated")
	flags.BoolVar(&f.fromSheet, "from-sheet", false, "the file is an experiment that kills the holder of each loop of its policy sheet: make a game day of it")
	flags.StringVar(&f.who, "who", "", "who leads, as the log has it (default: your user name)")
	consentFlags(flags, &f.consent)
	cmd.AddCommand(newGameDayNoteCmd(io))
	return cmd
}

// newGameDayNoteCmd adds an observation to a day that is over.
func newGameDayNoteCmd(io streams) *cobra.Command {
	var who string
	cmd := &cobra.Command{
		Use:     "note DIR TEXT",
		Short:   "Add an observation to a game day that is over, and make its report anew",
		Example: "  lockdrill gameday note gamedays/loops \"the pager was silent\"",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := os.ReadFile(filepath.Join(args[0], gameday.SheetFile))
			if err != nil {
				return usagef("%s: no folder of a game day: %w", args[0], reason(err))
			}
			sheet, err := experiments.ParseGameDay(filepath.Join(args[0], gameday.SheetFile), text)
			if err != nil {
				return usagef("%w", err)
			}
			d, err := gameday.Open(gameday.Options{Sheet: sheet, Text: text, Dir: args[0], Who: whoIs(who), Resume: true})
			if err != nil {
				return openError(err)
			}
			defer d.Close()
			if err := d.Note(args[1]); err != nil {
				return err
			}
			_, err = writeGameDay(d, args[0])
			return err
		},
	}
	cmd.Flags().StringVar(&who, "who", "", "who has seen it (default: your user name)")
	return cmd
}

func whoIs(name string) string {
	if name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

func openError(err error) error {
	switch {
	case errors.Is(err, gameday.ErrBusy):
		return &exitError{code: verdict.ExitRefused, err: fmt.Errorf("refused: %w", err)}
	case errors.Is(err, gameday.ErrUsage), errors.Is(err, os.ErrExist), errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist):
		return usagef("%w", err)
	}
	return err
}

// sheetOf reads the sheet, or makes that of an experiment.
func (f *gameDayFlags) sheetOf(arg string) (*experiments.GameDay, []byte, error) {
	if f.fromSheet {
		e, data, err := loadExperiment(arg)
		if err != nil {
			return nil, nil, err
		}
		if !experiments.KillsEachLoop(data) {
			return nil, nil, usagef("%s: --from-sheet wants an experiment with faults: {from: policy_sheet, each: once}; see lockdrill run five-loops-of-a-sheet", arg)
		}
		place := arg
		if isFile(arg) {
			place = absolute(arg)
		}
		text := fmt.Appendf(nil, "apiVersion: lockdrill/v1\nkind: GameDay\nname: %s\nhypothesis: Each loop of the sheet is taken over within its published window.\nowner: not named\nstop_criterion: A fault is left behind.\nsteps:\n  - {name: every-loop, drill: %q}\n", e.Name, place)
		sheet, err := experiments.ParseGameDay(arg, text)
		return sheet, text, err
	}
	text, ok := scenarios.GameDay(arg)
	if !ok {
		var err error
		if text, err = os.ReadFile(arg); err != nil {
			return nil, nil, usagef("%s: read: %w (shipped game days: %s)", arg, reason(err), strings.Join(scenarios.GameDays(), ", "))
		}
	}
	sheet, err := experiments.ParseGameDay(arg, text)
	if err != nil {
		return nil, nil, usagef("%w", err)
	}
	for i := range sheet.Steps {
		if d := &sheet.Steps[i].Drill; *d != "" && (filepath.Base(*d) != *d || filepath.Ext(*d) != "") && !filepath.IsAbs(*d) {
			*d = filepath.Join(filepath.Dir(arg), *d)
		}
	}
	return sheet, text, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (f *gameDayFlags) lead(ctx context.Context, io streams, arg string) error {
	if f.out != "" && f.resume != "" {
		return usagef("--out names a new folder, --resume one that is there: give one of the two")
	}
	sheet, text, err := f.sheetOf(arg)
	if err != nil {
		return err
	}
	in, isFile := io.In.(*os.File)
	atTerminal := isFile && term.IsTerminal(int(in.Fd()))
	if step := gameday.NeedsPeople(sheet); step != "" && !atTerminal {
		return usagef("%s: step %s is done by people, and there is no terminal: run it on one, or give the step optional: true", arg, step)
	}
	var drills []byte
	for _, s := range sheet.Steps { // every guard before the first drill
		if s.Drill == "" {
			continue
		}
		e, data, err := loadExperiment(s.Drill)
		drills = append(drills, experiments.Digest(data)...)
		if err == nil {
			err = drill.Authorize(ctx, e, f.consent)
		}
		if err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own binary: %w", err)
	}
	dir := f.resume
	if dir == "" {
		dir = f.out
	}
	if dir == "" {
		dir = filepath.Join("gamedays", time.Now().UTC().Format("20060102T150405Z")+"-"+sheet.Name)
	}
	o := gameday.Options{
		Sheet: sheet, Text: text, Drills: experiments.Digest(drills), Dir: dir, Who: whoIs(f.who), Tool: "lockdrill " + version(), Terminal: atTerminal, Resume: f.resume != "",
		Say: func(format string, args ...any) { fmt.Fprintln(io.Err, reports.Harmless(fmt.Sprintf(format, args...))) },
		Run: func(ctx context.Context, drill, dir string) (int, error) {
			return child(ctx, io, self, append([]string{"run", drill, "--out", dir}, f.passedOn()...))
		},
		Recover: func(ctx context.Context, dir string) (int, error) {
			return child(ctx, io, self, append([]string{"recover", dir}, f.where()...))
		},
	}
	if atTerminal {
		o.Lines = linesOf(in)
	}
	d, err := gameday.Open(o)
	if err != nil {
		return openError(err)
	}
	defer d.Close()
	ctx, stop := signal.NotifyContext(ctx, endings()...)
	defer stop()
	if err := d.Lead(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	g, err := writeGameDay(d, dir)
	if err != nil {
		return err
	}
	if err := unlessUnread(show(io.Out, reports.GameDay(g), doc.Short)); err != nil {
		return err
	}
	fmt.Fprintf(io.Err, "report: %s\n", filepath.Join(dir, gameday.PageFile))
	if g.Stopped != "" {
		from := ""
		if f.fromSheet {
			from = "--from-sheet "
		}
		fmt.Fprintf(io.Err, "to go on: lockdrill gameday %s%s --resume %s\n", from, arg, dir)
	}
	return status(g.ExitCode)
}

func linesOf(r stdio.Reader) <-chan string {
	lines := make(chan string)
	go func() { // ends with the terminal, or with this process
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

func (f *gameDayFlags) where() (args []string) {
	for _, a := range [][2]string{{"--kubeconfig", f.consent.Cluster.Kubeconfig}, {"--context", f.consent.Cluster.Context}} {
		if a[1] != "" {
			args = append(args, a[0], a[1])
		}
	}
	return args
}

func (f *gameDayFlags) passedOn() []string {
	args := f.where()
	for _, a := range [][2]string{{"--namespace", f.consent.Cluster.Namespace}, {"--environment", f.consent.Environment}} {
		if a[1] != "" {
			args = append(args, a[0], a[1])
		}
	}
	for _, name := range f.consent.Confirm {
		args = append(args, "--confirm", name)
	}
	return args
}

// child runs this binary. Where it is a drill it is stopped in order when the context ends, and when this process does, however it
// does: the other end of its pipe is closed then.
func child(ctx context.Context, io streams, self string, args []string) (int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = io.Err, io.Err
	if args[0] == "run" {
		cmd.ExtraFiles = []*os.File{r}
		cmd.Args = append(cmd.Args, "--until-closed", "3")
	}
	if err := cmd.Start(); err != nil {
		return 0, errors.Join(err, w.Close())
	}
	over := context.AfterFunc(ctx, func() { _ = w.Close() })
	err = cmd.Wait()
	if over() {
		_ = w.Close()
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if exit.ExitCode() < 0 { // killed: its watchdog undoes it, and nobody has seen that
			return verdict.ExitDirty, nil
		}
		return exit.ExitCode(), nil
	}
	return verdict.ExitPass, err
}

// writeGameDay writes the report in its three forms.
func writeGameDay(d *gameday.Day, dir string) (*gameday.Document, error) {
	g, err := d.Concluded()
	if err != nil {
		return nil, err
	}
	for name, write := range map[string]func(stdio.Writer) error{
		gameday.JSONFile: func(w stdio.Writer) error { return writeJSON(w, g) },
		gameday.PageFile: func(w stdio.Writer) error { return reports.Write(w, reports.GameDay(g)) },
		gameday.TextFile: func(w stdio.Writer) error {
			_, err := stdio.WriteString(w, doc.Markdown(reports.GameDay(g), doc.Full))
			return err
		},
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return nil, err
		}
		if err := writeAtomically(filepath.Join(dir, name), b.Bytes()); err != nil {
			return nil, err
		}
	}
	return g, nil
}
