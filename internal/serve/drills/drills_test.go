package drills

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/notice"
)

// The test binary stands for lockdrill where this variable is set: what it does is in the name of the drill's file.
const standsFor = "DRILLS_TEST_LOCKDRILL"

func TestMain(m *testing.M) {
	if os.Getenv(standsFor) != "" {
		os.Exit(lockdrill(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func lockdrill(args []string) int {
	value := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 {
			return args[i+1]
		}
		return ""
	}
	switch args[0] {
	case "plan":
		data, err := os.ReadFile(args[1])
		if err != nil {
			fmt.Println(err)
			return 2
		}
		fmt.Printf("would run %s\n\nhash  %s\n", filepath.Base(args[1]), experiments.Digest(data))
		return 0
	case "judge":
		return write(filepath.Join(args[1], verdictFile), `{"verdict": "aborted"}`)
	case "recover":
		return 0
	}
	data, _ := os.ReadFile(args[1])
	if want := value("--plan"); want != "" && want != experiments.Digest(data) {
		fmt.Println("refused: another plan")
		return 13
	}
	text, out := string(data), value("--out")
	if strings.Contains(text, "refuse") {
		fmt.Println("refused: a guard says no")
		return 13
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return 1
	}
	write(filepath.Join(out, historyFile), "{}\n")
	verdict := "pass"
	if strings.Contains(text, "fail") {
		verdict = "slo-failed"
	}
	if strings.Contains(text, "long") {
		sigs, closed := make(chan os.Signal, 1), make(chan struct{})
		signal.Notify(sigs, os.Interrupt)
		go func() { _, _ = io.Copy(io.Discard, os.NewFile(3, "pipe")); close(closed) }()
		write(filepath.Join(out, "ready"), strings.Join(args, " "))
		select {
		case <-sigs:
		case <-closed:
		}
		verdict = "aborted"
	}
	return write(filepath.Join(out, verdictFile), `{"verdict": "`+verdict+`"}`)
}

func write(path, text string) int {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return 1
	}
	return 0
}

// world is a keeper over folders of its own, with a clock that the test sets.
type world struct {
	*Keeper
	t      *testing.T
	o      Options
	mu     sync.Mutex
	now    time.Time
	events []notice.Event
	ended  chan struct{} // one for each look that a run asks for
}

func newWorld(t *testing.T, schedule string, files map[string]string) *world {
	t.Helper()
	t.Setenv(standsFor, "1")
	dir := t.TempDir()
	w := &world{t: t, now: time.Date(2026, 11, 23, 9, 59, 0, 0, time.UTC), ended: make(chan struct{}, 1000)}
	w.o = Options{
		Dir: filepath.Join(dir, "runs"), Schedule: filepath.Join(dir, "schedule.yaml"), Experiments: filepath.Join(dir, "experiments"), Binary: os.Args[0],
		Say: func(line string) { t.Log(line) }, Now: w.clock, Looked: func() { w.ended <- struct{}{} },
		Tell:    func(e notice.Event) { w.mu.Lock(); defer w.mu.Unlock(); w.events = append(w.events, e) },
		Targets: func(*experiments.Experiment) []string { return nil },
		Query:   func(context.Context, *experiments.QueryCondition) ([]float64, error) { return []float64{0, 2}, nil },
	}
	for _, folder := range []string{w.o.Dir, w.o.Experiments} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		w.write(filepath.Join(w.o.Experiments, name), text)
	}
	w.write(w.o.Schedule, "apiVersion: lockdrill/v1\nkind: Schedule\n"+schedule)
	w.open()
	return w
}

func (w *world) write(path, text string) {
	w.t.Helper()
	if write(path, text) != 0 {
		w.t.Fatal("write ", path)
	}
}

func (w *world) open() {
	w.t.Helper()
	k, err := Open(w.o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Keeper = k
	w.t.Cleanup(func() { k.stopAll("the test"); k.wg.Wait(); _ = k.book.Close() })
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

// at decides what is due at a time of the day, and waits until no run that ends by itself goes on.
func (w *world) at(clock string) {
	w.t.Helper()
	day, err := time.Parse(time.DateTime, "2026-11-"+clock)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.now = day
	w.mu.Unlock()
	w.tick(w.t.Context(), w.t.Context())
}

func (w *world) settle() { w.wg.Wait() }

// until waits for something that a process does.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !done(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("not within a minute: %s", what)
		}
	}
}

func (w *world) story() string {
	var all []string
	for _, r := range w.book.Runs() {
		line := "run " + r.Drill + " by " + r.By
		if r.End != nil {
			line += ": " + outcome(*r.End)
		}
		all = append(all, line)
	}
	for _, e := range w.book.NotRun() {
		all = append(all, fmt.Sprintf("%s %s: %s", e.What, e.Drill, e.Why))
	}
	return strings.Join(all, "\n")
}

