package verdict

import "github.com/lockdrill/lockdrill/history"

// PooledVersion is the schema version of the document of `lockdrill judge --pool`.
const PooledVersion = 1

// Pooled is the document of `lockdrill judge --pool`: what many runs of one question say of its quantiles together. Durations are seconds.
// Slices are never null.
type Pooled struct {
	SchemaVersion int            `json:"schemaVersion"`
	Experiment    string         `json:"experiment"`
	Labels        history.Labels `json:"labels,omitempty"` // that all runs have
	Start         string         `json:"start"`            // what fixed which runs belong to it before the first of them began; "" = nothing did, so no row passes
	Verdict       string         `json:"verdict"`          // pass, slo-failed, inconclusive, refused
	ExitCode      int            `json:"exitCode"`         // 0, 10, 11, 13
	Reasons       []string       `json:"reasons"`          // what keeps it from a pass, the most telling first
	Rows          []PooledRow    `json:"rows"`
	Differences   []Difference   `json:"differences"`
	Runs          []PooledRun    `json:"runs"` // by start
}

// PooledRow is one quantile over all runs. A kill counts by its worst key.
type PooledRow struct {
	Lock    string      `json:"lock"`
	Measure string      `json:"measure"` // takeover.p95
	Limit   float64     `json:"limit"`
	Of      string      `json:"of"`     // kill, burst, pause ...
	N       int         `json:"n"`      // of them
	Surely  int         `json:"surely"` // that surely were over the limit
	Maybe   int         `json:"maybe"`  // that may have been, those included
	Verdict Verdict     `json:"verdict"`
	Why     string      `json:"why"`
	More    int         `json:"more,omitempty"` // inconclusive: so many more that keep the limit would be enough
	Runs    []PooledHit `json:"runs"`
}

// PooledHit is what one run gave to a row.
type PooledHit struct {
	Run    string `json:"run"`
	N      int    `json:"n"`
	Surely int    `json:"surely"`
	Maybe  int    `json:"maybe"`
	Why    string `json:"why,omitempty"` // why all of them may have been over the limit
}

// PooledRun is one of the runs.
type PooledRun struct {
	ID      string   `json:"id"`
	Folder  string   `json:"folder"`
	Started string   `json:"started"`
	Verdict string   `json:"verdict"`
	Failed  []string `json:"failed,omitempty"` // rows that no number of kills makes right
}
