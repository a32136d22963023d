package gameday

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Concluded is what the log and the verdicts of the runs say.
func (d *Day) Concluded() (*verdict.GameDay, error) {
	first := d.log.entries[0]
	g := &verdict.GameDay{
		SchemaVersion: 1, Name: d.Sheet.Name, Hypothesis: d.Sheet.Hypothesis, Owner: d.Sheet.Owner, Roles: d.Sheet.Roles, StopCriterion: d.Sheet.StopCriterion,
		Tool: first.Tool, Sheet: first.Sheet, Started: first.At, Steps: []verdict.GameDayStep{}, Figures: []verdict.GameDayFigure{}, Observations: []verdict.Observation{},
	}
	for i, s := range d.Sheet.Steps {
		g.Steps = append(g.Steps, verdict.GameDayStep{N: i + 1, Name: stepName(i, s), Drill: s.Drill, Manual: s.Manual, Outcome: verdict.StepNotRun})
	}
	for _, e := range d.log.entries {
		switch e.Kind {
		case observed:
			g.Observations = append(g.Observations, verdict.Observation{At: e.At, Who: e.Who, Step: e.Step, Text: e.Text})
		case dayEnds:
			g.Ended, g.Stopped = e.At, e.Text
		case stepBegins, stepEnds:
			if e.Step < 1 || e.Step > len(g.Steps) {
				return nil, fmt.Errorf("%s: an entry is of step %d, and there are %d", d.log.file.Name(), e.Step, len(g.Steps))
			}
			note(&g.Steps[e.Step-1], e)
		}
	}
	var codes []int
	for i := range g.Steps {
		s := &g.Steps[i]
		switch {
		case s.ExitCode != nil:
			codes = append(codes, *s.ExitCode)
		case s.Outcome != verdict.StepDone: // visible, and never a pass
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
				g.Figures = append(g.Figures, verdict.GameDayFigure{Step: s.N, Experiment: s.Judged.Run.Experiment, TimeScale: s.Judged.Run.TimeScale, SLOResult: row})
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

// note takes what the log says of a step: the last try counts.
func note(s *verdict.GameDayStep, e entry) {
	if e.Kind == stepBegins {
		if s.Folder != "" {
			s.Aborted = append(s.Aborted, s.Folder)
		}
		if s.Started == "" {
			s.Started = e.At
		}
		s.Who, s.Folder, s.Outcome, s.ExitCode, s.Verdict = e.Who, e.Folder, verdict.StepAborted, nil, ""
		return
	}
	s.Ended, s.Who, s.Outcome, s.Note, s.ExitCode, s.Verdict = e.At, e.Who, e.Outcome, e.Text, e.Exit, ""
	if e.Exit != nil {
		s.Verdict = verdict.ExitName(*e.Exit)
	}
}

func read(s *verdict.GameDayStep, dir string) error {
	path := filepath.Join(dir, "verdict.json")
	data, err := os.ReadFile(path)
	if err != nil { // it was cut off before it had one, and the step's outcome says so
		return nil
	}
	if err := json.Unmarshal(data, &s.Judged); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
