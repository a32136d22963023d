package compare

// ComparisonVersion is the schema version of the document of `lockdrill compare`.
const ComparisonVersion = 1

// Answer of a comparison.
type Answer string

const (
	NoRegression Answer = "no-regression" // every row was answered, and none is worse
	Regressed    Answer = "regressed"     // a row is worse, or correctness broke in the head and not in the base
	CannotSay    Answer = "cannot-say"    // too few runs, or runs that gave no answer themselves
	Refused      Answer = "refused"       // the environments differ: nothing was compared
)

// Word is what is said of one row.
type Word string

const (
	Worse     Word = "worse"  // significant, and beyond the tolerance
	Better    Word = "better" // the same, downwards
	Unchanged Word = "~"      // no difference was shown; that there is none is not claimed
	TooFew    Word = "too few"
	NoData    Word = "no data" // a side measured nothing, or does not have the row
)

// Comparison is the document of `lockdrill compare`: what the runs of a head show beside those of a base. Of every row less is
// better. Durations are seconds, ratios 0 to 1. Slices are never null.
type Comparison struct {
	SchemaVersion int               `json:"schemaVersion"`
	Experiment    string            `json:"experiment"` // of the base
	Rehearsal     bool              `json:"rehearsal"`  // both sides are rehearsals: nothing is said of a live system
	Answer        Answer            `json:"answer"`
	ExitCode      int               `json:"exitCode"`   // 0, 10, 11, 13
	Reasons       []string          `json:"reasons"`    // of the answer, the most telling first; empty = no regression
	Notes         []Note            `json:"notes"`      // what a reader of the figures should know
	Alpha         float64           `json:"alpha"`      // chance, at most, that any row is called worse or better where nothing has changed
	Tolerance     float64           `json:"tolerance"`  // share of the base's median that a change must exceed
	Confidence    float64           `json:"confidence"` // of each interval by itself
	Tested        int               `json:"tested"`     // rows that share alpha by Holm's correction
	Base          []ComparedRun     `json:"base"`       // by start time
	Head          []ComparedRun     `json:"head"`
	Differences   []Difference      `json:"differences"` // of the environments
	Correctness   []ComparedFailure `json:"correctness"` // without statistics
	Rows          []ComparedRow     `json:"rows"`
}

// Note is one thing that a reader of the figures should know; the document has the text alone.
type Note struct {
	Text    string
	Allowed bool // it is a difference that was allowed
}

// MarshalText makes a note its text.
func (n Note) MarshalText() ([]byte, error) { return []byte(n.Text), nil }

// UnmarshalText reads a note from a document.
func (n *Note) UnmarshalText(text []byte) error {
	n.Text = string(text)
	return nil
}

// ComparedRun is one run of a side.
type ComparedRun struct {
	ID       string `json:"id"`
	Folder   string `json:"folder"` // as it was named; "" = not said
	Started  string `json:"started"`
	Seed     int64  `json:"seed"`
	Verdict  string `json:"verdict"`       // as in verdict.json
	Answered bool   `json:"answered"`      // pass or slo-failed; of a rehearsal: its figures alone would give that
	Used     bool   `json:"used"`          // its figures are in the rows
	Why      string `json:"why,omitempty"` // why it is not answered, or not used
}

// Difference is one thing in which two runs do not match.
type Difference struct {
	Field   string `json:"field"`  // system.locks.job.policy.ttl, store.version, tool ...
	Base    string `json:"base"`   // in the first run of the base
	Head    string `json:"head"`   // in the other
	Run     string `json:"run"`    // the other: the first that differs so
	InBase  bool   `json:"inBase"` // it is of the base too: that side is mixed
	Allowed bool   `json:"allowed"`
}

// ComparedFailure is a correctness failure that was surely seen, all runs of a side taken together.
type ComparedFailure struct {
	What      string `json:"what"` // duplicate terminal states, stale writes applied, missed abandonments: job ...
	Base      int    `json:"base"` // how many
	Head      int    `json:"head"`
	Regressed bool   `json:"regressed"`     // there in the head, and not once in the base
	Run       string `json:"run,omitempty"` // the first run of the head that shows it
}

// ComparedRow is one measure of one lock.
type ComparedRow struct {
	Lock    string `json:"lock"`
	Measure string `json:"measure"` // as in verdict.json; takeover and tick_gap without their quantile: whole samples are compared
	Unit    string `json:"unit"`    // as in verdict.json
	Of      string `json:"of"`      // what one value is of: kill (or burst, pause ...), else run
	Word    Word   `json:"word"`
	Why     string `json:"why"`
	Needs   int    `json:"needs,omitempty"` // values a side that it takes before any difference could be significant, where there are too few

	Base ComparedSide `json:"base"`
	Head ComparedSide `json:"head"`

	Tested         bool      `json:"tested"`
	P              *float64  `json:"p"`              // two-sided, least favourable; null = not tested
	Adjusted       *float64  `json:"adjusted"`       // by Holm: significant up to alpha
	Shift          *Interval `json:"shift"`          // head - base (Hodges-Lehmann): what the ranges allow; null where a side has no value
	ShiftWithin    *Interval `json:"shiftWithin"`    // its confidence interval; null where there are too few values
	Relative       *Interval `json:"relative"`       // shift as a share of the base's median; null where that may be 0, or is open
	RelativeWithin *Interval `json:"relativeWithin"` // shiftWithin as a share of it
	Superiority    *Interval `json:"superiority"`    // chance that a value of the head is above one of the base; 0.5 = none is

	Parts []ComparedPart `json:"parts,omitempty"` // of takeovers
}

// ComparedSide is the sample of one side.
type ComparedSide struct {
	N      int             `json:"n"`
	Open   int             `json:"open"`   // of these, whose end was not seen
	Median *Interval       `json:"median"` // what the ranges allow; null = no value
	Within *Interval       `json:"within"` // its confidence interval; null where there are too few values
	Runs   []ComparedValue `json:"runs"`   // by start time, one a run that has a value
}

// ComparedValue is what one run measured: a point of the trend.
type ComparedValue struct {
	Run     string   `json:"run"`
	Started string   `json:"started"`
	N       int      `json:"n"`
	Median  Interval `json:"median"`
}

// ComparedPart is one of those that takeovers are made of. It says where a change of the whole comes from: it is not tested, and takes no
// share of alpha.
type ComparedPart struct {
	Name  string    `json:"name"`
	Base  *Interval `json:"base"` // median; null = it was not seen
	Head  *Interval `json:"head"`
	Shift *Interval `json:"shift"` // head - base (Hodges-Lehmann): what the ranges allow; null where a side has none
}

// Interval is a stretch of numbers; null = open at that end.
type Interval struct {
	Lo *float64 `json:"lo"`
	Hi *float64 `json:"hi"`
}
