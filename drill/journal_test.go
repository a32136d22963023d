package drill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A target that another run has not given back is refused; where nothing is shared, one is told of runs that were killed.
func TestATargetIsGivenBackFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	shared := []string{"redis://10.0.0.1:6379"}
	gone, self := testkit.Dead(t), undo.Find(os.Getpid())
	external := &experiments.Experiment{Name: "x", Redis: experiments.Redis{Mode: experiments.RedisExternal, URL: "rediss://10.0.0.1/3"}}
	local := &experiments.Experiment{Name: "x", Redis: experiments.Redis{Mode: experiments.RedisSpawn}}
	open := undo.Record{Kind: "pause"}
	for _, c := range []struct {
		name      string
		dir       string
		h         undo.Header
		e         *experiments.Experiment
		said      string // part of the refusal
		told      string // part of the warning
		undoFirst bool
	}{
		{name: "killed, beside the run", dir: "out/a", h: undo.Header{Targets: shared, Runner: gone, Opened: since}, e: external, said: "redis://10.0.0.1:6379 back since 2026-01-02T03:04:05Z; first: lockdrill recover out/a"},
		{name: "killed, in runs", dir: "runs/a", h: undo.Header{Targets: shared, Runner: gone, Opened: since}, e: external, said: "first: lockdrill recover runs/a"},
		{name: "at work", dir: "runs/a", h: undo.Header{Targets: shared, Runner: self, Opened: since}, e: external, said: "in use by the run in runs/a since 2026-01-02T03:04:05Z"},
		{name: "undone", dir: "runs/a", h: undo.Header{Targets: shared, Runner: gone}, e: external, undoFirst: true},
		{name: "another target", dir: "out/a", h: undo.Header{Targets: []string{"redis://10.0.0.2:6379"}, Runner: gone}, e: external},
		{name: "nothing shared", dir: "runs/a", h: undo.Header{Runner: gone}, e: local, told: "lockdrill recover runs/a"},
		{name: "nothing shared, at work", dir: "runs/a", h: undo.Header{Runner: self}, e: local},
	} {
		_ = os.RemoveAll("runs")
		_ = os.RemoveAll("out")
		j := testkit.LeftBy(t, c.dir, c.h, open)
		if c.undoFirst {
			testkit.Must(t, j.Mark(1, undo.Undone, ""))
		}
		_ = j.Close() // open records keep it open
		var text strings.Builder
		err := guardTargets(func(line string) { text.WriteString(line) }, c.e, targets(t.Context(), c.e, nil), "out")
		refused := new(Error)
		if c.said != "" && (!errors.As(err, &refused) || refused.Status != verdict.ExitRefused || !strings.Contains(err.Error(), c.said)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.said)
		}
		if c.said == "" && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !strings.Contains(text.String(), c.told) || c.told == "" && text.Len() > 0 {
			t.Errorf("%s: told %q, want %q", c.name, text.String(), c.told)
		}
	}
}

// A runner that hangs: what is past its time is ended although the runner lives; the rest is done when it is dead.
func TestTheWatchdogDoesNotWaitForARunnerThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child, self := testkit.Sleeper(t)
	reaped := make(chan error, 1)
	go func() { _, err := child.Process.Wait(); reaped <- err }()
	_, other := testkit.Sleeper(t)
	late := undo.Record{Kind: undo.StandReplica, Process: &self, Until: time.Now().Add(-time.Second)}
	early := undo.Record{Kind: undo.StandReplica, Process: &other}
	j := testkit.LeftBy(t, dir, undo.Header{Run: "r", Runner: undo.Find(os.Getpid()), Deadline: time.Now().Add(time.Hour)}, early, late)
	read, write := io.Pipe()
	var log bytes.Buffer
	over := make(chan error, 1)
	go func() {
		over <- Watch(t.Context(), dir, read, Watching{Report: func(r undo.Report, err error) { fmt.Fprintf(&log, "%+v %v\n", r, err) }})
	}()
	select {
	case <-reaped:
	case err := <-over:
		t.Fatalf("the watchdog has left: %v\n%s", err, &log)
	case <-time.After(20 * time.Second):
		t.Fatal("what is overdue is not ended")
	}
	if alive, err := other.Lives(); err != nil || !alive {
		t.Errorf("what is not overdue was ended (%v)", err)
	}
	_ = j.Close() // gives the lock back, as a death does: not all is undone
	_ = write.Close()
	if err := <-over; err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
	c, err := undo.Read(filepath.Join(dir, undo.File))
	if err != nil || !c.Closed {
		t.Errorf("%+v, %v\n%s", c, err, &log)
	}
	if alive, err := other.Lives(); err != nil || alive {
		t.Errorf("a replica of a dead runner lives (%v)", err)
	}
}

// A watchdog whose journal is closed has no purpose any more, even if the runner goes on.
func TestTheWatchdogLeavesWithItsPurpose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := testkit.LeftBy(t, dir, undo.Header{Run: "r", Deadline: time.Now().Add(time.Hour)})
	w := watched(t, dir)
	testkit.Must(t, j.Close())
	if err := w.left(t); err != nil || w.log.Len() > 0 {
		t.Errorf("%v, %s", err, &w.log)
	}
}

