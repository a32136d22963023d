package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/reports"
)

type runFlags struct {
	out            string
	output         *output
	seed           int64
	onInconclusive inconclusiveAs
	consent        consent
	gate           gateFlags
}

func newRunCmd(io streams) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE|NAME...",
		Short: "Run drills in real time and judge them",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			g, err := openGate(io.Err, f.gate)
			if err != nil {
				return err
			}
			if err = f.check(args); err == nil {
				err = runAll(cmd.Context(), io, f, args, g)
			}
			g.close(err)
			return err
		},
	}
	cmd.Flags().StringVar(&f.out, "out", "", "folder of the run (default runs/<UTC time>-<name>)")
	f.output = outputFlag(cmd.Flags())
	cmd.Flags().Int64Var(&f.seed, "seed", 0, "seed of every random choice (default: the file's, else a new one)")
	f.consent.flags(cmd.Flags())
	f.gate.flags(cmd.Flags())
	f.onInconclusive.flag(cmd.Flags())
	return cmd
}

func (f *runFlags) check(args []string) error {
	if err := f.onInconclusive.check(); err != nil {
		return err
	}
	switch {
	case *f.output == outputJSON && len(args) > 1:
		return usagef("-o json prints the verdict of one run; %d experiments are given", len(args))
	case f.out != "" && len(args) > 1:
		return usagef("--out names the folder of one run; %d experiments are given", len(args))
	case f.gate.summary != "" && len(args) > 1:
		return usagef("--summary-configmap holds the summary of one run; %d experiments are given", len(args))
	}
	return nil
}

// runAll loads everything and asks every guard before it runs anything: a bad second file must not be found after the first drill.
func runAll(ctx context.Context, io streams, f runFlags, args []string, g *gate) error {
	var all []*experiments.Experiment
	for _, arg := range args {
		e, _, err := loadExperiment(arg)
		if err != nil {
			g.unjudged(arg, err)
			return err
		}
		if err = admit(ctx, e, f.consent); err == nil {
			err = g.openSummary(e, f.consent.cluster)
		}
		if err != nil {
			g.unjudged(e.Name, err)
			return err
		}
		tellLints(io.Err, e)
		all = append(all, e)
	}
	var under underWay
	ctx, stop := interruptible(ctx, io.Err, &under, g)
	defer stop()
	code := verdict.ExitPass
	for i, e := range all {
		if ctx.Err() != nil {
			code = verdict.WorstExit(code, verdict.ExitAborted)
			fmt.Fprintf(io.Err, "lockdrill: interrupted: %s not run\n", figures.Plural(len(all)-i, "drill"))
			for _, e := range all[i:] {
				g.unjudged(e.Name, &exitError{code: verdict.ExitAborted, err: errors.New("interrupted before it was run")})
			}
			break
		}
		c, err := runOne(ctx, io, f, e, &under, g)
		if err != nil {
			g.unjudged(e.Name, err)
		}
		if err != nil && len(all) == 1 {
			return err
		}
		if err != nil { // one drill that could not be run hides no verdict of another
			fmt.Fprintln(io.Err, reports.Harmless(err.Error()))
			c = codeOf(err)
		}
		code = verdict.WorstExit(code, c)
	}
	return status(code)
}

// interruptible ends the context at the first interrupt, so that the drill is stopped and cleaned up in order; at the second it
// leaves at once, and says what that leaves behind.
func interruptible(ctx context.Context, stderr io.Writer, under *underWay, g *gate) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	sigs := make(chan os.Signal, 2)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-sigs:
			case <-done:
				return
			}
			if n == 0 {
				cancel() // first: whoever reads standard error may be stuck
			}
			text := "interrupted: stopping the drill and cleaning up; interrupt again to leave at once"
			if n > 0 {
				text = "left at once: replicas and spawned stores end with this process, its watchdog undoes what else is left, and lockdrill recover says whether that is done; the run's folder is not complete and has no verdict"
			}
			said := make(chan struct{})
			go func() {
				defer close(said)
				if n > 0 {
					g.result.tell(stderr, verdict.ExitDirty)
				}
				fmt.Fprintln(stderr, "lockdrill: "+text)
				if n > 0 {
					under.tell(stderr)
				}
			}()
			if n > 0 {
				select {
				case <-said:
				case <-time.After(time.Second):
				}
				os.Exit(verdict.ExitDirty)
			}
		}
	}()
	return ctx, func() { signal.Stop(sigs); close(done); cancel() }
}

// runOne is one drill from the folder to the verdict.
func runOne(ctx context.Context, io streams, f runFlags, e *experiments.Experiment, under *underWay, g *gate) (int, error) {
	if err := admit(ctx, e, f.consent); err != nil { // again: an earlier drill may have taken hours
		return 0, err
	}
	d, err := newDrill(io.Err, f, e)
	if err != nil {
		return 0, err
	}
	under.set(d.dir)
	defer under.set("")
	if err := d.record(ctx, io); err != nil {
		return 0, err
	}
	r, err := judgeDir(io.Err, d.dir)
	if err != nil {
		return 0, err
	}
	if err := printJudgement(io, *f.output, d.dir, r); err != nil {
		return 0, err
	}
	g.judged(r, d.dir)
	return f.onInconclusive.code(io.Err, r.Judgement.ExitCode), nil
}

