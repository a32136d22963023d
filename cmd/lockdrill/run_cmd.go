package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/scenarios"
)

type runFlags struct {
	out            string
	output         *output
	trust          bool
	verbose        bool
	seed           int64
	values         *[]string // of the file, overridden
	labels         labels
	onInconclusive inconclusiveAs
	consent        drill.Consent
	gate           gateFlags
	plan           string // the hash that was approved
	untilClosed    int    // of an open file; 0 = none
	worker         []string
	sweep          string
	resume, who    string // of a game day
	story          storyFlags
}

func newRunCmd(io streams) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE|NAME|DIR... [-- WORKER ARGUMENT...]",
		Short: "Run drills in real time and judge them",
		Long: "run injects the faults of each drill, undoes them, and judges what it measured. The folder runs/latest then has the report.\n" +
			"Several drills, or all of a folder, run one after another; the exit status is the worst of them.\n" +
			"What lockdrill did not start itself, such as your Redis or your processes, it touches only with your consent: --confirm NAME.\n" +
			"After -- stands the command of a worker of yours (docs/worker-protocol.md), which the drills run in place of their own.\n\n" +
			"A file of kind GameDay leads people through several drills, and what they do by hand between them (docs/gameday.md): type enter\n" +
			"when a step is done, skip, stop, or a text: it is noted with your name. A day that was interrupted goes on with --resume.\n\n" +
			"--sweep raises one dial, step by step, until a promise breaks or this machine is too slow to tell; each step is a run of its own.\n\n" +
			"Exit status: 0 every promise was kept; 10 one was broken; 11 not enough evidence. lockdrill help exit-codes has all.",
		Example: "  lockdrill run first-drill\n" +
			"  lockdrill run first-drill leader-kill-at-peak --label release=1.4 --junit junit.xml\n" +
			"  lockdrill run worker-check -- python3 scenarios/workers/python/worker.py\n" +
			"  lockdrill run first-gameday",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				if args, f.worker = args[:n], args[n:]; n == 0 || len(f.worker) == 0 {
					return usagef("lockdrill run: before -- stand the drills, and after it the command of a worker; see lockdrill run --help")
				}
			}
			g, err := openGate(io.Err, f.gate)
			if err != nil {
				return err
			}
			if err = errors.Join(namesNothing(cmd), f.story.check()); err == nil {
				err = f.run(cmd, io, args, g)
			}
			g.close(err)
			return err
		},
	}
	cmd.Flags().StringVar(&f.out, "out", "", "folder of the run (default runs/<UTC time>-<name>)")
	cmd.Flags().BoolVar(&f.trust, "trust", false, "run in a folder that others may write to: they decide what this run's watchdog undoes")
	f.output = formFlags(cmd, io, outputHTML, outputMD)
	verboseFlag(cmd.Flags(), &f.verbose)
	cmd.Flags().Int64Var(&f.seed, "seed", 0, "seed of every random choice (default: the file's, else a new one)")
	f.labels = labelsFlag(cmd.Flags(), "what is drilled (release=1.4); runs with a label can be judged together; may be given more than once")
	consentFlags(cmd.Flags(), &f.consent)
	f.values = setFlag(cmd.Flags())
	f.gate.flags(cmd.Flags())
	cmd.ValidArgsFunction = completed(func() []string { return append(scenarioNames(), scenarios.GameDays()...) })
	f.story.flags(cmd)
	sweepFlag(cmd.Flags(), &f.sweep)
	cmd.Flags().StringVar(&f.resume, "resume", "", "game day: folder of one that was interrupted; what is done is not repeated")
	cmd.Flags().StringVar(&f.who, "who", "", "game day: who leads, as the log has it (default: your user name)")
	cmd.Flags().StringVar(&f.plan, "plan", "", "run only what has this hash, as plan --hash prints it; anything else is refused")
	cmd.Flags().IntVar(&f.untilClosed, "until-closed", 0, "number of an open file, the end of a pipe: the run is stopped in order when the other end is closed")
	_ = cmd.Flags().MarkHidden("until-closed") // the run of a game day says it
	f.onInconclusive.flag(cmd.Flags())
	return cmd
}

