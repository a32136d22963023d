package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/regular"
)

// Files of a run's folder, and where folders of runs are.
const (
	ExperimentFile = "experiment.yaml"
	HistoryFile    = "history.jsonl"
	RunsFolder     = "runs"
)

// Dir is the run's folder, absolute.
func (d *Drill) Dir() string { return d.dir }

// openFolder makes the run's folder, if it is to be had and no target is another run's.
func (d *Drill) openFolder() (err error) {
	dir := d.o.Out
	if dir == "" {
		dir = filepath.Join(RunsFolder, d.run)
	}
	if filepath.Base(dir) == undo.Latest {
		return usagef("%s: %s is no name of a run: it is the link to the newest one", dir, undo.Latest)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return usagef("%s: the folder is not empty; a run never writes over another", dir)
	}
	if err := guardTargets(d.o.Notify, d.e, d.targets, filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usagef("%s: make the run's folder: %w", dir, reason(err))
	}
	if d.dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("make the run's folder: %w", err)
	}
	return d.trustFolder()
}

// trustFolder refuses a folder in which the watchdog would not believe the journal.
func (d *Drill) trustFolder() error {
	err := undo.Trusted(d.dir)
	said := new(undo.UntrustedError)
	switch {
	case errors.As(err, &said) && d.o.Trust:
		d.o.Notify(fmt.Sprintf("lockdrill: --trust: %v; whoever can write there decides what this run's watchdog undoes", said))
		return nil
	case errors.As(err, &said):
		return refused(d.e.Name, Guard{Name: folderGuardName, Refuses: true, Says: said.Error() + ": name a new folder in it with --out, or say --trust"})
	}
	return err
}

// Finished reports whether the history in a run's folder has its end, and that end says that everything was cleaned up.
func Finished(dir string) (bool, error) {
	f, err := regular.Open(filepath.Join(dir, HistoryFile))
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	tail, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tailBytes), tailBytes))
	if err != nil {
		return false, err
	}
	lines := bytes.Split(bytes.TrimSpace(tail), []byte("\n"))
	var last struct {
		Kind history.Kind
		Note history.Note
	}
	return json.Unmarshal(lines[len(lines)-1], &last) == nil && last.Kind == history.RunEnd && last.Note.OK, nil
}

// tailBytes is more than a history's last line has.
const tailBytes = 1 << 16

// Lacks says what the journal of a run that did not come to its end has lost, by what its history tells; "" = nothing that is known.
func Lacks(dir string, c *undo.Content) (string, error) {
	if finished, err := Finished(dir); err != nil || finished {
		return "", err
	}
	f, err := regular.Open(filepath.Join(dir, HistoryFile))
	if err != nil {
		return "", err
	}
	defer f.Close()
	h, err := history.NewReader(f)
	switch {
	case err != nil: // nothing was recorded yet
		return "", nil
	case c.Header.V == 0: // written before the history began
		return "its beginning", nil
	}
	for {
		e, err := h.Next()
		if err != nil { // where it was cut off
			return "", nil
		}
		if e.Kind == history.FaultApplied && !c.Has(*e) {
			return "the record of " + e.Op, nil
		}
	}
}

// linkLatest points runs/latest at the run. It is a convenience: where it cannot be set, that is said, since whoever goes by it would look
// at another run.
func (d *Drill) linkLatest() {
	if d.o.Out != "" {
		return
	}
	link := filepath.Join(filepath.Dir(d.dir), undo.Latest)
	tmp := link + ".new"
	_ = os.Remove(tmp)
	err := os.Symlink(filepath.Base(d.dir), tmp)
	if err == nil {
		err = os.Rename(tmp, link)
	}
	if err != nil {
		_ = os.Remove(tmp)
		why := err
		if of := new(os.LinkError); errors.As(err, &of) {
			why = of.Err
		}
		d.o.Notify(fmt.Sprintf("lockdrill: %s does not lead to this run, since it cannot be set (%v): this run is %s", link, why, d.dir))
	}
}

// claim makes the folder this run's own: of two runs that are given the same one, the second is refused.
func (d *Drill) claim() (*os.File, error) {
	path := filepath.Join(d.dir, HistoryFile)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, usagef("%s: the folder is another run's", d.dir)
	}
	if err != nil {
		return nil, usagef("%s: create: %w", path, reason(err))
	}
	return file, nil
}

// writeExperiment writes down what will be run, and returns the header of its history.
func (d *Drill) writeExperiment() (h history.Header, err error) {
	resolved, err := experiments.Marshal(d.loaded)
	if err != nil {
		return h, fmt.Errorf("write %s: %w", ExperimentFile, err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, ExperimentFile), resolved, 0o644); err != nil {
		return h, fmt.Errorf("write %s: %w", ExperimentFile, err)
	}
	d.strikes.Secrets = experiments.VariablesIn(resolved)
	return history.Header{
		Tool: d.o.Tool, Run: d.run, Experiment: d.e.Name, Digest: experiments.Digest(resolved),
		Seed: d.seed, Labels: d.o.Labels, Mode: history.Live, TimeScale: d.loaded.TimeScale,
		Started: time.Now().Add(-time.Duration(d.clock())).UTC().Format(time.RFC3339Nano),
	}, nil
}

// giveUp ends a run that did not come to a drill: nothing of it stays, or the end says that something does.
func (d *Drill) giveUp(ctx context.Context, err error) (left *Ending, _ error) {
	var closing error
	for _, step := range d.cfg.Cleanup {
		closing = errors.Join(closing, step.Do(ctx))
	}
	if dropped := d.dropJournal(); dropped != nil {
		closing = errors.Join(closing, dropped)
		left = d.endJournal()
	}
	over := []string{HistoryFile}
	if left == nil { // what a record may name stands in the experiment
		over = append(over, ExperimentFile)
	}
	for _, name := range over {
		_ = os.Remove(filepath.Join(d.dir, name))
	}
	_ = os.Remove(d.dir) // not empty: something else is left, which closing says
	if d.o.Out == "" {
		_ = os.Remove(filepath.Dir(d.dir)) // other runs may be in it
	}
	err = fmt.Errorf("%s: %w", d.e.Name, errors.Join(err, closing))
	switch {
	case closing != nil:
		return left, &Error{verdict.ExitDirty, err}
	case ctx.Err() != nil:
		return left, &Error{verdict.ExitAborted, fmt.Errorf("interrupted before the drill began: %w", err)}
	}
	return left, err
}
