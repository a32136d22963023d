package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/toxitest"
)

// What is left of a run, looked at by means of the tests' own: /proc, a bare connection to the store, a proxy's API, the journal's
// lines. None of the tool's code is believed.

// ofRun lists the processes of the run in that folder: those that work there (replicas, and servers, whose command line is not what
// they were started with), that have it on their command line (the watchdog), or that were started with it in their environment.
func ofRun(dir string) []int {
	var pids []int
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil || pid == os.Getpid() || zombie(entry) {
			continue
		}
		cwd, _ := os.Readlink(entry + "/cwd")
		line, _ := os.ReadFile(entry + "/cmdline")
		env, _ := os.ReadFile(entry + "/environ")
		if strings.HasPrefix(cwd, dir) || bytes.Contains(line, []byte(dir)) || bytes.Contains(env, []byte(stressMark+"="+dir+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stressMark is in the environment of a run of the stress test, and so of all that it starts: its value is the run's folder.
const stressMark = "LOCKDRILL_TEST_MARK"

// zombie reports a process that is dead and that its parent, here often the one that reaps orphans, has not waited for yet.
func zombie(entry string) bool { return strings.HasPrefix(stateOf(entry), "Z") }

// stateOf is the process's letter in /proc: T is stopped.
func stateOf(entry string) string {
	stat, _ := os.ReadFile(entry + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest
}

// noProcess waits until no process of the run is left; a watchdog may have to try more than once.
func noProcess(t *testing.T, dir string) {
	t.Helper()
	for pids := ofRun(dir); len(pids) > 0; pids = ofRun(dir) {
		allGone(t, pids)
	}
}

// theirRedis is a Redis that the run did not start, with a key of its owner's.
func theirRedis(t *testing.T) string {
	t.Helper()
	addr := redistest.Start(t)
	if got := asked(t, addr, "SET owners 1"); got != "+OK" {
		t.Fatalf("SET: %q", got)
	}
	return addr
}

// asBefore checks that the owner's key is there, that the owner can write (no CLIENT PAUSE lasts), and that nobody else has left a key.
func asBefore(t *testing.T, addr string) {
	t.Helper()
	if got := asked(t, addr, "EXISTS owners"); got != ":1" {
		t.Errorf("the owner's key is gone: %s", got)
	}
	if got := asked(t, addr, "SET owners 2"); got != "+OK" {
		t.Errorf("a write is answered with %q", got)
	}
	if got := asked(t, addr, "DBSIZE"); got != ":1" {
		t.Errorf("DBSIZE is %s: keys of the run are left", got)
	}
}

// theirProxies is a Toxiproxy that the run did not start, with a proxy of its owner's.
func theirProxies(t *testing.T) string {
	t.Helper()
	server := toxitest.Start(t)
	create(t, server.URL, "theirs")
	return server.URL
}

func onlyTheirs(t *testing.T, api string) {
	t.Helper()
	left := proxies(t, api)
	if strings.Count(left, `"name":`) != 1 || !strings.Contains(left, `"name":"theirs"`) || !strings.Contains(left, `"enabled":true`) {
		t.Errorf("the server has %s, want what was there before", left)
	}
}

// allUndone reads the journal: closed, and each record's last word is that it is undone. It returns false where there is none.
func allUndone(t *testing.T, dir string) bool {
	t.Helper()
	all := marks(dir)
	last := map[int]string{}
	for _, m := range all {
		last[m.ID] = m.State
	}
	delete(last, 0)
	for id, state := range last {
		if state != "undone-verified" {
			t.Errorf("record %d (%s) is %s", id, kindOf(all, id), state)
		}
	}
	if len(all) > 0 && !all[len(all)-1].Closed {
		t.Errorf("the journal is not closed: %+v", all)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "stores*")); left != nil {
		t.Errorf("left: %v", left)
	}
	return len(all) > 0
}

// killWhen runs the drill and kills its runner as soon as the moment has come; returns the run's folder. The kill takes the runner's process
// group along, as a CI does.
func killWhen(t *testing.T, k killable, unguarded bool, moment func(dir string, said fmt.Stringer)) (folder string) {
	t.Helper()
	base := t.TempDir()
	file, dir := filepath.Join(base, "drill.yaml"), filepath.Join(base, "run")
	write(t, file, []byte(unrehearsed(k.yaml)))
	var text saying
	cmd := lockdrill(append([]string{"run", file, "--out", dir}, k.args...)...)
	cmd.Env = append(os.Environ(), scriptedEnv+"="+t.TempDir()) // for experiments whose worker is this test
	cmd.Stdout, cmd.Stderr = &text, &text
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if unguarded {
		var dogs []int
		until(t, "the watchdog", func() bool { dogs = processes("watchdog", dir); return len(dogs) == 1 })
		must(t, syscall.Kill(dogs[0], syscall.SIGKILL))
	}
	go func() {
		_ = cmd.Wait()
		text.End()
	}()
	moment(dir, &text)
	must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	until(t, "the end of the killed run", text.Over)
	if cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the run ended by itself, before it was killed:\n%s", text.String())
	}
	return dir
}

// networkDrill has a loop whose policy bears 40 ms a round trip on a busy machine, and one fault of the network.
const networkDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: network
environment: local
redis: {mode: spawn}
proxy: {mode: embedded}
system:
  mode: embedded
  replicas: 2
  restart: 100ms
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 2s
        renew_every: 400ms
        class: standard
        op_timeout: 300ms
        stop_budget: 20ms
        release: {mode: none}
        acquire: {mode: try, timeout: 300ms}
        loop: {poll: 150ms, mode: renewed, tick: 10ms}
steady_state: {for: 300ms, timeout: 20s}
faults:
  - id: net
    at: 0s
    for: 2s
    latency: {all: true, add: 20ms, stream: both}
probes:
  lock_keys: {every: 20ms, max_gap: 2s}
  ledger: {every: 20ms, max_gap: 2s}
limits: {max_kills: 4, max_run: 1m}
slos:
  - {lock: loop, overlap: {level: effect, max: 0}}
`

// create and proxies speak to the server by themselves: the test must not believe the tool's own client.
func create(t *testing.T, api, name string) {
	t.Helper()
	resp, err := http.Post(api+"/proxies", "application/json", strings.NewReader(fmt.Sprintf(`{"name":%q,"listen":"127.0.0.1:0","upstream":"127.0.0.1:1"}`, name)))
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status)
	}
}

func proxies(t *testing.T, api string) string {
	t.Helper()
	resp, err := http.Get(api + "/proxies")
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(text)
}