// newDrill makes the run's folder, if the run may be.
func newDrill(stderr io.Writer, f runFlags, e *experiments.Experiment) (*drill, error) {
	now := time.Now().UTC()
	d := &drill{stderr: stderr, loaded: e, e: experiments.Scale(e), seed: f.seed, origin: monotime.Now()}
	d.clock = func() int64 { return monotime.Now() - d.origin }
	if d.seed == 0 {
		d.seed = e.Seed
	}
	if d.seed == 0 {
		d.seed = now.UnixNano() & 0x7fffffff
	}
	d.run = now.Format("20060102T150405.000Z") + "-" + e.Name
	var err error
	if d.cluster, err = f.consent.cluster.open(e); err != nil {
		return nil, err
	}
	dir := f.out
	if dir == "" {
		dir = filepath.Join(runsFolder, d.run)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, usagef("%s: the folder is not empty; a run never writes over another", dir)
	}
	if err := guardTargets(stderr, d.e, filepath.Dir(dir)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, usagef("%s: make the run's folder: %w", dir, reason(err))
	}
	d.named = f.out != ""
	if d.dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("make the run's folder: %w", err)
	}
	return d, nil
}

// linkLatest points runs/latest at the run. It is a convenience: where links cannot be made, there is none.
func (d *drill) linkLatest() {
	if d.named {
		return
	}
	link := filepath.Join(filepath.Dir(d.dir), "latest")
	tmp := link + ".new"
	_ = os.Remove(tmp)
	if os.Symlink(filepath.Base(d.dir), tmp) == nil {
		_ = os.Rename(tmp, link)
	}
}

// record runs the drill and leaves experiment.yaml and history.jsonl behind. Where it does not come to a drill, it leaves nothing.
func (d *drill) record(ctx context.Context, io streams) (err error) {
	file, err := d.claim()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := d.openJournal(io.Err); err != nil {
		return d.giveUp(ctx, io.Err, err)
	}
	calibration, header, err := d.prepare(ctx)
	if err != nil {
		return d.giveUp(ctx, io.Err, err)
	}
	progress := startProgress(io.Err, d.e, d.notice(), d.clock)
	defer progress.Close()
	d.log = runner.NewLog()
	d.rec, err = history.NewRecorder(file, header, d.clock, func(e history.Event) { d.log.Add(e); progress.Observe(e) })
	if err != nil {
		return d.giveUp(ctx, io.Err, err)
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
			return d.giveUp(ctx, io.Err, err)
		}
	}
	d.openMetrics()
	if err := d.watchPods(); err != nil {
		return d.giveUp(ctx, io.Err, err)
	}
	return d.conclude(io.Err, runner.Run(ctx, d.config()))
}

// claim makes the folder this run's own: of two runs that are given the same one, the second is refused.
func (d *drill) claim() (*os.File, error) {
	path := filepath.Join(d.dir, historyFile)
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
func (d *drill) notice() string {
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
func (d *drill) prepare(ctx context.Context) (c history.Calibration, h history.Header, err error) {
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
		return c, h, fmt.Errorf("write %s: %w", experimentFile, err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, experimentFile), resolved, 0o644); err != nil {
		return c, h, fmt.Errorf("write %s: %w", experimentFile, err)
	}
	return c, history.Header{
		Tool: "lockdrill " + version(), Run: d.run, Experiment: d.e.Name, Digest: experiments.Digest(resolved),
		Seed: d.seed, Mode: history.Live, TimeScale: d.loaded.TimeScale,
		Started: time.Now().Add(-time.Duration(d.clock())).UTC().Format(time.RFC3339Nano),
	}, nil
}

// giveUp ends a run that did not come to a drill: nothing of it stays, or the status says that something does.
func (d *drill) giveUp(ctx context.Context, stderr io.Writer, err error) error {
	closing := errors.Join(d.closePods(ctx), d.closeStores(ctx))
	if dropped := d.dropJournal(); dropped != nil {
		closing = errors.Join(closing, dropped)
		d.endJournal(stderr)
	}
	for _, name := range []string{historyFile, experimentFile} {
		_ = os.Remove(filepath.Join(d.dir, name))
	}
	_ = os.Remove(d.dir) // not empty: something else is left, which closing says
	err = fmt.Errorf("%s: %w", d.e.Name, errors.Join(err, closing))
	switch {
	case closing != nil:
		return &exitError{code: verdict.ExitDirty, err: err}
	case ctx.Err() != nil:
		return &exitError{code: verdict.ExitAborted, err: fmt.Errorf("interrupted before the drill began: %w", err)}
	}
	return err
}

// calibrate measures what does not scale, and refuses a time scale at which it would matter.
func (d *drill) calibrate(ctx context.Context) (history.Calibration, error) {
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
		return c, &exitError{code: verdict.ExitRefused, err: fmt.Errorf("%w; or run it when the machine is less busy", err)}
	}
	return c, nil
}
