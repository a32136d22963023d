package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
)

// Files of a run's folder, and where folders of runs are.
const (
	ExperimentFile = "experiment.yaml"
	HistoryFile    = "history.jsonl"
	RunsFolder     = "runs"
)

// Options say what is drilled, and who is told of it.
type Options struct {
	Experiment *experiments.Experiment // as loaded
	Cluster    Cluster
	Seed       int64  // 0 = the experiment's, else a new one
	Out        string // the run's folder; "" = runs/<UTC time>-<name>
	Tool       string // with its version, for the history

	// Notify takes a line for a person.
	Notify func(line string)
	// Begin is called once the drill has what it stands on, which notice names: observe takes each event as it is recorded, in order,
	// and end is called after the last of them. Nothing is notified in between.
	Begin func(e *experiments.Experiment, notice string, clock func() int64) (observe func(history.Event), end func())
}

// New makes the run's folder, if the run may be.
func New(o Options) (*Drill, error) {
	now := time.Now().UTC()
	d := &Drill{o: o, loaded: o.Experiment, e: experiments.Scale(o.Experiment), seed: cmp.Or(o.Seed, o.Experiment.Seed), origin: monotime.Now()}
	d.clock = func() int64 { return monotime.Now() - d.origin }
	if d.seed == 0 {
		d.seed = now.UnixNano() & 0x7fffffff
	}
	d.run = now.Format("20060102T150405.000Z") + "-" + d.e.Name
	var err error
	if d.cluster, err = o.Cluster.open(o.Experiment); err != nil {
		return nil, err
	}
	dir := o.Out
	if dir == "" {
		dir = filepath.Join(RunsFolder, d.run)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, usagef("%s: the folder is not empty; a run never writes over another", dir)
	}
	if err := guardTargets(o.Notify, d.e, filepath.Dir(dir)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, usagef("%s: make the run's folder: %w", dir, reason(err))
	}
	if d.dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("make the run's folder: %w", err)
	}
	return d, nil
}

// Dir is the run's folder, absolute.
func (d *Drill) Dir() string { return d.dir }

// linkLatest points runs/latest at the run. It is a convenience: where links cannot be made, there is none.
func (d *Drill) linkLatest() {
	if d.o.Out != "" {
		return
	}
	link := filepath.Join(filepath.Dir(d.dir), "latest")
	tmp := link + ".new"
	_ = os.Remove(tmp)
	if os.Symlink(filepath.Base(d.dir), tmp) == nil {
		_ = os.Rename(tmp, link)
	}
}

// Run drills, and leaves experiment.yaml and history.jsonl behind. Where it does not come to a drill, it leaves nothing. The ending is
// what a person has to be told of the undo journal; nil = nothing.
func (d *Drill) Run(ctx context.Context) (_ *Ending, err error) {
	file, err := d.claim()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := d.openJournal(); err != nil {
		return d.giveUp(ctx, err)
	}
	calibration, header, err := d.prepare(ctx)
	if err != nil {
		return d.giveUp(ctx, err)
	}
	observe, end := d.o.Begin(d.e, d.notice(), d.clock)
	defer end()
	d.log = runner.NewLog()
	d.rec, err = history.NewRecorder(file, header, d.clock, func(e history.Event) { d.log.Add(e); observe(e) })
	if err != nil {
		return d.giveUp(ctx, err)
	}
	d.linkLatest()
	env := d.environment()
	told := []history.Event{{Kind: history.RunEnvironment, Source: "runner", Environment: &env}}
	if d.stores != nil { // else there was nothing to measure
		told = append(told, history.Event{Kind: history.RunCalibration, Source: "runner", Calibration: &calibration})
	}
	told = append(told, history.Event{Kind: history.RunPrediction, Source: "runner", Prediction: d.predict(ctx, calibration)})
	for _, e := range told {
		if _, err := d.rec.RecordNow(e); err != nil {
			return d.giveUp(ctx, err)
		}
	}
	d.openMetrics()
	if err := d.watchPods(); err != nil {
		return d.giveUp(ctx, err)
	}
	return d.conclude(runner.Run(ctx, d.config()))
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

// notice says what the drill stands on, one line for a person.
func (d *Drill) notice() string {
	var parts []string
	if d.stores != nil && d.stores.Notice != "" {
		parts = append(parts, d.stores.Notice)
	}
	if d.pods != nil {
		parts = append(parts, d.pods.notice())
	}
	return strings.Join(parts, "; ")
}

// prepare opens what the drill stands on, measures it, and writes down what will be run.
func (d *Drill) prepare(ctx context.Context) (c history.Calibration, h history.Header, err error) {
	if err := d.openStores(ctx); err != nil {
		return c, h, err
	}
	if err := d.newFleet(ctx); err != nil {
		return c, h, err
	}
	if c, err = d.calibrate(ctx); err != nil {
		return c, h, err
	}
	resolved, err := experiments.Marshal(d.loaded)
	if err != nil {
		return c, h, fmt.Errorf("write %s: %w", ExperimentFile, err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, ExperimentFile), resolved, 0o644); err != nil {
		return c, h, fmt.Errorf("write %s: %w", ExperimentFile, err)
	}
	return c, history.Header{
		Tool: d.o.Tool, Run: d.run, Experiment: d.e.Name, Digest: experiments.Digest(resolved),
		Seed: d.seed, Mode: history.Live, TimeScale: d.loaded.TimeScale,
		Started: time.Now().Add(-time.Duration(d.clock())).UTC().Format(time.RFC3339Nano),
	}, nil
}

// giveUp ends a run that did not come to a drill: nothing of it stays, or the end says that something does.
func (d *Drill) giveUp(ctx context.Context, err error) (left *Ending, _ error) {
	closing := errors.Join(d.closePods(ctx), d.closeStores(ctx))
	if dropped := d.dropJournal(); dropped != nil {
		closing = errors.Join(closing, dropped)
		left = d.endJournal()
	}
	for _, name := range []string{HistoryFile, ExperimentFile} {
		_ = os.Remove(filepath.Join(d.dir, name))
	}
	_ = os.Remove(d.dir) // not empty: something else is left, which closing says
	err = fmt.Errorf("%s: %w", d.e.Name, errors.Join(err, closing))
	switch {
	case closing != nil:
		return left, &Error{Dirty, err}
	case ctx.Err() != nil:
		return left, &Error{Aborted, fmt.Errorf("interrupted before the drill began: %w", err)}
	}
	return left, err
}

// calibrate measures what does not scale, and refuses a time scale at which it would matter.
func (d *Drill) calibrate(ctx context.Context) (history.Calibration, error) {
	if d.stores == nil {
		return history.Calibration{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, calibrateWithin)
	defer cancel()
	c, err := d.stores.Calibrate(ctx)
	if err != nil {
		return c, fmt.Errorf("calibrate: %w", err)
	}
	check := func() error {
		return experiments.CheckScale(d.loaded, time.Duration(max(c.RTT99, c.Timer99)))
	}
	if check() != nil { // one busy moment is not the machine: measure again before refusing
		if c, err = d.stores.Calibrate(ctx); err != nil {
			return c, fmt.Errorf("calibrate: %w", err)
		}
	}
	if err := check(); err != nil {
		return c, &Error{Refused, fmt.Errorf("%w; or run it when the machine is less busy", err)}
	}
	return c, nil
}