func (w *world) want(text string) {
	w.t.Helper()
	if got := w.story(); got != strings.TrimSpace(text) {
		w.t.Errorf("the book says\n%s\nwant\n%s", got, strings.TrimSpace(text))
	}
}

func TestDrillsRunByTheirTimes(t *testing.T) {
	w := newWorld(t, `
drills:
  - {name: hourly, experiment: a.yaml, cron: "0 * * * *", wait: 5m, labels: {release: "1.4"}}
  - {name: guarded, experiment: refuse.yaml, cron: "30 10 * * *"}
`, map[string]string{"a.yaml": "fine", "refuse.yaml": "refuse"})
	w.at("23 09:59:00")
	w.at("23 10:00:10")
	w.settle()
	w.want("run hourly by schedule: pass")
	w.at("23 10:00:20") // decided already
	w.at("23 10:30:00")
	w.settle()
	w.write(filepath.Join(w.o.Experiments, "a.yaml"), "fail")
	w.at("23 11:02:00") // late, within its wait
	w.settle()
	w.at("23 15:02:00") // after an outage: only the last of four can be met
	w.settle()
	w.want(`
run hourly by schedule: slo-failed
run hourly by schedule: slo-failed
run guarded by schedule: refused
run hourly by schedule: pass
missed hourly: the server was away when it was due
missed hourly: the server was away when it was due
missed hourly: the server was away when it was due
refused guarded: refused: a guard says no`)
	w.at("26 15:30:00") // three days, and late for the last one: 72 hours, of which one line is enough
	w.settle()
	if all := w.book.NotRun(); !strings.Contains(w.story(), "the server was away when it was due, 71 times") || len(all) != 9 {
		t.Errorf("after three days:\n%s", w.story())
	}
	var told []string
	for _, e := range w.events {
		told = append(told, e.Kind+" "+e.Drill+" "+e.Before+" "+e.Verdict)
	}
	if got := strings.Join(told[:4], "\n"); got != "ended hourly  pass\nunrun guarded  \nchanged hourly pass slo-failed\nunrun hourly  " {
		t.Errorf("told:\n%s", got)
	}
	// A restart changes nothing that is decided.
	before := w.story()
	w.open()
	w.at("26 15:30:10")
	if after := w.story(); after != before {
		t.Errorf("after a restart:\n%s\nbefore:\n%s", after, before)
	}
}