// run is what the arguments ask for: a game day, a sweep, or drills one after another.
func (f *runFlags) run(cmd *cobra.Command, io streams, args []string, g *gate) error {
	for _, arg := range args {
		sheet, text, err := sheetOf(arg)
		if err != nil {
			return err
		}
		if sheet == nil {
			continue
		}
		if len(args) > 1 || f.worker != nil {
			return usagef("%s: this is a game day: it is run alone", arg)
		}
		if err := only(cmd, arg+": this is a game day", "out", "resume", "who", "result-file", "format", "output", "quiet", "confirm", "environment", "kubeconfig", "context", "namespace"); err != nil {
			return err
		}
		day := leading{f.out, f.resume, f.who, f.consent, *f.output, f.story.quiet, cmd.Flags()}
		return day.lead(cmd.Context(), io, arg, sheet, text)
	}
	if f.resume != "" || f.who != "" {
		return usagef("lockdrill run: --resume and --who go with a game day, and %s is none", args[0])
	}
	if f.sweep != "" {
		s := sweeping{live: true, seed: f.seed, values: *f.values, format: *f.output, consent: f.consent, told: f.story}
		if err := s.parse(f.sweep); err != nil {
			return err
		}
		if len(args) > 1 || f.worker != nil {
			return usagef("--sweep raises a dial of one experiment; %d are given", len(args))
		}
		if err := only(cmd, "--sweep", "sweep", "seed", "set", "result-file", "format", "output", "quiet", "log-level", "confirm", "environment", "kubeconfig", "context", "namespace"); err != nil {
			return err
		}
		return s.run(cmd.Context(), io, args[0])
	}
	args, err := inFolders(io.Err, args)
	if err != nil {
		return err
	}
	if err := f.check(args); err != nil {
		return err
	}
	return runAll(cmd.Context(), io, *f, args, g)
}

// only refuses flags that do not go with what is asked for: what somebody wanted would silently not be.
func only(cmd *cobra.Command, what string, names ...string) (err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if err == nil && !slices.Contains(names, flag.Name) {
			err = usagef("%s: --%s does not go with it", what, flag.Name)
		}
	})
	return err
}

func (f *runFlags) check(args []string) error {
	if err := f.onInconclusive.check(); err != nil {
		return err
	}
	switch {
	case *f.output == outputJSON && len(args) > 1:
		return usagef("-f json prints the verdict of one run; %d experiments are given", len(args))
	case (*f.output == outputHTML || *f.output == outputMD) && len(args) > 1:
		return usagef("-f %s is the report of one run; %d experiments are given", *f.output, len(args))
	case f.out != "" && len(args) > 1:
		return usagef("--out names the folder of one run; %d experiments are given", len(args))
	case f.plan != "" && len(args) > 1:
		return usagef("--plan is the hash of one run; %d experiments are given", len(args))
	case f.gate.summary != "" && len(args) > 1:
		return usagef("--summary-configmap holds the summary of one run; %d experiments are given", len(args))
	}
	return nil
}

