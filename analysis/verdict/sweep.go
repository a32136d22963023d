package verdict

// SweepVersion is the schema version of a sweep's document.
const SweepVersion = 1

// Outcome is what one step of a sweep came to.
type Outcome string

const (
	Held      Outcome = "held"      // every promise was kept
	Broken    Outcome = "broken"    // a promise was surely broken
	Machine   Outcome = "machine"   // the machine that drills was too slow to tell
	Undecided Outcome = "undecided" // neither: something else was missing
)

// Sweep is how far one dial of an experiment can be turned before a promise breaks, or before the machine does. Slices are never null.
type Sweep struct {
	SchemaVersion int         `json:"schemaVersion"`
	Experiment    string      `json:"experiment"`
	Dial          string      `json:"dial"` // rate (jobs a second), replicas, hold (the median, in seconds)
	Lock          string      `json:"lock"` // whose stream of jobs; "" for replicas
	Live          bool        `json:"live"` // false: rehearsed, which says nothing about a live system
	Seeds         int64       `json:"seeds,omitempty"`
	From          float64     `json:"from"`
	To            float64     `json:"to"`
	Steps         []SweepStep `json:"steps"` // by their values
	// The safe ceiling lies in [Holds, Breaks]. Holds is null where nothing held, Breaks where nothing below To failed to.
	Holds  *float64 `json:"holds"`
	Breaks *float64 `json:"breaks"`
	By     Outcome  `json:"by,omitempty"` // what happened at Breaks: broken, machine or undecided
}

// SweepStep is the drill at one value of the dial.
type SweepStep struct {
	Value   float64    `json:"value"`
	Outcome Outcome    `json:"outcome"`
	Why     string     `json:"why"`           // of what did not hold
	Run     string     `json:"run,omitempty"` // live: the run's folder
	Rows    []SweepRow `json:"rows"`
}

// SweepRow is one row of the SLOs at a step.
type SweepRow struct {
	Lock    string   `json:"lock"`
	Measure string   `json:"measure"`
	Unit    string   `json:"unit"`
	Ask     Ask      `json:"ask,omitempty"`
	Limit   float64  `json:"limit"`
	Lo      *float64 `json:"lo"` // of what was measured; rehearsed: the least of all seeds; null = nothing was
	Hi      *float64 `json:"hi"` // likewise the most; null = its end was not seen
	Verdict Verdict  `json:"verdict"`
}
