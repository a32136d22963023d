package gameday

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/regular"
)

// Document is what several drills and the steps of people between them came to: gameday.json.
type Document struct {
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
	Steps         []Step            `json:"steps"`
	Figures       []Figure          `json:"figures"`
	Observations  []Observation     `json:"observations"`
}

// Outcomes of a step.
const (
	StepDone    = "done"
	StepSkipped = "skipped"
	StepAborted = "aborted"
	StepNotRun  = "not run"
)

// Step is one step. Of a drill that was asked again it is the last try.
type Step struct {
	N        int                `json:"n"` // from 1
	Name     string             `json:"name"`
	Drill    string             `json:"drill,omitempty"`
	Manual   string             `json:"manual,omitempty"`
	Outcome  string             `json:"outcome"`
	ExitCode *int               `json:"exitCode,omitempty"`
	Verdict  string             `json:"verdict,omitempty"`
	Started  string             `json:"started,omitempty"`
	Ended    string             `json:"ended,omitempty"`
	Who      string             `json:"who,omitempty"`
	Note     string             `json:"note,omitempty"`
	Folder   string             `json:"folder,omitempty"`  // of its run, within that of the game day
	Aborted  []string           `json:"aborted,omitempty"` // folders of the tries that were cut off
	Judged   *verdict.Judgement `json:"-"`                 // nil where the run has no verdict
}

// Figure is a row of one of the drills.
type Figure struct {
	Step       int     `json:"step"`
	Experiment string  `json:"experiment"`
	TimeScale  float64 `json:"timeScale"`
	verdict.SLOResult
}

// Observation is what somebody has written down on the day.
type Observation struct {
	At   string `json:"at"`
	Who  string `json:"who"`
	Step int    `json:"step,omitempty"` // the step that was under way, from 1
	Text string `json:"text"`
}

// Concluded is what the log and the verdicts of the runs say.
func (d *Day) Concluded() (*Document, error) {
	first := d.log.entries[0]
	g := &Document{
		SchemaVersion: 1, Name: d.Sheet.Name, Hypothesis: d.Sheet.Hypothesis, Owner: d.Sheet.Owner, Roles: d.Sheet.Roles, StopCriterion: d.Sheet.StopCriterion,
		Tool: first.Tool, Sheet: first.Sheet, Started: first.At, Steps: []Step{}, Figures: []Figure{}, Observations: []Observation{},
	}
	for i, s := range d.Sheet.Steps {
		g.Steps = append(g.Steps, Step{N: i + 1, Name: stepName(i, s), Drill: s.Drill, Manual: s.Manual, Outcome: StepNotRun})
	}
	for _, e := range d.log.entries {
		switch e.Kind {
		case observed:
			g.Observations = append(g.Observations, Observation{At: e.At, Who: e.Who, Step: e.Step, Text: e.Text})
		case dayEnds:
			g.Ended, g.Stopped = e.At, e.Text
		case stepBegins, stepEnds:
			if e.Step < 1 || e.Step > len(g.Steps) {
				return nil, fmt.Errorf("%s: an entry is of step %d, and there are %d", d.log.file.Name(), e.Step, len(g.Steps))
			}
			note(&g.Steps[e.Step-1], e)
		}
	}
	late, err := notesIn(d.Dir)
	if err != nil {
		return nil, err
	}
	g.Observations = append(g.Observations, late...)
	var codes []int
	for i := range g.Steps {
		s := &g.Steps[i]
		switch {
		case s.ExitCode != nil:
			codes = append(codes, *s.ExitCode)
		case s.Outcome != StepDone: // visible, and never a pass
			codes = append(codes, verdict.ExitInconclusive)
		}
		if s.Folder == "" {
			continue
		}
		if err := read(s, filepath.Join(d.Dir, s.Folder)); err != nil {
			return nil, err
		}
		if s.Judged != nil {
			for _, row := range s.Judged.Rows() {
				g.Figures = append(g.Figures, Figure{Step: s.N, Experiment: s.Judged.Run.Experiment, TimeScale: s.Judged.Run.TimeScale, SLOResult: row})
			}
		}
	}
	if g.Stopped == "interrupted" {
		codes = append(codes, verdict.ExitAborted)
	}
	g.ExitCode = verdict.WorstExit(codes...)
	g.Verdict = verdict.ExitName(g.ExitCode)
	return g, nil
}

// notesIn are the observations that people have written into NotesFile after the day, a paragraph each.
func notesIn(dir string) (all []Observation, err error) {
	path := filepath.Join(dir, NotesFile)
	text, err := regular.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	for _, paragraph := range strings.Split(string(text), "\n\n") {
		if words := strings.Join(strings.Fields(paragraph), " "); words != "" {
			all = append(all, Observation{At: info.ModTime().UTC().Format(time.RFC3339), Who: NotesFile, Text: words})
		}
	}
	return all, nil
}

// note takes what the log says of a step: the last try counts.
func note(s *Step, e entry) {
	if e.Kind == stepBegins {
		if s.Folder != "" {
			s.Aborted = append(s.Aborted, s.Folder)
		}
		if s.Started == "" {
			s.Started = e.At
		}
		s.Who, s.Folder, s.Outcome, s.ExitCode, s.Verdict = e.Who, e.Folder, StepAborted, nil, ""
		return
	}
	s.Ended, s.Who, s.Outcome, s.Note, s.ExitCode, s.Verdict = e.At, e.Who, e.Outcome, e.Text, e.Exit, ""
	if e.Exit != nil {
		s.Verdict = verdict.ExitName(*e.Exit)
	}
}

func read(s *Step, dir string) error {
	path := filepath.Join(dir, "verdict.json")
	data, err := regular.Read(path)
	if err != nil { // it was cut off before it had one, and the step's outcome says so
		return nil
	}
	if err := json.Unmarshal(data, &s.Judged); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
