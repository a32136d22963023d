package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
)

// sumsDoc is the document of `tune --profile NAME -f json` where no jitter is given: the sums of the profile as it is.
type sumsDoc struct {
	SchemaVersion int            `json:"schemaVersion"`
	Profile       string         `json:"profile"`
	Sums          []lockcore.Sum `json:"sums"`
}

// sums works out L1 to L8 of a shipped profile, under the work and the takeover that are given.
func (f *tuneFlags) sums(io streams) error {
	doc := sumsDoc{SchemaVersion: 1, Profile: f.profile, Sums: []lockcore.Sum{}}
	l, err := experiments.Profile(f.profile)
	if err != nil {
		return usagef("lockdrill tune: %w", err)
	}
	for _, lint := range forecast.Lints(f.profiled(l), 0) {
		doc.Sums = append(doc.Sums, lint.Sum)
	}
	if *f.output == outputJSON {
		return writeJSON(io.Out, doc)
	}
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
	return nil
}

// profiled is a drill of one lock, as far as the sums need it: a kill at a random moment.
func (f *tuneFlags) profiled(l *experiments.Lock) *experiments.Experiment {
	l.Name = shortName(f.profile)
	if strings.HasPrefix(f.profile, "kubernetes/") { // these locks are Lease objects
		l.Lease = l.Name
	}
	const never = 365 * 24 * time.Hour // nobody is started for the victim
	e := &experiments.Experiment{TimeScale: 1, System: experiments.System{Replicas: f.replicas, Restart: never, Locks: []experiments.Lock{*l}}}
	if !l.Loop() {
		e.System.Work = []experiments.Work{{Lock: l.Name, Hold: experiments.Hold{P50: f.p99, P99: f.p99}}}
	}
	if f.takeover > 0 {
		e.SLOs = []experiments.SLO{{Lock: l.Name, Takeover: experiments.Within(f.takeover)}}
	}
	return e
}
