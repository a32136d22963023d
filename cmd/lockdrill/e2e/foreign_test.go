package e2e

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
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
` + loopPolicy + `probes: {lock_keys: {every: 5ms, max_gap: 3s}} # this machine may be busy
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
	must(t, err)
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

// Each fault that can be done to somebody's processes on this host is done, seen and undone: asked to end, its key taken away as its Redis
// allows by name, and by commands of its owner's.
func TestLiveSomebodysProcessesAreStruckInEachWay(t *testing.T) {
	t.Parallel()
	service := startElectors(t)
	dir, hook := hookFolder(t)
	yaml := edit(t, fmt.Sprintf(foreignDrill, service.port), "  - {id: crash, at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}}\n",
		"  - {id: asked, at: 0s, kill: {holder_of: leader, form: graceful}}\n  - {id: taken, at: 3s, delete_key: {holder_of: leader}}\n"+
			"  - {id: hooked, at: 6s, for: 2s, "+strings.Replace(hook, "holder_of: loop", "holder_of: leader", 1)+"}\nallow_overlap: [[asked, taken], [asked, hooked], [taken, hooked]]\n",
		fmt.Sprintf("127.0.0.1:%s\"}", service.port), fmt.Sprintf("127.0.0.1:%s\", allow: [delete_key]}", service.port))
	s := readStruck(t, runDrill(t, yaml, nil, foreignConsent...))
	confirmed := map[string]*history.Fault{}
	for _, e := range s.events {
		if e.Kind == history.FaultConfirmed {
			confirmed[e.Fault.ID] = e.Fault
		}
	}
	for _, id := range []string{"asked", "taken", "hooked"} {
		if confirmed[id] == nil {
			t.Fatalf("%s was not confirmed\n%s", id, s.text)
		}
	}
	if got, want := confirmed["hooked"].Detail, "do: cut by ***; confirm: it is on"; got != want { // without secrets
		t.Errorf("detail %q, want %q", got, want)
	}
	if d := confirmed["asked"].Death; d == nil || d.End == nil || d.Means != "signal" || d.By != history.ByKernel {
		t.Errorf("death %+v", d)
	}
	if service.died() != 1 {
		t.Errorf("%d of somebody's processes have died, want the one that was asked to end", service.died())
	}
	if steps := stepsOf(t, dir); !strings.Contains(steps, "do hooked#1 sched-") || !strings.Contains(steps, "undo hooked#1 sched-") {
		t.Errorf("steps of the hook:\n%s", steps)
	}
	isGone(t, filepath.Join(dir, "on"))
}

// The locks of a queue's jobs are those keys that fit its pattern, hash tag and all. What stands beside them, a record without expiry and a
// key with one, is no lock: nobody is struck for it, and no event is about it.
func TestLiveJobsOfAQueueAreDrilledByThePatternOfTheirKeys(t *testing.T) {
	t.Parallel()
	service := electorsBy(t, redistest.Start(t), nil, "--queue", "bull:{mail}")
	dir := t.TempDir()
	yaml := edit(t, fmt.Sprintf(foreignDrill, service.port),
		"name: leader\n      key: sched:leader", "name: job\n      key_pattern: 'bull:{mail}:*:lock'",
		"        release: {mode: none}\n", "        release: {mode: single, timeout: 200ms}\n",
		"        loop: {poll: 100ms, mode: renewed}\n", "  effects:\n    - {name: jobs, lock: job, stream: 'bull:{mail}:log', map: {job: job, state: state, terminal: [done], token: token}}\n",
		"holder_of: leader", "holder_of: job", "lock: leader, takeover: {max: 5s}}\n", "lock: job, takeover: {max: 20s}}\n  - {lock: job, duplicate_terminal_states: {max: 0}}\n")
	write(t, filepath.Join(dir, "foreign.yaml"), []byte(yaml))
	tryIn(t, dir, append([]string{"plan", "foreign.yaml"}, foreignConsent...)...).ends(t, verdict.ExitPass, "bull:{mail}:")
	tryIn(t, dir, append([]string{"run", "foreign.yaml", "--out", "run"}, foreignConsent...)...).ends(t, verdict.ExitPass, "3 kills")
	h := historyIn(t, filepath.Join(dir, "run"))
	looks := 0
	for _, e := range h.Events {
		if e.Kind != history.LookKind {
			continue
		}
		looks++
		if !strings.HasPrefix(e.Key, "bull:{mail}:") || !strings.HasSuffix(e.Key, ":lock") || e.Lock != "job" {
			t.Errorf("it is no lock: %+v", e)
		}
	}
	if looks < 10 {
		t.Errorf("%d looks at locks", looks)
	}
	tryIn(t, dir, "judge", "run").ends(t, verdict.ExitPass)
	tryIn(t, dir, "rehearse", "foreign.yaml").ends(t, verdict.ExitUsage)
	tryIn(t, dir, "watch", "--redis", "redis://127.0.0.1:"+service.port, "--keys", "bull:{mail}:*:lock", "--for", "3s", "--draft", "draft.yaml").ends(t, verdict.ExitPass)
	draft, err := os.ReadFile(filepath.Join(dir, "draft.yaml"))
	if err != nil || !strings.Contains(string(draft), `key_suffix: ":lock"`) {
		t.Errorf("%v\n%s", err, draft)
	}
}

