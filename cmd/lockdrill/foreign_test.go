package main

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// foreignDrill kills leaders among processes that are somebody else's; %s is the port of their Redis.
const foreignDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: foreign
environment: local
redis: {mode: external, url: "redis://127.0.0.1:%[1]s"}
system:
  mode: observe
  replicas: 3
  processes: {match: 'elector\.py --redis %[1]s --name (?P<name>\S+)'}
  locks:
    - name: leader
      key: sched:leader
      policy:
        ttl: 1s
        renew_every: 300ms
        class: standard
        op_timeout: 200ms
        release: {mode: none}
        acquire: {mode: try, timeout: 200ms}
        loop: {poll: 100ms, mode: renewed}
probes: {lock_keys: {every: 5ms, max_gap: 3s}} # this machine may be busy
steady_state: {for: 300ms, timeout: 2m}
faults:
  - {id: crash, at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}}
slos:
  - {lock: leader, takeover: {max: 5s}}
`

// foreignConsent is what an operator says to let it run.
var foreignConsent = []string{"--environment", "local", "--confirm", "foreign"}

// electors are somebody's service: three processes in Python under a supervisor that starts again whatever dies.
type electors struct {
	port  string // of their Redis, for those whose own is not in ports
	over  chan struct{}
	ready chan struct{} // each of the three has reached its Redis

	more func(name string) []string // arguments of a process beside its own; nil = none

	mu     sync.Mutex
	living map[string]*exec.Cmd // by name
	starts map[string]int
	work   sync.WaitGroup
}

func startElectors(t *testing.T) *electors {
	t.Helper()
	return electorsAt(t, redistest.Start(t))
}

func electorsAt(t *testing.T, primary string) *electors {
	t.Helper()
	return electorsBy(t, primary, nil)
}

// electorsBy reach their Redis each by a port of its own, by name, where it has one; more is said to each.
func electorsBy(t *testing.T, primary string, ports map[string]string, more ...string) *electors {
	t.Helper()
	return electorsWith(t, primary, ports, func(string) []string { return more })
}

// electorsWith have more arguments.
func electorsWith(t *testing.T, primary string, ports map[string]string, more func(name string) []string) *electors {
	t.Helper()
	needDrill(t)
	python := witnesstest.Python(t)
	_, port, err := net.SplitHostPort(primary)
	if err != nil {
		t.Fatal(err)
	}
	s := &electors{port: port, more: more, over: make(chan struct{}), ready: make(chan struct{}, 3), living: map[string]*exec.Cmd{}, starts: map[string]int{}}
	for _, name := range []string{"sched-a", "sched-b", "sched-c"} {
		s.work.Go(func() { s.supervise(t, python, name, cmp.Or(ports[name], port)) })
	}
	t.Cleanup(s.stop)
	for range 3 {
		select {
		case <-s.ready:
		case <-time.After(time.Minute):
			t.Fatal("the three processes did not all reach their Redis within a minute")
		}
	}
	return s
}

// supervise keeps one process running, as systemd does with RestartSec=300ms.
func (s *electors) supervise(t *testing.T, python, name, port string) {
	for {
		cmd := exec.Command(python, "testdata/elector.py", "--redis", port, "--name", name, "--key", "sched:leader", "--ttl", "1000", "--renew", "300", "--poll", "100")
		if s.more != nil {
			cmd.Args = append(cmd.Args, s.more(name)...)
		}
		says, err := cmd.StdoutPipe()
		if err != nil {
			t.Error(err)
			return
		}
		s.mu.Lock()
		select {
		case <-s.over:
			s.mu.Unlock()
			return
		default:
		}
		err = cmd.Start()
		s.living[name] = cmd
		s.starts[name]++
		s.mu.Unlock()
		if err != nil {
			t.Error(err)
			return
		}
		if line, _ := bufio.NewReader(says).ReadString('\n'); line == "ready\n" {
			select {
			case s.ready <- struct{}{}:
			default: // a later life
			}
		}
		_ = cmd.Wait() // however it ended
		select {
		case <-time.After(300 * time.Millisecond):
		case <-s.over:
		}
	}
}

func (s *electors) stop() {
	s.mu.Lock()
	close(s.over)
	for _, cmd := range s.living {
		_ = cmd.Process.Kill()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// died is how often one of them was started again.
func (s *electors) died() (times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.starts {
		times += n - 1
	}
	return times
}

// goOn checks that none of them has died or stands still.
func (s *electors) goOn(t *testing.T) {
	t.Helper()
	if n := s.died(); n > 0 {
		t.Errorf("%d of somebody's processes have died", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, cmd := range s.living {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "T") {
			t.Errorf("%s still stands", name)
		}
	}
}

// A service in another language, with none of our code in it, is drilled by its key and its command lines alone.
func TestLiveSomebodysProcessesAreDrilled(t *testing.T) {
	t.Parallel()
	service := startElectors(t)
	dir, yaml := t.TempDir(), fmt.Sprintf(foreignDrill, service.port)
	file := func(name, text string) {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	file("foreign.yaml", yaml)
	if got := tryIn(t, dir, append([]string{"run", "foreign.yaml", "--out", "run"}, foreignConsent...)...); got.code != verdict.ExitPass ||
		!strings.Contains(got.stdout, "3 kills") {
		t.Errorf("%+v", got)
	}
	if n := service.died(); n != 3 {
		t.Errorf("%d processes were started again, want 3", n)
	}
	file("strict.yaml", edit(t, yaml, "count: 3, every: settled", "count: 1", "max: 5s", "max: 300ms")) // less than is left of any lease
	if got := tryIn(t, dir, append([]string{"run", "strict.yaml", "--out", "strict"}, foreignConsent...)...); got.code != verdict.ExitSLOFailed {
		t.Errorf("under a promise that nobody can keep: %+v", got)
	}
}

// atSomebodysProcess is a drill that strikes one of somebody's processes. Afterwards all of them go on.
func atSomebodysProcess(fault string) func(t *testing.T, lasts string) killable {
	return func(t *testing.T, lasts string) killable {
		service := startElectors(t)
		return killable{
			yaml:  edit(t, fmt.Sprintf(foreignDrill, service.port), "at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}", "at: 0s, for: "+lasts+", "+fault),
			args:  foreignConsent,
			check: func(t *testing.T, _ string) { service.goOn(t) },
		}
	}
}