// runAll loads everything and asks every guard before it runs anything: a bad second file must not be found after the first drill.
func runAll(ctx context.Context, io streams, f runFlags, args []string, g *gate) error {
	f.consent.Summary = f.gate.summary
	var all []*experiments.Experiment
	for _, arg := range args {
		f.story.say(io.Err, arg+": reading the file and asking the guards")
		e, _, err := loadExperiment(arg, *f.values...)
		if err == nil && f.worker != nil {
			err = useWorker(e, arg, f.worker)
		}
		if err != nil {
			g.unjudged(arg, err)
			return err
		}
		if err = drill.Authorize(ctx, e, f.consent); err == nil {
			err = g.openSummary(e, f.consent.Cluster)
		}
		if err != nil {
			g.unjudged(e.Name, err)
			return err
		}
		if !f.story.quiet {
			printLints(io.Err, e)
		}
		all = append(all, e)
	}
	var under underWay
	ctx, stop := interruptible(ctx, io.Err, &under, g)
	defer stop()
	ctx, err := untilClosed(ctx, f.untilClosed, io.Err)
	if err != nil {
		return err
	}
	code := verdict.ExitPass
	var ends []string
	for i, e := range all {
		if ctx.Err() != nil {
			code = verdict.WorstExit(code, verdict.ExitAborted)
			fmt.Fprintf(io.Err, "lockdrill: interrupted: %s not run\n", figures.Plural(len(all)-i, "drill"))
			for _, e := range all[i:] {
				g.unjudged(e.Name, &exitError{code: verdict.ExitAborted, err: errors.New("interrupted before it was run")})
				ends = append(ends, "  not run       "+e.Name)
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
		ends = append(ends, fmt.Sprintf("  %-12s  %s", verdict.ExitName(c), e.Name))
		code = verdict.WorstExit(code, c)
	}
	if len(all) > 1 {
		err = unlessUnread(writeLines(io.Out, fmt.Sprintf("\n%s, the worst: %s", figures.Plural(len(all), "drill"), verdict.ExitName(code)), ends...))
	}
	return errors.Join(err, status(code))
}

// interruptible ends the context at the first interrupt, so that the drill is stopped and cleaned up in order; at the second it
// leaves at once, and says what that leaves behind.
func interruptible(ctx context.Context, stderr io.Writer, under *underWay, g *gate) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	sigs := make(chan os.Signal, 2)
	signal.Notify(sigs, endings()...)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case sig := <-sigs:
				if n > 0 && sig == syscall.SIGHUP {
					continue // a terminal that ends says so more than once
				}
			case <-done:
				return
			}
			if n == 0 {
				cancel() // first: whoever reads standard error may be stuck
			}
			text := "interrupted: stopping the drill and cleaning up; interrupt again to leave at once"
			if n > 0 {
				text = "left at once: replicas and spawned stores end with this process, its watchdog undoes what else is left, and lockdrill recover DIR says whether that is done; the run's folder is not complete and has no verdict"
			}
			said := make(chan struct{})
			go func() {
				defer close(said)
				if n > 0 {
					g.result.write(stderr, verdict.ExitDirty)
				}
				fmt.Fprintln(stderr, "lockdrill: "+text)
				if n > 0 {
					under.printLeft(stderr)
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

// untilClosed ends the context, as an interrupt does, when the pipe's other end is closed: its holder has ended, however it did.
func untilClosed(ctx context.Context, fd int, stderr io.Writer) (context.Context, error) {
	if fd == 0 {
		return ctx, nil
	}
	pipe := os.NewFile(uintptr(fd), "--until-closed")
	if info, err := pipe.Stat(); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return ctx, usagef("--until-closed %d: not the end of a pipe; the run of a game day starts runs with it", fd)
	}
	syscall.CloseOnExec(fd)
	syscall.CloseOnExec(fd + 1) // a lock, where there is one, is this process's alone
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the pipe, or with this process
		_, _ = io.Copy(io.Discard, pipe)
		cancel() // first: nobody may read standard error any more
		fmt.Fprintln(stderr, "lockdrill: whoever started this run is gone: stopping the drill and cleaning up")
	}()
	return ctx, nil
}

// runOne is one drill from the folder to the verdict.
func runOne(ctx context.Context, io streams, f runFlags, e *experiments.Experiment, under *underWay, g *gate) (int, error) {
	if err := drill.Authorize(ctx, e, f.consent); err != nil { // again: an earlier drill may have taken hours
		return 0, err
	}
	if f.plan != "" {
		if err := drill.AsApproved(ctx, e, f.consent, "lockdrill "+version(), f.plan); err != nil {
			return 0, err
		}
	}
	defer under.set("")
	dir, r, err := f.story.drill(ctx, io.Err, drill.Options{
		Experiment: e, Cluster: f.consent.Cluster, Seed: f.seed, Out: f.out, Trust: f.trust, Labels: f.labels.Labels,
	}, under.set)
	if err != nil {
		return 0, err
	}
	if err := printJudgement(io, *f.output, f.verbose, dir, r); err != nil {
		return 0, err
	}
	g.judged(r, dir)
	return f.onInconclusive.code(io.Err, r.Judgement.ExitCode), nil
}

// drill is a drill from its folder, which begin is told, to its judgement. It tells its story on stderr.
func (f storyFlags) drill(ctx context.Context, stderr io.Writer, o drill.Options, begin func(dir string)) (dir string, r reports.Run, err error) {
	o.Tool, o.Notify = "lockdrill "+version(), f.notifier(stderr)
	o.Begin = func(e *experiments.Experiment, notice string, clock func() int64) (func(history.Event), func()) {
		p := f.start(stderr, e, notice, clock)
		return p.Observe, p.Close
	}
	d, err := drill.New(o)
	if err != nil {
		return "", r, err
	}
	begin(d.Dir())
	ending, err := d.Run(ctx)
	if ending != nil {
		printEnding(stderr, ending)
	}
	if err != nil {
		return d.Dir(), r, err
	}
	if r, err = judgeDir(stderr, d.Dir()); err != nil {
		err = &exitError{code: verdict.ExitError, err: err} // not a wrong file of the user's: something was touched
	}
	return d.Dir(), r, err
}

// consentFlags adds what an operator says on the command line about targets that are not the run's own.
func consentFlags(flags *pflag.FlagSet, c *drill.Consent) {
	whereFlags(flags, &c.Cluster)
	flags.StringVarP(&c.Cluster.Namespace, "namespace", "n", "", "of the pods (default: the file's, else that of the context)")
	flags.StringVar(&c.Environment, "environment", "", "what a target that does not say so itself is, as the file's environment")
	flags.StringArrayVar(&c.Confirm, "confirm", nil, "name of the experiment: needed where the target is not started by the run; may be repeated")
}

// whereFlags adds the flags that say how the cluster is reached.
func whereFlags(flags *pflag.FlagSet, c *drill.Cluster) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "file that says how clusters are reached (default $KUBECONFIG, else ~/.kube/config, else the pod's service account)")
	flags.StringVar(&c.Context, "context", "", "of the kubeconfig (default: the file's, else the current one)")
}
