package verdict

// GameDay is what several drills and the steps of people between them came to: gameday.json.
type GameDay struct {
	SchemaVersion int               `json:"schemaVersion"`
	Name          string            `json:"name"`
	Hypothesis    string            `json:"hypothesis"`
	Owner         string            `json:"owner"`
	Roles         map[string]string `json:"roles,omitempty"`
	StopCriterion string            `json:"stopCriterion"`
	Tool          string            `json:"tool"`
	Sheet         string            `json:"sheet"` // digest of the sheet
	Started       string            `json:"started"`
	Ended         string            `json:"ended,omitempty"`
	Verdict       string            `json:"verdict"` // the exit code's name
	ExitCode      int               `json:"exitCode"`
	Stopped       string            `json:"stopped,omitempty"` // why it ended before its last step
	Steps         []GameDayStep     `json:"steps"`
	Figures       []GameDayFigure   `json:"figures"`
	Observations  []Observation     `json:"observations"`
}

// Outcomes of a step.
const (
	StepDone    = "done"
	StepSkipped = "skipped"
	StepAborted = "aborted"
	StepNotRun  = "not run"
)

// GameDayStep is one step. Of a drill that was asked again it is the last try.
type GameDayStep struct {
	N        int        `json:"n"` // from 1
	Name     string     `json:"name"`
	Drill    string     `json:"drill,omitempty"`
	Manual   string     `json:"manual,omitempty"`
	Outcome  string     `json:"outcome"`
	ExitCode *int       `json:"exitCode,omitempty"`
	Verdict  string     `json:"verdict,omitempty"`
	Started  string     `json:"started,omitempty"`
	Ended    string     `json:"ended,omitempty"`
	Who      string     `json:"who,omitempty"`
	Note     string     `json:"note,omitempty"`
	Folder   string     `json:"folder,omitempty"`  // of its run, within that of the game day
	Aborted  []string   `json:"aborted,omitempty"` // folders of the tries that were cut off
	Judged   *Judgement `json:"-"`                 // nil where the run has no verdict
}

// GameDayFigure is a row of one of the drills.
type GameDayFigure struct {
	Step       int     `json:"step"`
	Experiment string  `json:"experiment"`
	TimeScale  float64 `json:"timeScale"`
	SLOResult
}

// Observation is what somebody has written down on the day.
type Observation struct {
	At   string `json:"at"`
	Who  string `json:"who"`
	Step int    `json:"step,omitempty"` // the step that was under way, from 1
	Text string `json:"text"`
}
