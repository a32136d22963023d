package gameday

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// stand is a game day of three steps whose drills are the test's.
type stand struct {
	Options
	said, ran, undone []string
	exits             []int // of the next drills; then all pass
	recovers          []int // of the next recoveries; then all pass
}

func newStand(t *testing.T, stop ...string) *stand {
	t.Helper()
	s := &stand{}
	next := func(of *[]int) int {
		if len(*of) == 0 {
			return verdict.ExitPass
		}
		code := (*of)[0]
		*of = (*of)[1:]
		return code
	}
	text := "a sheet"
	s.Options = Options{
		Sheet: &experiments.GameDay{Name: "day", StopWhen: &experiments.StopWhen{Exit: stop}, Steps: []experiments.GameDayStep{{Drill: "a"}, {Name: "look", Manual: "look", Optional: true}, {Drill: "b"}}},
		Text:  []byte(text), Drills: "sha256:drills", Dir: filepath.Join(t.TempDir(), "days", "day"), Who: "ada",
		Say: func(format string, args ...any) { s.said = append(s.said, fmt.Sprintf(format, args...)) },
		Run: func(_ context.Context, drill, dir string) (int, error) {
			s.ran = append(s.ran, filepath.Base(dir))
			return next(&s.exits), os.Mkdir(dir, 0o755)
		},
		Recover: func(_ context.Context, dir string) (int, error) {
			s.undone = append(s.undone, filepath.Base(dir))
			return next(&s.recovers), nil
		},
	}
	return s
}

// lead leads the day until it ends or stops.
func (s *stand) lead(t *testing.T, ctx context.Context, typed ...string) *Document {
	t.Helper()
	s.Terminal, s.Lines = len(typed) > 0, nil
	if s.Terminal {
		lines := make(chan string, len(typed))
		for _, line := range typed {
			lines <- line
		}
		close(lines)
		s.Lines = lines
	}
	s.said, s.ran, s.undone = nil, nil, nil
	d, err := Open(s.Options)
	testkit.Must(t, err)
	defer d.Close()
	testkit.Must(t, d.Lead(ctx))
	g, err := d.Concluded()
	testkit.Must(t, err)
	s.Resume = true
	return g
}

func outcomes(g *Document) (all []string) {
	for _, s := range g.Steps {
		all = append(all, s.Outcome)
	}
	return all
}

func TestADayIsLed(t *testing.T) {
	for _, c := range []struct {
		name     string
		stop     []string
		exits    []int
		typed    []string
		ran      []string
		outcomes []string
		exit     int
		stopped  string
	}{
		{"all pass, and nobody is there", nil, nil, nil, []string{"01-step-1", "03-step-3"}, []string{StepDone, StepSkipped, StepDone}, verdict.ExitInconclusive, ""},
		{"all pass, and somebody looks", nil, nil, []string{"the pager rang", ""}, []string{"01-step-1", "03-step-3"}, []string{StepDone, StepDone, StepDone}, verdict.ExitPass, ""},
		{"a failed promise goes on", nil, []int{verdict.ExitSLOFailed}, []string{""}, []string{"01-step-1", "03-step-3"}, []string{StepDone, StepDone, StepDone}, verdict.ExitSLOFailed, ""},
		{"a stop criterion", []string{"slo-failed"}, []int{verdict.ExitSLOFailed}, []string{""}, []string{"01-step-1"}, []string{StepDone, StepNotRun, StepNotRun}, verdict.ExitSLOFailed, "stop criterion"},
		{"something left behind always stops", nil, []int{verdict.ExitDirty}, []string{""}, []string{"01-step-1"}, []string{StepDone, StepNotRun, StepNotRun}, verdict.ExitDirty, "stop criterion"},
		{"people skip", nil, nil, []string{"skip"}, []string{"01-step-1", "03-step-3"}, []string{StepDone, StepSkipped, StepDone}, verdict.ExitInconclusive, ""},
		{"people stop", nil, nil, []string{"stop"}, []string{"01-step-1"}, []string{StepDone, StepSkipped, StepNotRun}, verdict.ExitInconclusive, "stopped by ada"},
		{"the terminal ends", nil, nil, []string{"an observation"}, []string{"01-step-1"}, []string{StepDone, StepAborted, StepNotRun}, verdict.ExitAborted, "interrupted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t, c.stop...)
			s.exits = c.exits
			g := s.lead(t, t.Context(), c.typed...)
			if !slices.Equal(s.ran, c.ran) || !slices.Equal(outcomes(g), c.outcomes) || g.ExitCode != c.exit || !strings.HasPrefix(g.Stopped, c.stopped) || (c.stopped == "") != (g.Stopped == "") {
				t.Errorf("ran %v, %v, status %d, stopped %q", s.ran, outcomes(g), g.ExitCode, g.Stopped)
			}
			if len(c.typed) == 2 && (len(g.Observations) != 1 || g.Observations[0].Text != c.typed[0] || g.Observations[0].Who != "ada" || g.Observations[0].Step != 2) {
				t.Errorf("observed %+v", g.Observations)
			}
		})
	}
}

