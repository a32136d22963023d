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
	"slices"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/gameday"
	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/scenarios"
)

// leading is a game day that is led: run of a file of kind GameDay.
type leading struct {
	out, resume, who string
	consent          drill.Consent
	format           output
	quiet            bool
	flags            *pflag.FlagSet // as they were given
}

// isGameDay reports whether dir is the folder of a game day.
func isGameDay(dir string) bool { return isFile(filepath.Join(dir, gameday.SheetFile)) }

// judgeGameDay makes the report of a day that is over anew, with what people have written into its notes since.
func judgeGameDay(io streams, dir string, format output) (int, error) {
	text, err := regular.Read(filepath.Join(dir, gameday.SheetFile))
	if err != nil {
		return 0, usagef("%s: no folder of a game day: %w", dir, reason(err))
	}
	sheet, err := experiments.ParseGameDay(filepath.Join(dir, gameday.SheetFile), text, nil)
	if err != nil {
		return 0, usagef("%w", err)
	}
	d, err := gameday.Open(gameday.Options{Sheet: sheet, Text: text, Dir: dir, Resume: true})
	if err != nil {
		return 0, openError(err)
	}
	defer d.Close()
	g, err := writeGameDay(d, dir)
	if err != nil {
		return 0, err
	}
	return g.ExitCode, unlessUnread(printGameDay(io, g, format))
}

// printGameDay prints the report of a day in one of its forms.
func printGameDay(io streams, g *gameday.Document, format output) error {
	if !slices.Contains([]output{outputText, outputMD, outputHTML, outputJSON}, format) {
		return usagef("-f %s: a game day has the forms text, md, html and json", format)
	}
	return present(io, format, g, reports.GameDay(g), doc.Short, doc.Full)
}

// sheetOf reads what arg names if it is the sheet of a game day; nil if it is anything else.
func sheetOf(arg string) (*experiments.GameDay, []byte, error) {
	text, ok := scenarios.GameDay(arg)
	if !ok {
		if _, shipped := scenarios.Get(arg); shipped || !isFile(arg) {
			return nil, nil, nil
		}
		var err error
		if text, err = regular.ReadMost(arg, experiments.MaxFile); err != nil {
			return nil, nil, usagef("%s: read: %w", arg, reason(err))
		}
		if experiments.KindOf(text) != experiments.KindGameDay {
			return nil, nil, nil
		}
	}
	beside := func(d string) string {
		if d != "" && (filepath.Base(d) != d || filepath.Ext(d) != "") && !filepath.IsAbs(d) {
			return filepath.Join(filepath.Dir(arg), d)
		}
		return d
	}
	sheet, err := experiments.ParseGameDay(arg, text, func(d string) error {
		_, err := experimentSource(beside(d))
		return err
	})
	if err != nil {
		return nil, nil, usagef("%w", err)
	}
	for i := range sheet.Steps {
		sheet.Steps[i].Drill = beside(sheet.Steps[i].Drill)
	}
	return sheet, text, nil
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

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (f *leading) lead(ctx context.Context, io streams, arg string, sheet *experiments.GameDay, text []byte) error {
	if f.out != "" && f.resume != "" {
		return usagef("--out names a new folder, --resume one that is there: give one of the two")
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
			args := append([]string{"run", drill, "--out", dir}, given(f.flags, "kubeconfig", "context", "namespace", "environment", "confirm")...)
			if f.quiet {
				args = append(args, "--quiet")
			}
			return child(ctx, io, self, args)
		},
		Recover: func(ctx context.Context, dir string) (int, error) {
			return child(ctx, io, self, append([]string{"recover", dir}, given(f.flags, "kubeconfig", "context")...))
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
	if err := unlessUnread(printGameDay(io, g, f.format)); err != nil {
		return err
	}
	fmt.Fprintf(io.Err, "report: %s\n", filepath.Join(dir, gameday.PageFile))
	if g.Stopped != "" {
		fmt.Fprintf(io.Err, "to go on: lockdrill run %s --resume %s\n", arg, dir)
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
