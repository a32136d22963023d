package verdict

import "github.com/lockdrill/lockdrill/history"

// ArchiveVersion is the schema version of the document of `lockdrill history`.
const ArchiveVersion = 1

// Archive is the document of `lockdrill history`: what runs have said over time. It has no score. Durations are seconds, slices are never null.
type Archive struct {
	SchemaVersion int                  `json:"schemaVersion"`
	Experiments   []ArchivedExperiment `json:"experiments"` // by name
	Unread        []UnreadRun          `json:"unread"`
}

// ArchivedExperiment has the runs of one experiment by their start.
type ArchivedExperiment struct {
	Name    string           `json:"name"`
	Runs    []ArchivedRun    `json:"runs"`
	Rows    []ArchivedRow    `json:"rows"`
	Changes []ArchivedChange `json:"changes"` // between the runs of one set of labels and those of the next
}

// ArchivedRun is one run.
type ArchivedRun struct {
	ID      string         `json:"id"`
	Folder  string         `json:"folder"`
	Started string         `json:"started"`
	Verdict string         `json:"verdict"`
	Why     string         `json:"why,omitempty"` // why it is no pass
	Labels  history.Labels `json:"labels,omitempty"`
	Changed []string       `json:"changed,omitempty"` // labels and settings that are not those of the run before
	Idle    float64        `json:"idle,omitempty"`    // seconds since the run before, where that is more than twice as long as usual
}

// ArchivedRow is one row of the SLOs over the runs.
type ArchivedRow struct {
	Lock    string          `json:"lock"`
	Measure string          `json:"measure"`
	Unit    string          `json:"unit"`
	Ask     Ask             `json:"ask,omitempty"`
	Values  []ArchivedValue `json:"values"`
}

// ArchivedValue is what one run said of a row.
type ArchivedValue struct {
	Run     int      `json:"run"` // index of the experiment's runs
	Limit   float64  `json:"limit"`
	Lo      float64  `json:"lo"`
	Hi      *float64 `json:"hi"` // null = its end was not seen
	N       int      `json:"n"`
	Verdict Verdict  `json:"verdict"`
	Why     string   `json:"why,omitempty"`
}

// ArchivedChange holds the runs of one set of labels beside those of the next.
type ArchivedChange struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Answer  Answer   `json:"answer"`
	Reasons []string `json:"reasons"`
}

// UnreadRun is the folder of a run that cannot be read.
type UnreadRun struct {
	Folder string `json:"folder"`
	Why    string `json:"why"`
}