// It stays with the journal that it has opened: one that loses its name, with its folder or to another file, or what stands in it, is undone
// when the runner is dead.
func TestTheWatchdogUndoesAJournalWithoutAName(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(dir string) error{
		"removed":        func(dir string) error { return os.Remove(filepath.Join(dir, undo.File)) },
		"folder removed": os.RemoveAll,
		"replaced": func(dir string) error {
			file := filepath.Join(dir, undo.File)
			return errors.Join(os.WriteFile(file+".new", nil, 0o600), os.Rename(file+".new", file))
		},
		"emptied": func(dir string) error { return os.Truncate(filepath.Join(dir, undo.File), 0) },
		"cut": func(dir string) error {
			data, err := os.ReadFile(filepath.Join(dir, undo.File))
			return errors.Join(err, os.Truncate(filepath.Join(dir, undo.File), int64(bytes.IndexByte(data, '\n')+1)))
		},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		child, self := testkit.Sleeper(t)
		reaped := make(chan error, 1)
		go func() { _, err := child.Process.Wait(); reaped <- err }()
		j := testkit.LeftBy(t, dir, undo.Header{Run: "r", Deadline: time.Now().Add(time.Hour)}, undo.Record{Kind: undo.StandReplica, Process: &self})
		w := watched(t, dir)
		testkit.Must(t, lose(dir))
		_ = j.Close() // gives the lock back, as a death does
		_ = w.runner.Close()
		if err := w.left(t); err != nil {
			t.Errorf("%s: %v\n%s", name, err, &w.log)
		}
		select {
		case <-reaped:
		default:
			if alive, err := self.Lives(); err != nil || alive {
				t.Errorf("%s: the replica lives (%v)\n%s", name, err, &w.log)
			}
		}
	}
}

// A runner that stands still gives its faults no more than their own time: they are over within twice that. One that is at work has the
// time that confirming and undoing take.
func TestAStalledRunnersFaultsEndInTheirTime(t *testing.T) {
	t.Parallel()
	const lasts = 2 * time.Second
	for _, stalled := range []bool{true, false} {
		dir := t.TempDir()
		child, self := testkit.Sleeper(t)
		reaped := make(chan error, 1)
		go func() { _, err := child.Process.Wait(); reaped <- err }()
		began := time.Now()
		testkit.LeftBy(t, dir, undo.Header{Run: "r", Runner: undo.Find(os.Getpid()), Deadline: began.Add(time.Hour)}, undo.Record{
			Kind: undo.StandReplica, Process: &self, Ends: began.Add(lasts), Until: began.Add(time.Hour),
			Shot: history.Event{Fault: &history.Fault{Declared: int64(lasts)}},
		})
		w := watched(t, dir)
		done := make(chan struct{})
		if !stalled {
			go func() {
				for tick := time.NewTicker(beatEvery); ; {
					select {
					case <-tick.C:
						_, _ = w.runner.Write([]byte("."))
					case <-done:
						return
					}
				}
			}()
		}
		over := time.NewTimer(2 * lasts)
		select {
		case <-reaped:
			if took := time.Since(began); !stalled || took < lasts {
				t.Errorf("stalled %t: the fault was ended after %s", stalled, took)
			}
		case <-over.C:
			if stalled {
				t.Errorf("after %s the fault is still there", 2*lasts)
			}
		}
		close(done)
		_ = w.runner.Close()
	}
}

// watching is a watchdog at work.
type watching struct {
	runner *io.PipeWriter
	over   chan error
	log    bytes.Buffer
}

// watched starts a watchdog and returns once it has read the journal: before that it hears no sign of life.
func watched(t *testing.T, dir string) *watching {
	t.Helper()
	read, write := io.Pipe()
	w := &watching{runner: write, over: make(chan error, 1)}
	journal, err := undo.Open(dir, false)
	testkit.Must(t, err)
	go func() {
		defer journal.Close()
		w.over <- Watching{Report: func(r undo.Report, err error) {
			if len(r.Outcomes) > 0 || err != nil {
				fmt.Fprintf(&w.log, "%+v %v\n", r, err)
			}
		}}.watch(t.Context(), dir, journal, read)
	}()
	if _, err := write.Write([]byte{'.'}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *watching) left(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.over:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the watchdog stays")
		return nil
	}
}

