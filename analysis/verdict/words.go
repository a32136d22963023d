package verdict

import "strings"

// Words of Abandonment.Timing and Need.
const (
	Timely       = "timely"
	Late         = "late"
	Missed       = "missed"
	Needed       = "needed"
	Needless     = "needless"
	Undetermined = "undetermined"
)

// Measures of what only a live run has: in virtual time nobody serves metrics or writes logs, and 0 would be no answer.
const (
	measureMetric = "metric"
	MeasureLogs   = "logs"
)

func LiveOnly(measure string) bool {
	name, _, _ := strings.Cut(measure, ".")
	return name == measureMetric || name == MeasureLogs
}

// Levels of overlap.
const (
	LevelBelief = "belief"
	LevelWork   = "work"
	LevelEffect = "effect"
)
