package gameday

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Options are what a game day needs of the command line.
type Options struct {
	Sheet    *experiments.GameDay
	Text     []byte // the sheet as it was read
	Drills   string // digest of its drills' files; "" = none is run
	Dir      string
	Who      string
	Tool     string
	Terminal bool // somebody sits there
	Resume   bool
	Lines    <-chan string // what is typed
	Say      func(format string, args ...any)
	Run      func(ctx context.Context, drill, dir string) (exit int, err error) // one drill, in a process of its own
	Recover  func(ctx context.Context, dir string) (exit int, err error)        // what a cut off drill has left
}

// Day is a game day under way.
type Day struct {
	Options
	log *log
}

// A runner that was cut off, or its watchdog, is waited for so long.
const (
	recoverTries = 60
	recoverEvery = time.Second
)

// ErrUsage: the folder is not that of a game day of this sheet; nothing was touched.
var ErrUsage = errors.New("not to be resumed")

// Open makes the folder of a day, or takes up that of one which was interrupted.
func Open(o Options) (*Day, error) {
	if !o.Resume {
		if err := os.MkdirAll(filepath.Dir(o.Dir), 0o755); err != nil {
			return nil, err
		}
		if err := os.Mkdir(o.Dir, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(o.Dir, SheetFile), o.Text, 0o644); err != nil {
			return nil, err
		}
	}
	l, err := openLog(o.Dir, !o.Resume)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s: it is not the folder of a game day", ErrUsage, o.Dir, LogFile)
	}
	if err != nil {
		return nil, err
	}
	d := &Day{Options: o, log: l}
	digest := experiments.Digest(o.Text)
	switch {
	case len(l.entries) == 0:
		err = l.add(entry{Kind: dayBegins, Who: o.Who, Sheet: digest, Drills: o.Drills, Tool: o.Tool})
	case l.entries[0].Sheet != digest:
		err = fmt.Errorf("%w: %s was begun with another sheet: its digest is %s, that of the file %s; %s is the sheet as it was", ErrUsage, o.Dir, l.entries[0].Sheet, digest, filepath.Join(o.Dir, SheetFile))
	case o.Drills != "" && l.entries[0].Drills != "" && l.entries[0].Drills != o.Drills: // an earlier lockdrill wrote none
		err = fmt.Errorf("%w: an experiment of %s has changed since the day began: put it back (the runs below %s have it as it was), or begin a new day", ErrUsage, o.Sheet.Name, o.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close gives the day's log back.
func (d *Day) Close() error { return d.log.file.Close() }

// NeedsPeople is the first manual step that cannot be left out, or "".
func NeedsPeople(s *experiments.GameDay) string {
	for i, step := range s.Steps {
		if step.Manual != "" && !step.Optional {
			return stepName(i, step)
		}
	}
	return ""
}

func stepName(i int, s experiments.GameDayStep) string {
	if s.Name != "" {
		return s.Name
	}
	return "step-" + strconv.Itoa(i+1)
}

// Lead goes through the steps that are not done.
func (d *Day) Lead(ctx context.Context) error {
	stop := ""
	for i := range d.Sheet.Steps {
		end := d.last(stepEnds, i+1)
		if end == nil || end.Outcome == StepAborted || end.Text == peopleStop || end.dirty() {
			var err error
			if end, err = d.step(ctx, i); err != nil {
				return err
			}
		}
		if stop = d.stops(ctx, end); stop != "" {
			break
		}
	}
	return d.log.add(entry{Kind: dayEnds, Who: d.Who, Text: stop})
}

// stops says why the day ends after a step, or "".
func (d *Day) stops(ctx context.Context, end *entry) string {
	switch {
	case ctx.Err() != nil || end == nil:
		return "interrupted"
	case end.Text == peopleStop:
		return "stopped by " + end.Who
	case end.Exit == nil:
		return ""
	}
	name := verdict.ExitName(*end.Exit)
	if *end.Exit == verdict.ExitDirty || d.Sheet.StopWhen != nil && slices.Contains(d.Sheet.StopWhen.Exit, name) {
		return fmt.Sprintf("stop criterion: step %d ended with %s", end.Step, name)
	}
	return ""
}

const peopleStop = "stop"

func (d *Day) last(kind string, step int) *entry {
	for i := len(d.log.entries) - 1; i >= 0; i-- {
		if e := &d.log.entries[i]; e.Kind == kind && e.Step == step {
			return e
		}
	}
	return nil
}

func (d *Day) step(ctx context.Context, i int) (*entry, error) {
	s := d.Sheet.Steps[i]
	if ctx.Err() != nil {
		return nil, nil
	}
	what := s.Drill
	if s.Manual != "" {
		what = s.Manual
	}
	d.Say("step %d of %d, %s: %s", i+1, len(d.Sheet.Steps), stepName(i, s), what)
	if s.Manual != "" {
		return d.manual(ctx, i, s)
	}
	again, err := d.cutOff(ctx, i)
	if err != nil {
		return nil, err
	}
	if end := d.last(stepEnds, i+1); end != nil && end.dirty() {
		return end, nil
	}
	if again && d.Terminal {
		outcome, text, err := d.ask(ctx, i+1, "the drill was cut off: press enter to run it again")
		if err != nil || outcome != StepDone {
			return d.ends(entry{Step: i + 1, Outcome: outcome, Text: text}, err)
		}
	}
	folder := d.newFolder(i, s)
	if err := d.log.add(entry{Kind: stepBegins, Step: i + 1, Who: d.Who, Folder: folder}); err != nil {
		return nil, err
	}
	exit, err := d.Run(ctx, s.Drill, filepath.Join(d.Dir, folder))
	if err != nil {
		return nil, err
	}
	outcome := StepDone
	if exit == verdict.ExitAborted {
		outcome = StepAborted
	}
	return d.ends(entry{Step: i + 1, Folder: folder, Outcome: outcome, Exit: &exit}, nil)
}

func (d *Day) ends(e entry, err error) (*entry, error) {
	if err != nil {
		return nil, err
	}
	if e.Outcome == "" { // interrupted: it is asked again
		return nil, nil
	}
	e.Kind, e.Who = stepEnds, d.Who
	if err := d.log.add(e); err != nil {
		return nil, err
	}
	return &d.log.entries[len(d.log.entries)-1], nil
}

// cutOff notes a drill that has begun and not ended, or left something behind, as aborted, once what it had done is undone.
func (d *Day) cutOff(ctx context.Context, i int) (again bool, err error) {
	begun, ended := d.last(stepBegins, i+1), d.last(stepEnds, i+1)
	if begun == nil {
		return false, nil
	}
	if ended != nil && ended.Folder == begun.Folder && !ended.dirty() {
		return true, nil
	}
	dir, exit := filepath.Join(d.Dir, begun.Folder), verdict.ExitAborted
	if _, err := os.Stat(dir); err == nil {
		d.Say("%s was cut off: waiting until it is undone", begun.Folder)
		code := verdict.ExitRefused
		for range recoverTries {
			if code, err = d.Recover(ctx, dir); err != nil {
				return false, err
			}
			if code != verdict.ExitRefused {
				break
			}
			select {
			case <-time.After(recoverEvery):
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
		if code != verdict.ExitPass {
			exit = verdict.ExitDirty
		}
	}
	_, err = d.ends(entry{Step: i + 1, Folder: begun.Folder, Outcome: StepAborted, Exit: &exit}, nil)
	return true, err
}

// newFolder is that of the step's next try.
func (d *Day) newFolder(i int, s experiments.GameDayStep) string {
	tries := 1
	for _, e := range d.log.entries {
		if e.Kind == stepBegins && e.Step == i+1 {
			tries++
		}
	}
	name := fmt.Sprintf("%02d-%s", i+1, stepName(i, s))
	if tries > 1 {
		name += "-try" + strconv.Itoa(tries)
	}
	return name
}

func (d *Day) manual(ctx context.Context, i int, s experiments.GameDayStep) (*entry, error) {
	if err := d.log.add(entry{Kind: stepBegins, Step: i + 1, Who: d.Who}); err != nil {
		return nil, err
	}
	if !d.Terminal {
		return d.ends(entry{Step: i + 1, Outcome: StepSkipped, Text: "no terminal"}, nil)
	}
	outcome, text, err := d.ask(ctx, i+1, "press enter when it is done")
	return d.ends(entry{Step: i + 1, Outcome: outcome, Text: text}, err)
}

// ask waits for people. What they write besides is an observation; no outcome: the day was interrupted.
func (d *Day) ask(ctx context.Context, step int, prompt string) (outcome, text string, err error) {
	for {
		d.Say("  %s; skip or stop; anything else is noted as an observation", prompt)
		select {
		case <-ctx.Done():
			return "", "", nil
		case line, ok := <-d.Lines:
			switch line = strings.TrimSpace(line); {
			case !ok:
				return "", "", nil // the terminal has ended: as an interrupt
			case line == "":
				return StepDone, "", nil
			case line == "skip":
				return StepSkipped, "", nil
			case line == "stop":
				return StepSkipped, peopleStop, nil
			}
			if err := d.log.add(entry{Kind: observed, Step: step, Who: d.Who, Text: line}); err != nil {
				return "", "", err
			}
			d.Say("  noted (%s)", figures.Plural(d.notes(), "observation"))
		}
	}
}

func (d *Day) notes() (n int) {
	for _, e := range d.log.entries {
		if e.Kind == observed {
			n++
		}
	}
	return n
}
