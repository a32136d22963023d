package verdict

import "github.com/lockdrill/lockdrill/history"

// Status of a run.
const (
	StatusCompleted = "completed"
	StatusAborted   = "aborted"
	StatusError     = "error"
	StatusCutOff    = "cut-off" // the history has no end
)

// RunInfo says which run it was.
type RunInfo struct {
	ID         string         `json:"id"`
	Experiment string         `json:"experiment"`
	Status     string         `json:"status"`  // completed, aborted, error, cut-off (the history has no end)
	Started    string         `json:"started"` // RFC 3339 UTC
	Ended      string         `json:"ended"`   // started + the last event
	Seconds    float64        `json:"seconds"`
	Seed       int64          `json:"seed"`
	TimeScale  float64        `json:"timeScale"`
	Labels     history.Labels `json:"labels,omitempty"`
	Live       bool           `json:"live"` // false: a rehearsal, which never satisfies a live SLO
	Steady     bool           `json:"steady"`
	CleanedUp  bool           `json:"cleanedUp"`
}