// So is what a run leaves that does not come to a drill.
func TestARunThatGivesUpNamesWhatItLeaves(t *testing.T) {
	dir := t.TempDir()
	_, self := testkit.Sleeper(t)
	d := &Drill{dir: dir, e: &experiments.Experiment{Name: "e"}, journal: testkit.LeftBy(t, dir, undo.Header{Run: "r"}, undo.Record{Kind: undo.StandReplica, Process: &self})}
	experiment := filepath.Join(dir, ExperimentFile) // what a record may name stands in it, as long as one is open
	testkit.Must(t, os.WriteFile(experiment, nil, 0o600))
	end := new(Error)
	left, err := d.giveUp(t.Context(), errors.New("why"))
	if _, gone := os.Stat(experiment); gone != nil {
		t.Errorf("its experiment: %v", gone)
	}
	if !errors.As(err, &end) || end.Status != verdict.ExitDirty {
		t.Errorf("%v", err)
	}
	if left == nil || !left.Left() || left.Dir != dir || len(left.Journal.Open()) != 1 {
		t.Errorf("%+v", left)
	}
}

// A drill that breaks off ends with 1, and with 20 where its journal does not say that everything is undone; either is said.
func TestADrillThatBreaksOffSaysWhatIsLeft(t *testing.T) {
	broke := errors.New("run: write history: no space left on device")
	for left, want := range map[bool]int{false: 0, true: verdict.ExitDirty} {
		dir := filepath.Join(t.TempDir(), "run")
		j := testkit.LeftBy(t, dir, undo.Header{Run: "r"})
		if left {
			if _, err := j.Intend(undo.Record{Kind: "pause", Process: &undo.Process{PID: 7}}); err != nil {
				t.Fatal(err)
			}
		}
		_ = j.Close()
		d := &Drill{dir: dir, e: &experiments.Experiment{Name: "x"}}
		ending, err := d.conclude(broke)
		var end int
		if e := new(Error); errors.As(err, &e) {
			end = e.Status
		}
		if end != want || !errors.Is(err, broke) || strings.Contains(err.Error(), "not everything") != left || ending.Left() != left {
			t.Errorf("left %t: %d, %v, %+v", left, end, err, ending)
		}
	}
}

// A run whose journal says nonsense at its end has no verdict: what is undone is known to the run alone.
func TestARunWhoseJournalCannotBeReadHasNoVerdict(t *testing.T) {
	for left, want := range map[bool]int{false: 0, true: verdict.ExitDirty} {
		dir := filepath.Join(t.TempDir(), "run")
		j := testkit.LeftBy(t, dir, undo.Header{Run: "r"}, undo.Record{Kind: "pause", Process: &undo.Process{PID: 7}})
		if !left {
			testkit.Must(t, j.Mark(1, undo.Undone, ""))
		}
		_ = j.Close()
		f, err := os.OpenFile(filepath.Join(dir, undo.File), os.O_WRONLY|os.O_APPEND, 0)
		testkit.Must(t, err)
		if _, err := f.WriteString(`{"hello":1}` + "\n"); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		d := &Drill{dir: dir, e: &experiments.Experiment{Name: "x"}, journal: j}
		ending, err := d.conclude(nil)
		var end int
		if e := new(Error); errors.As(err, &e) {
			end = e.Status
		}
		if err == nil || end != want || ending.Left() != left {
			t.Errorf("left %t: %d, %v, %+v", left, end, err, ending)
		}
	}
}

// What the history of a run tells and its journal does not, the journal has lost.
func TestAJournalThatLacksWhatTheHistoryTells(t *testing.T) {
	shot := history.Event{Kind: history.FaultIntent, Op: "p#1", Fault: &history.Fault{ID: "p", Shot: 1, Kind: "pause"}}
	header := undo.Header{V: undo.Version, Run: "r"}
	for name, c := range map[string]struct {
		header  bool // of the history
		end     bool
		journal undo.Content
		want    string
	}{
		"all of it":                {true, false, undo.Content{Header: header, Entries: []undo.Entry{{ID: 1, Record: undo.Record{Shot: shot}}}}, ""},
		"emptied":                  {true, false, undo.Content{}, "its beginning"},
		"emptied, and closed":      {true, false, undo.Content{Closed: true}, "its beginning"},
		"without the record":       {true, false, undo.Content{Header: header}, "the record of p#1"},
		"of a run with a good end": {true, true, undo.Content{}, ""},
		"before the history began": {false, false, undo.Content{}, ""},
	} {
		dir := t.TempDir()
		var text bytes.Buffer
		if c.header {
			now := int64(0)
			rec, err := history.NewRecorder(&text, history.Header{Run: "r", Experiment: "e", Started: "2026-01-01T00:00:00Z", Mode: history.Live, TimeScale: 1}, func() int64 { now++; return now }, nil)
			testkit.Must(t, err)
			applied := shot
			applied.Kind, applied.Source, applied.Span = history.FaultApplied, "runner", history.At(1)
			events := []history.Event{applied}
			if c.end {
				events = append(events, history.Event{Kind: history.RunEnd, Source: "runner", Note: &history.Note{What: "completed", OK: true}})
			}
			for _, e := range events {
				if _, err := rec.RecordNow(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		testkit.Must(t, os.WriteFile(filepath.Join(dir, HistoryFile), text.Bytes(), 0o600))
		if lost, err := Lacks(dir, &c.journal); lost != c.want || err != nil {
			t.Errorf("%s: %q, want %q; %v", name, lost, c.want, err)
		}
	}
}