// What is done is not done again; where the day stopped it goes on, also after something was left behind and undone since.
func TestAStoppedDayGoesOn(t *testing.T) {
	s := newStand(t)
	s.lead(t, t.Context(), "stop")
	if g := s.lead(t, t.Context(), ""); !slices.Equal(s.ran, []string{"03-step-3"}) || g.ExitCode != verdict.ExitPass || g.Stopped != "" {
		t.Errorf("after a stop: ran %v, %+v", s.ran, g)
	}
	if g := s.lead(t, t.Context(), "not read"); len(s.ran) > 0 || g.ExitCode != verdict.ExitPass {
		t.Errorf("a day that is over: ran %v, %+v", s.ran, g)
	}
	s = newStand(t)
	s.exits = []int{verdict.ExitDirty}
	s.lead(t, t.Context(), "")
	s.recovers = []int{verdict.ExitDirty}
	if g := s.lead(t, t.Context(), ""); len(s.ran) > 0 || !slices.Equal(s.undone, []string{"01-step-1"}) || g.ExitCode != verdict.ExitDirty {
		t.Errorf("still dirty: ran %v, undone %v, %+v", s.ran, s.undone, g)
	}
	g := s.lead(t, t.Context(), "", "")
	if !slices.Equal(s.ran, []string{"01-step-1-try2", "03-step-3"}) || g.ExitCode != verdict.ExitPass || !slices.Equal(g.Steps[0].Aborted, []string{"01-step-1"}) {
		t.Errorf("undone since: ran %v, %+v", s.ran, g.Steps[0])
	}
}

// A drill whose leader was killed is waited for until its watchdog has undone it, and run again.
func TestACutOffDrillIsWaitedForAndRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		run := s.Run
		s.Run = func(_ context.Context, _, dir string) (int, error) {
			return 0, errors.Join(errors.New("killed"), os.Mkdir(dir, 0o755))
		}
		d, err := Open(s.Options)
		testkit.Must(t, err)
		if err := d.Lead(t.Context()); err == nil {
			t.Fatal("the leader was not killed")
		}
		testkit.Must(t, d.Close())
		s.Run, s.Resume = run, true
		s.recovers = []int{verdict.ExitRefused, verdict.ExitRefused}
		g := s.lead(t, t.Context(), "", "")
		if len(s.undone) != 3 || !slices.Equal(s.ran, []string{"01-step-1-try2", "03-step-3"}) || g.ExitCode != verdict.ExitPass {
			t.Errorf("undone %v, ran %v, %+v", s.undone, s.ran, g)
		}
	})
}

func TestADayHasOneLeaderAndOneSheet(t *testing.T) {
	s := newStand(t)
	d, err := Open(s.Options)
	testkit.Must(t, err)
	again := s.Options
	again.Resume = true
	if _, err := Open(again); !errors.Is(err, ErrBusy) {
		t.Errorf("a second leader: %v", err)
	}
	testkit.Must(t, d.Close())
	for name, change := range map[string]func(*Options){
		"another sheet": func(o *Options) { o.Text = []byte("another") },
		"has changed":   func(o *Options) { o.Drills = "sha256:others" },
		"has no":        func(o *Options) { o.Dir = t.TempDir() },
	} {
		o := again
		change(&o)
		if _, err := Open(o); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a killed process has half written was never there; the next line stands by itself.
func TestATornLastLineIsDropped(t *testing.T) {
	s := newStand(t)
	s.lead(t, t.Context(), "stop")
	path := filepath.Join(s.Dir, LogFile)
	whole, err := os.ReadFile(path)
	testkit.Must(t, err)
	for cut := 1; cut <= 20; cut++ {
		testkit.Must(t, os.WriteFile(path, append(slices.Clone(whole), `{"kind":"step-ends","step":3,"outcome":"done","exit":0}`[:cut]...), 0o644))
		d, err := Open(s.Options)
		testkit.Must(t, err)
		testkit.Must(t, errors.Join(d.log.add(entry{Kind: observed, Text: "seen"}), d.Close()))
		got, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(got), string(whole)+`{"at"`) {
			t.Fatalf("cut at %d: %s, %v", cut, got, err)
		}
	}
}
