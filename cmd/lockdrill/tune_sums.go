package main

import (
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// sumsDoc is the document of `tune --profile NAME -f json` where no jitter is given: the sums of the profile as it is.
type sumsDoc struct {
	SchemaVersion int            `json:"schemaVersion"`
	Profile       string         `json:"profile"`
	Sums          []lockcore.Sum `json:"sums"`
}

// sums works out L1 to L8 of a shipped profile, under the work and the takeover that are given.
func (f *tuneFlags) sums(io streams) error {
	data := sumsDoc{SchemaVersion: 1, Profile: f.profile, Sums: []lockcore.Sum{}}
	l, err := experiments.Profile(f.profile)
	if err != nil {
		return usagef("lockdrill tune: %w", err)
	}
	lints := forecast.Lints(f.profiled(l), 0)
	for _, lint := range lints {
		data.Sums = append(data.Sums, lint.Sum)
	}
	return present(io, *f.output, data, reports.Sums(f.profile, lints), doc.Full, doc.Full)
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
