package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// drillServer is a server of a schedule, as a process.
type drillServer struct {
	t       *testing.T
	pid     int
	address string
	token   string
	done    chan error
}

// startServer starts one over a folder that has runs, schedule.yaml, experiments and tokens.
func startServer(t *testing.T, dir, token string) *drillServer {
	t.Helper()
	cmd := lockdrill("serve", "--dir", filepath.Join(dir, "runs"), "--schedule", filepath.Join(dir, "schedule.yaml"), "--experiments", filepath.Join(dir, "experiments"),
		"--tokens", filepath.Join(dir, "tokens"), "--listen", "127.0.0.1:0")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &drillServer{t: t, pid: cmd.Process.Pid, token: token, done: make(chan error, 1)}
	address := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(said)
		for lines.Scan() {
			t.Log(lines.Text())
			if m := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text()); m != "" && len(address) == 0 {
				address <- m
			}
		}
		s.done <- cmd.Wait()
	}()
	t.Cleanup(func() { _ = syscall.Kill(s.pid, syscall.SIGKILL) })
	select {
	case s.address = <-address:
	case err := <-s.done:
		t.Fatalf("the server did not start: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the server did not start within a minute")
	}
	return s
}

func (s *drillServer) end(sig syscall.Signal) error {
	s.t.Helper()
	if err := syscall.Kill(s.pid, sig); err != nil {
		s.t.Fatal(err)
	}
	select {
	case err := <-s.done:
		return err
	case <-time.After(2 * time.Minute):
		s.t.Fatal("the server did not end within two minutes")
	}
	return nil
}

// ask posts a form with the token, or gets where there is none.
func (s *drillServer) ask(path string, form url.Values, to any) int {
	s.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.address+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && to != nil {
		err = json.Unmarshal(body, to)
	}
	if err != nil {
		s.t.Fatalf("%s: %v: %.300s", path, err, body)
	}
	return answer.StatusCode
}

type drillsState struct {
	Running, Waiting, Requests []struct{}
	Ended, NotRun              []struct{ Run, Verdict, What, Why string }
}

func (s *drillServer) state() (state drillsState) {
	s.ask("/api/v1/drills", nil, &state)
	return state
}

// eventually polls.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// A server that is killed with -9 while its drill runs leaves no fault and loses no run: the drill stops and undoes, and the next server
// shows it as aborted.
func TestLiveAKilledServerLeavesNothing(t *testing.T) {
	t.Parallel()
	needDrill(t)
	needDrivers(t)
	moments := []struct {
		name string
		in   string // what the run's history has by then; "" = the server has just written the start down
	}{
		{"a fault is in effect", `"fault.confirmed"`},
		{"the start is written down", ""},
		{"the history begins", `"schema"`},
		{"the steady state", `"name":"steady"`},
		{"a fault is about to be", `"fault.intent"`},
		{"faults are undone", `"fault.reverted"`},
		{"it settles", `"name":"settle"`},
		{"the run's end", `"run.end"`},
	}
	if os.Getenv("LOCKDRILL_TEST_DRILLS") != "all" {
		moments = moments[:1]
	}
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			lasts := "40s"
			if slices.Contains([]string{`"fault.reverted"`, `"name":"settle"`, `"run.end"`}, m.in) {
				lasts = "300ms"
			}
			killServer(t, m.in, unrehearsed(withFault(t, goodDrill, lasts, "pause: {holder_of: loop}")))
		})
	}
}

func killServer(t *testing.T, moment, yaml string) {
	dir := t.TempDir()
	for _, folder := range []string{"runs", "experiments"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"experiments/drill.yaml": yaml,
		"schedule.yaml":          "apiVersion: lockdrill/v1\nkind: Schedule\ndrills:\n  - {name: by-hand, experiment: drill.yaml}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	made := try(t, "serve", "token", "alice", "read", "run", "--tokens", filepath.Join(dir, "tokens"))
	if made.code != verdict.ExitPass {
		t.Fatalf("serve token: %+v", made)
	}
	s := startServer(t, dir, strings.TrimSpace(made.stdout))
	if code := s.ask("/api/v1/drills/by-hand/run", url.Values{}, nil); code != http.StatusOK {
		t.Fatalf("asked for a run: status %d", code)
	}
	book, runs := filepath.Join(dir, "runs", ".lockdrill-drills.jsonl"), filepath.Join(dir, "runs", "2*")
	eventually(t, "the moment "+moment, func() bool {
		path := book
		if moment != "" {
			found, _ := filepath.Glob(filepath.Join(runs, "history.jsonl"))
			if len(found) == 0 {
				return false
			}
			path = found[0]
		}
		data, _ := os.ReadFile(path)
		return strings.Contains(string(data), moment) && (moment != "" || strings.Contains(string(data), `"kind":"started"`))
	})
	_ = s.end(syscall.SIGKILL)

	s = startServer(t, dir, s.token)
	var state drillsState
	eventually(t, "the next server knows the run's end", func() bool {
		state = s.state()
		return len(state.Running) == 0 && len(state.Requests) == 0 && len(state.Ended)+len(state.NotRun) > 0
	})
	if len(state.Ended)+len(state.NotRun) != 1 {
		t.Fatalf("one run was started, and there are %+v", state)
	}
	found, _ := filepath.Glob(runs)
	for _, run := range found {
		if _, err := os.Stat(filepath.Join(run, "verdict.json")); err != nil {
			t.Errorf("a run without a verdict: %v", err)
		}
		eventually(t, "the run's process has ended", func() bool { return len(processes("lockdrill", run)) == 0 })
		nothingIsLeft(t, run)
	}
	if len(found) != len(state.Ended) {
		t.Errorf("%d folders, and %+v", len(found), state)
	}
	for _, run := range state.Ended {
		if run.Why != "the server ended while it ran" || run.Verdict != "aborted" && moment != `"run.end"` && moment != `"name":"settle"` {
			t.Errorf("the run is %+v", run)
		}
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("the server that was asked to end: %v", err)
	}
}