// The same drill, whatever the Redis is that the locks are in, and wherever it is looked at. The report says what looking has cost.
func TestLiveSomebodysRedisIsWatched(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (primary, section string){
		"events": func(t *testing.T) (string, string) {
			addr := redistest.Start(t, "--notify-keyspace-events", "KA")
			return addr, fmt.Sprintf(`url: "redis://%s"`, addr)
		},
		"cluster by TLS": func(t *testing.T) (string, string) {
			addrs, ca, plain := redistest.StartTLSCluster(t)
			return owner(t, plain, "sched:leader"), fmt.Sprintf(`url: "rediss://%s", cluster: true, ca: %s`, addrs[0], ca)
		},
		"sentinel": func(t *testing.T) (string, string) {
			sentinel, primary, replica := redistest.StartSentinel(t, "--notify-keyspace-events", "KA")
			return primary, fmt.Sprintf(`sentinel: {master: %s, urls: ["redis://%s"]}, replica: "redis://%s"`, redistest.SentinelMaster, sentinel, replica)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, section := start(t)
			service := electorsAt(t, primary)
			yaml := fmt.Sprintf(foreignDrill, service.port)
			yaml = edit(t, yaml, `url: "redis://127.0.0.1:`+service.port+`"`, section, "count: 3, every: settled", "count: 1")
			dir := folder(t, "foreign.yaml", yaml)
			until(t, "the plan names who holds", func() bool {
				plan := tryIn(t, dir, append([]string{"plan", "foreign.yaml"}, foreignConsent...)...)
				return plan.code == verdict.ExitPass && regexp.MustCompile(`key sched:leader: .* \(process \d+\)`).MatchString(plan.stdout)
			})
			got := tryIn(t, dir, append([]string{"run", "foreign.yaml", "--out", "run"}, foreignConsent...)...)
			got.ends(t, verdict.ExitPass)
			if history, err := os.ReadFile(filepath.Join(dir, "run", "history.jsonl")); err != nil || !strings.Contains(string(history), `"observer":{"way":"`) {
				t.Errorf("the history does not say what watching has cost (%v)", err)
			}
			c := redis.NewClient(&redis.Options{Addr: primary})
			defer c.Close()
			if left, err := c.Keys(t.Context(), "*lockdrill:*").Result(); err != nil || len(left) > 0 {
				t.Errorf("keys of the run are left: %v (%v)", left, err)
			}
		})
	}
}

// A service that follows its Sentinel keeps its leader through a fail-over that the drill asks for; the watcher follows as well, and sees at the
// new primary who takes over from a leader that is killed afterwards.
func TestLiveSomebodysSentinelFailsOver(t *testing.T) {
	t.Parallel()
	sentinel, primary, replica := redistest.StartSentinel(t)
	_, port, _ := net.SplitHostPort(sentinel)
	service := electorsBy(t, primary, nil, "--sentinel", port)
	yaml := edit(t, fmt.Sprintf(foreignDrill, service.port),
		`url: "redis://127.0.0.1:`+service.port+`"`, fmt.Sprintf(`sentinel: {master: %s, urls: ["redis://%s"]}, allow: [failover]`, redistest.SentinelMaster, sentinel),
		"{id: crash, at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}}",
		"{id: over, at: 0s, store: {do: failover}}\n  - {id: crash, after: over, delay: 3s, kill: {holder_of: leader}}")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "foreign.yaml"), []byte(yaml))
	if got := tryIn(t, dir, append([]string{"run", "foreign.yaml", "--out", "run"}, foreignConsent...)...); got.code != verdict.ExitPass {
		t.Errorf("%+v", got)
	}
	h := historyIn(t, filepath.Join(dir, "run"))
	said, taken := "", 0
	for _, e := range h.Events {
		switch {
		case e.Kind == history.FaultConfirmed && e.Fault.ID == "over":
			said = e.Fault.Detail
		case e.Kind == history.FaultConfirmed && e.Fault.ID == "crash":
			taken++
		}
	}
	if !strings.Contains(said, replica+" is the primary, and "+primary+" was") || taken != 1 {
		t.Errorf("the fail-over says %q, and %d leaders were killed after it", said, taken)
	}
}

// owner is the server of a cluster that has a key.
func owner(t *testing.T, addrs []string, key string) string {
	t.Helper()
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		err := c.Exists(t.Context(), key).Err()
		_ = c.Close()
		if err == nil {
			_, port, _ := net.SplitHostPort(addr)
			return net.JoinHostPort("127.0.0.1", port)
		}
	}
	t.Fatal("no server of the cluster has the key")
	return ""
}