func TestWhatKeepsADrillFromStarting(t *testing.T) {
	quiet := true
	deploys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !quiet {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	defer deploys.Close()
	w := newWorld(t, `
freeze_file: freeze
blackout_dates: [{from: "2026-11-24", zone: UTC, why: release}]
drills:
  - {name: long, experiment: long.yaml, cron: "0 10 * * *"}
  - {name: skips, experiment: a.yaml, cron: "1 10 * * *"}
  - {name: queues, experiment: a.yaml, cron: "2 10 * * *", overlap: queue, wait: 30m}
  - {name: blocked, experiment: a.yaml, cron: "0 12 * * *", wait: 10m, blocked_by: [{name: deploys, url: "`+deploys.URL+`"}]}
  - {name: alerting, experiment: a.yaml, cron: "0 13 * * *", wait: 0s, blocked_by: [{promql: {url: "http://prometheus:9090", query: up}}]}
`, map[string]string{"a.yaml": "fine", "long.yaml": "long"})
	w.at("23 09:59:00")
	w.at("23 10:00:00")
	var run string
	w.until("the long drill is under way", func() bool {
		all := w.Running()
		if len(all) == 0 {
			return false
		}
		run = all[0].Run
		args, err := os.ReadFile(filepath.Join(w.o.Dir, run, "ready"))
		return err == nil && strings.Contains(string(args), "--until-closed 3")
	})
	w.at("23 10:01:00")
	w.at("23 10:02:00")
	if x := w.Waiting(); len(x) != 1 || x[0].Slot.Drill != "queues" || !strings.Contains(x[0].Why, run+" has the target") {
		t.Errorf("waiting: %+v", x)
	}
	if err := w.Stop(run, "alice"); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.at("23 10:05:00")
	w.settle()
	quiet = false
	w.at("23 12:00:00")
	w.at("23 12:11:00")
	w.at("23 13:00:00")
	w.write(filepath.Join(filepath.Dir(w.o.Schedule), "freeze"), "")
	w.at("24 10:00:00")
	if err := os.Remove(filepath.Join(filepath.Dir(w.o.Schedule), "freeze")); err != nil {
		t.Fatal(err)
	}
	w.at("24 10:01:00")
	story := w.story()
	for _, want := range []string{
		"run queues by schedule: pass", "run long by schedule: aborted", "skipped skips: run " + run + " has the target",
		"blocked blocked: deploys: it answers 409 Conflict, and that was so after a wait of 10m", "blocked alerting: promql: the query gives 2",
		"skipped long: the schedule is frozen: ", "skipped skips: it is within the blackout 2026-11-24 (release)",
	} {
		if !strings.Contains(story, want) {
			t.Errorf("no %q in\n%s", want, story)
		}
	}
	if by := w.book.Runs()[1].End; by.By != "alice" || by.Why != "stopped by alice" {
		t.Errorf("the stopped run: %+v", by)
	}
}

func TestApproval(t *testing.T) {
	w := newWorld(t, `
drills:
  - {name: careful, experiment: a.yaml, cron: "0 10 * * *", approval: required, approval_for: 2h, wait: 10m}
  - {name: by-hand, experiment: a.yaml, approval: required, approval_for: 2h}
  - {name: free, experiment: a.yaml}
`, map[string]string{"a.yaml": "fine"})
	ctx := t.Context()
	refused := func(err error, why string) {
		t.Helper()
		if !errors.Is(err, ErrNo) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want a refusal: %s", err, why)
		}
	}
	ask := func(drill, by, hash string, next bool) string {
		t.Helper()
		id, err := w.Ask(ctx, drill, by, hash, next)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	w.at("23 09:00:00")
	plan, err := w.Plan(ctx, "careful")
	if err != nil || !strings.Contains(plan.Text, "would run a.yaml") {
		t.Fatalf("%+v, %v", plan, err)
	}
	_, err = w.Ask(ctx, "careful", "alice", "", true)
	refused(err, "say the hash of the plan")
	_, err = w.Ask(ctx, "careful", "alice", "sha256:0", true)
	refused(err, "the plan is another one by now")
	_, err = w.Ask(ctx, "careful", "", plan.Hash, true)
	refused(err, "somebody with a name")
	_, err = w.Ask(ctx, "nothing", "alice", plan.Hash, true)
	refused(err, "no drill of the schedule")

	id := ask("careful", "alice", plan.Hash, true)
	refused(w.Approve(id, "alice", plan.Hash), "somebody else must approve it")
	refused(w.Approve(id, "bob", "sha256:0"), "read the plan again")
	w.at("23 10:00:00") // asked for, and not approved: it waits
	if x := w.Waiting(); len(x) != 1 || !strings.Contains(x[0].Why, "alice has asked for it") {
		t.Errorf("waiting: %+v", x)
	}
	if err := w.Approve(id, "bob", plan.Hash); err != nil {
		t.Fatal(err)
	}
	refused(w.Approve(id, "carol", plan.Hash), "bob has approved it already")
	w.at("23 10:05:00")
	w.settle()
	w.want("run careful by alice: pass")
	w.at("24 10:00:00") // used once
	w.at("24 10:11:00")
	if !strings.Contains(w.story(), "unapproved careful: its plan is not approved: nobody has asked for its approval, and that was so after a wait of 10m") {
		t.Error(w.story())
	}

	// By hand: the file is changed after the approval, and the run refuses itself. The approval is used up.
	id = ask("by-hand", "alice", plan.Hash, false)
	if err := w.Approve(id, "bob", plan.Hash); err != nil {
		t.Fatal(err)
	}
	w.write(filepath.Join(w.o.Experiments, "a.yaml"), "fail")
	w.at("24 10:12:00")
	w.settle()
	w.at("24 10:12:30")
	w.settle()
	if !strings.Contains(w.story(), "refused by-hand: refused: another plan") || strings.Count(w.story(), "run by-hand") != 1 {
		t.Error(w.story())
	}
	refused(w.Approve(id, "bob", plan.Hash), "no such request any more")

	// An approval that comes too late is none.
	plan, _ = w.Plan(ctx, "by-hand")
	id = ask("by-hand", "alice", plan.Hash, false)
	w.at("24 12:13:00")
	refused(w.Approve(id, "bob", plan.Hash), "void by its age")
	if !strings.Contains(w.story(), "unapproved by-hand: the request of alice was not approved in time") {
		t.Error(w.story())
	}
	// What needs no approval starts at once, also over a restart.
	ask("free", "alice", "", false)
	_, err = w.Ask(ctx, "free", "bob", "", false)
	refused(err, "alice has asked for drill free already")
	w.open()
	w.at("24 12:13:10")
	w.settle()
	if !strings.Contains(w.story(), "run free by alice: slo-failed") {
		t.Error(w.story())
	}
	if err := w.Freeze("alice", true); err != nil {
		t.Fatal(err)
	}
	ask("free", "bob", "", false)
	w.at("24 12:14:00")
	if !strings.Contains(w.story(), "skipped free: the schedule is frozen by alice since 2026-11-24 12:13 UTC") {
		t.Error(w.story())
	}
}
