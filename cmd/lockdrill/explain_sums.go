package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
)

// sumsDoc is the document of `explain sums -o json`.
type sumsDoc struct {
	SchemaVersion int            `json:"schemaVersion"`
	Profile       string         `json:"profile"`
	Sums          []lockcore.Sum `json:"sums"`
}

// sumsFlags are whose sums, and under what.
type sumsFlags struct {
	profile         string
	work, slo, wait time.Duration
	replicas        int
	output          *output
}

func newExplainSumsCmd(io streams) *cobra.Command {
	var f sumsFlags
	cmd := &cobra.Command{
		Use:   "sums",
		Short: "The budget sums of a profile",
		Long:  "explain sums --profile NAME works out L1 to L8 for a shipped profile. The timings that measured work asks for: lockdrill tune.",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", "", "a shipped profile")
	flags.DurationVar(&f.work, "work-p99", 0, "p99 of the work under the lock")
	flags.DurationVar(&f.slo, "slo", 0, "the takeover that is wanted")
	flags.DurationVar(&f.wait, "redeliver", 0, "job locks: an unfinished job is offered again so often")
	flags.IntVar(&f.replicas, "replicas", 3, "how many may ask for one key at once")
	f.output = outputFlag(flags)
	cmd.RunE = func(*cobra.Command, []string) error {
		doc, err := f.doc()
		if err != nil {
			return err
		}
		if *f.output == outputJSON {
			return writeJSON(io.Out, doc)
		}
		f.print(io, doc)
		return nil
	}
	return cmd
}

func (f *sumsFlags) doc() (sumsDoc, error) {
	doc := sumsDoc{SchemaVersion: 1, Profile: f.profile, Sums: []lockcore.Sum{}}
	if f.profile == "" {
		return doc, usagef("lockdrill explain sums: whose? Give --profile; the timings that measured work asks for: lockdrill tune --help")
	}
	for _, d := range []time.Duration{f.work, f.slo, f.wait} {
		if d < 0 {
			return doc, usagef("lockdrill explain sums: %s is negative", d)
		}
	}
	l, err := experiments.Profile(f.profile)
	if err != nil {
		return doc, usagef("lockdrill explain sums: %w", err)
	}
	for _, lint := range forecast.Lints(f.experiment(l), 0) {
		doc.Sums = append(doc.Sums, lint.Sum)
	}
	return doc, nil
}

// experiment is a drill of one lock, as far as the sums need it: a kill at a random moment.
func (f *sumsFlags) experiment(l *experiments.Lock) *experiments.Experiment {
	l.Name = shortName(f.profile)
	if strings.HasPrefix(f.profile, "kubernetes/") { // these locks are Lease objects
		l.Lease = l.Name
	}
	const never = 365 * 24 * time.Hour // nobody is started for the victim
	e := &experiments.Experiment{TimeScale: 1, System: experiments.System{Replicas: f.replicas, Restart: never, Locks: []experiments.Lock{*l}}}
	if !l.Loop() {
		e.System.Work = []experiments.Work{{Lock: l.Name, Hold: experiments.Hold{P50: f.work, P99: f.work}, Redeliver: f.wait}}
	}
	if f.slo > 0 {
		e.SLOs = []experiments.SLO{{Lock: l.Name, Takeover: experiments.Within(f.slo)}}
	}
	return e
}

func (f *sumsFlags) print(io streams, doc sumsDoc) {
	for _, s := range doc.Sums {
		word := "ok  "
		if !s.OK {
			word = "WARN"
		}
		fmt.Fprintf(io.Out, "%s  %s  %s\n", s.Rule, word, s.Text)
		if s.Means != "" {
			fmt.Fprintf(io.Out, "          %s\n", s.Means)
		}
	}
}
