package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
)

// mark is a row of the journal, read here by a reader of our own.
type mark struct {
	ID     int
	State  string
	By     string
	At     time.Time
	Record *struct {
		Kind string
		Ends time.Time
		Shot struct{ Fault *struct{ ID string } }
	}
	Closed bool
}

// changed is one kind of change that a run makes, for the table of runs that are killed while they make it.
type changed struct {
	name   string
	kind   string   // of its journal records; "" = the name
	states []string // at which the runner is killed
	quick  []string // the ones tried in every run of the tests, others with LOCKDRILL_TEST_DRILLS=all
	// drill starts what the change needs beside the run, which ends with the test. What is to be reverted lasts long, so that it
	// does not end by itself; what the run reverts itself, short.
	drill func(t *testing.T, lasts string) killable
}

// killable is an experiment that makes the change.
type killable struct {
	yaml string
	args []string // of run, beside the file and the folder
	// check looks after the undoing, by means of its own (/proc, the store, a proxy's API), whether all is as before; dir is the
	// run's folder. nil: that nothing of the run is left is enough.
	check func(t *testing.T, dir string)
}

// changes is the table; a new kind is one entry.
func changes() []changed {
	all := []string{"intent", "injected", "undo-intent", "undone-verified"}
	good := func(*testing.T, string) killable { return killable{yaml: goodDrill} }
	instead := func(fault string) func(*testing.T, string) killable {
		return func(t *testing.T, lasts string) killable {
			return killable{yaml: withFault(t, goodDrill, lasts, fault)}
		}
	}
	instant := func(fault string) func(*testing.T, string) killable {
		return func(t *testing.T, _ string) killable { return killable{yaml: withFault(t, goodDrill, "", fault)} }
	}
	somebodys := func(fault string) func(*testing.T, string) killable {
		return func(t *testing.T, lasts string) killable { return atSomebodys(t, lasts, fault) }
	}
	network := func(fault string) func(*testing.T, string) killable {
		return func(t *testing.T, lasts string) killable { return atAToxiproxy(t, lasts, fault) }
	}
	return []changed{
		{name: "redis-server", states: []string{"intent", "injected"}, quick: []string{"intent"}, drill: good},
		{name: "replica", states: []string{"intent", "undone-verified"}, drill: good},
		{name: "kill", states: all, quick: []string{"injected"}, drill: good},
		{name: "renew_failures", states: all, quick: []string{"undo-intent"}, drill: instead("renew_failures: {holder_of: loop, mode: error}")},
		{name: "renew_failures on the way", kind: "renew_failures", states: all, drill: instead("renew_failures: {holder_of: loop, mode: lost_reply, via: proxy}")},
		{name: "acquire_failures", states: all, drill: instead("acquire_failures: {all: true, mode: timeout}")},
		{name: "release_failures", states: all, drill: instead("release_failures: {all: true, mode: lost_reply, via: proxy}")},
		{name: "pause", states: all, quick: []string{"injected"}, drill: instead("pause: {holder_of: loop}")},
		{name: "pause of all replicas", kind: "pause", states: all, quick: []string{"injected"}, drill: instead("pause: {all: true}")},
		{name: "pause of several of somebody's processes", kind: "pause", states: all, drill: atSomebodysProcess("pause: {count: 2}")},
		{name: "pause of somebody's process", kind: "pause", states: all, quick: []string{"injected"}, drill: atSomebodysProcess("pause: {holder_of: leader}")},
		{name: "starvation of somebody's process", kind: "starve", states: all, drill: atSomebodysProcess("starve: {holder_of: leader, share: 0.5}")},
		{name: "starve", states: all, drill: instead("starve: {holder_of: loop, share: 0.5}")},
		{name: "rolling_restart", states: all, drill: func(t *testing.T, _ string) killable {
			return killable{yaml: edit(t, withFault(t, goodDrill, "", "rolling_restart: {grace: 500ms}"), "    repeat: {count: 1}\n", "")}
		}},
		{name: "hook", states: all, quick: []string{"injected"}, drill: func(t *testing.T, lasts string) killable {
			dir, fault := hookFolder(t)
			return killable{yaml: withFault(t, goodDrill, lasts, fault), args: consent, check: func(t *testing.T, _ string) {
				if got := stepsOf(t, dir); !strings.Contains(got, "undo ") {
					t.Errorf("the steps of the hook: %q", got)
				}
				isGone(t, filepath.Join(dir, "on"))
			}}
		}},
		{name: "clock", states: all, drill: instead("clock: {holder_of: loop, offset: 1s}")},
		{name: "freeze of a spawned server", kind: "store", states: all, drill: instead("store: {do: freeze}")},
		{name: "stop of a spawned server", kind: "store", states: all, drill: instead("store: {do: stop}")},
		{name: "restart of a spawned server", kind: "store", states: all, drill: instant("store: {do: restart, keep: true}")},
		{name: "flush of a spawned server", kind: "store", states: all, drill: instant("store: {do: flush}")},
		{name: "failover of spawned servers", kind: "store", states: all, quick: []string{"intent"}, drill: instant("store: {do: failover, lag: 100ms}")},
		{name: "freeze of an etcd's leader", kind: "store", states: all, quick: []string{"injected"}, drill: onEtcd("freeze_leader")},
		{name: "death of an etcd's leader", kind: "store", states: all, drill: onEtcd("stop_leader")},
		{name: "a PostgreSQL", kind: "redis-server", states: []string{"intent", "injected"}, drill: onPostgres("terminate: {holder_of: loop}", false)},
		{name: "terminate", states: all, drill: onPostgres("terminate: {holder_of: loop}", false)},
		{name: "freeze of a PostgreSQL", kind: "store", states: all, drill: onPostgres("store: {do: freeze}", true)},
		{name: "stop of a PostgreSQL", kind: "store", states: all, drill: onPostgres("store: {do: stop}", true)},
		{name: "a key that vanishes", kind: "delete_key", states: all, drill: instant("delete_key: {holder_of: loop}")},
		{name: "keys on somebody's Redis", kind: "keys", states: []string{"intent"}, drill: somebodys("")},
		{name: "pause of somebody's Redis", kind: "store", states: all, quick: []string{"injected"}, drill: somebodys("store: {do: pause}")},
		{name: "fill of somebody's Redis", kind: "store", states: all, quick: []string{"injected"}, drill: somebodys("store: {do: fill}")},
		{name: "flush of somebody's Redis", kind: "store", states: all, drill: func(t *testing.T, _ string) killable {
			return atSomebodys(t, "", "store: {do: flush}")
		}},
		{name: "ways at a Toxiproxy", kind: "way", states: []string{"intent", "injected"}, drill: network("latency: {all: true, add: 20ms, stream: both}")},
		{name: "latency", states: all, quick: []string{"injected"}, drill: network("latency: {all: true, add: 20ms, stream: both}")},
		{name: "jitter", states: all, drill: network("jitter: {all: true, by: 20ms}")},
		{name: "bandwidth", states: all, drill: network("bandwidth: {all: true, rate: 20, stream: both}")},
		{name: "slices", states: all, drill: network("slices: {all: true, size: 100, delay: 5ms, stream: both}")},
		{name: "limit_data", states: all, drill: network("limit_data: {all: true, bytes: 1000}")},
		{name: "reset", states: all, drill: network("reset: {holder_of: loop}")},
		{name: "slow_close", states: all, drill: network("slow_close: {all: true, delay: 100ms, stream: upstream}")},
		{name: "black_hole", states: all, drill: network("black_hole: {holder_of: loop}")},
		{name: "down", states: all, drill: network("down: {holder_of: loop}")},
		{name: "latency on somebody's proxy", kind: "latency", states: all, quick: []string{"injected"}, drill: atSomebodysProxy("latency: {add: 20ms}")},
		{name: "renew_failures at somebody's lockdrill proxy", kind: "renew_failures", states: all, drill: atALockdrillProxy},
		{name: "down of somebody's proxy", kind: "down", states: all, drill: atSomebodysProxy("down: {}")},
		{name: "a key on a Redis that takes no writes", kind: "delete_key", states: []string{"intent"}, drill: func(t *testing.T, _ string) killable {
			k := atSomebodys(t, "30s", "store: {do: pause}")
			k.yaml = edit(t, k.yaml, "probes:\n", "  - {id: key, at: 300ms, for: 30s, delete_key: {holder_of: loop, to: stranger}}\n"+
				"allow_overlap: [[kill, key]]\nprobes:\n")
			return k
		}},
		{name: "a stranger's key on somebody's Redis", kind: "delete_key", states: all, drill: somebodys("delete_key: {holder_of: loop, to: stranger}")},
	}
}

// withFault replaces the fault of the good drill, and its SLO, which is one of kills.
func withFault(t *testing.T, yaml, lasts, fault string) string {
	t.Helper()
	at := "    at: 0s\n"
	if lasts != "" { // an instant has no duration
		at += "    for: " + lasts + "\n"
	}
	return edit(t, yaml, "count: 2, every: settled", "count: 1", burstDrill, fault, "    at: 0s\n", at,
		goodSLO, shortSLO)
}

// atSomebodys is a drill at a Redis that the run did not start, with a key of its owner's. Afterwards that is the only one, and a write
// is not kept waiting.
func atSomebodys(t *testing.T, lasts, fault string) killable {
	t.Helper()
	addr := theirRedis(t)
	yaml := edit(t, goodDrill, "redis: {mode: spawn}", "redis: {mode: external, url: \"redis://"+addr+"\", allow: [pause, flush, fill, delete_key]}", "environment: local", "environment: staging")
	if fault != "" {
		yaml = withFault(t, yaml, lasts, fault)
	}
	return killable{yaml: yaml, args: []string{"--environment", "staging", "--confirm", "good"}, check: func(t *testing.T, _ string) { asBefore(t, addr) }}
}

// atAToxiproxy is a drill with a fault of the network at a Toxiproxy that the run did not start, and that has a proxy of its owner's.
// Afterwards that is the only one.
func atAToxiproxy(t *testing.T, lasts, fault string) killable {
	t.Helper()
	api := theirProxies(t)
	return killable{
		yaml: edit(t, networkDrill, "proxy: {mode: embedded}", fmt.Sprintf("proxy: {mode: external, url: %q}", api),
			"latency: {all: true, add: 20ms, stream: both}", fault, "for: 2s", "for: "+lasts),
		args:  []string{"--environment", "local", "--confirm", "network"},
		check: func(t *testing.T, _ string) { onlyTheirs(t, api) },
	}
}

// asked sends one command to a Redis over a bare connection and returns the first line of the reply.
func asked(t *testing.T, addr, command string) string {
	t.Helper()
	return askedAs(t, addr, "", command)
}

// askedAs is asked with a password.
func askedAs(t *testing.T, addr, password, command string) string {
	t.Helper()
	const within = 20 * time.Second
	conn, err := net.DialTimeout("tcp", addr, within)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(within)))
	commands, line := []string{command}, ""
	if password != "" {
		commands = []string{"AUTH " + password, command}
	}
	replies := bufio.NewReader(conn)
	for _, c := range commands {
		if _, err := fmt.Fprintf(conn, "%s\r\n", c); err != nil {
			t.Fatal(err)
		}
		if line, err = replies.ReadString('\n'); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	return strings.TrimSpace(line)
}

// A runner that is killed with -9 at any state of its journal leaves nothing behind: its watchdog undoes it, or, where that was killed
// before, recover does.
func TestLiveARunnerKilledAtEachStateLeavesNothing(t *testing.T) {
	besideDrills(t)
	all, next := os.Getenv(drillsEnv) == "all", 0
	for _, c := range changes() {
		for _, state := range c.states {
			if !all && !slices.Contains(c.quick, state) || !strings.Contains(c.name, os.Getenv(onlyEnv)) {
				continue
			}
			ways := []string{"watchdog", "recover"}
			if !all { // both undo by the same journal: in turn
				ways, next = ways[next%2:next%2+1], next+1
			}
			for _, by := range ways {
				t.Run(c.name+" "+state+" "+by, func(t *testing.T) { killedAt(t, c, state, by) })
			}
		}
	}
}

// killedAt kills and looks. A kill may come a state too late: where everything is asked for, it is tried again until it is in time.
func killedAt(t *testing.T, c changed, state, by string) {
	tries := 1
	if os.Getenv(drillsEnv) == "all" {
		tries = 5
	}
	lasts := "30s"
	if state == "undo-intent" || state == "undone-verified" {
		lasts = "600ms"
	}
	for range tries {
		k := c.drill(t, lasts)
		dir, was := killAt(t, k, cmp.Or(c.kind, c.name), state, by == "recover")
		if by == "recover" {
			recoverAfter(t, dir)
		}
		nothingIsLeft(t, dir)
		if k.check != nil {
			k.check(t, dir)
		}
		if by == "watchdog" {
			if log, err := os.ReadFile(filepath.Join(dir, drill.WatchdogLog)); err != nil || !bytes.Contains(log, []byte("undone")) {
				t.Errorf("the watchdog's log does not say what it did: %q, %v", log, err)
			}
		}
		t.Logf("killed at %q, wanted %q", was, state)
		if was == state || t.Failed() {
			return
		}
	}
}

// killAt runs the drill and kills its runner as soon as a record of the kind has come to the state; returns the run's folder and the
// state that the record had in the end.
func killAt(t *testing.T, k killable, kind, state string, unguarded bool) (folder, was string) {
	t.Helper()
	id := 0
	folder = killWhen(t, k, unguarded, func(dir string, said fmt.Stringer) { id = awaitMark(t, dir, kind, state, said) })
	for _, m := range marks(folder) {
		if m.ID == id && m.By == "runner" {
			was = m.State
		}
	}
	return folder, was
}

// awaitMark waits for a line of the journal and returns its record's number. It is woken by the write, since the next line may follow
// within a tenth of a millisecond.
func awaitMark(t *testing.T, dir, kind, state string, said fmt.Stringer) int {
	t.Helper()
	path := filepath.Join(dir, "undo.jsonl")
	ended := func() bool {
		run, ok := said.(interface{ Over() bool })
		return ok && run.Over()
	}
	until(t, "the journal", func() bool {
		over := ended() // before the look: the last thing that a run does may be to make it
		_, err := os.Stat(path)
		if err != nil && over {
			t.Fatalf("the run ended without a journal:\n%s", said)
		}
		return err == nil
	})
	written := writesTo(t, path) // before the first look: what is written from now on wakes
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	kinds, rest, buf := map[int]string{}, []byte(nil), make([]byte, 1<<16)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		over := ended()
		n, _ := file.Read(buf) // 0 at the end, for now
		if n == 0 {
			if over {
				break
			}
			written()
			continue
		}
		rest = append(rest, buf[:n]...)
		for line, more, ok := bytes.Cut(rest, []byte("\n")); ok; line, more, ok = bytes.Cut(rest, []byte("\n")) {
			rest = more
			var m mark
			must(t, json.Unmarshal(line, &m))
			if m.Record != nil {
				kinds[m.ID] = m.Record.Kind
			}
			if kinds[m.ID] == kind && m.State == state {
				return m.ID
			}
		}
	}
	t.Fatalf("no %s came to %q:\n%s\n%+v", kind, state, said, marks(dir))
	return 0
}

// marks reads the journal, without a line that is not finished.
func marks(dir string) []mark {
	data, _ := os.ReadFile(filepath.Join(dir, "undo.jsonl"))
	var all []mark
	for line := range bytes.Lines(data) {
		var m mark
		if json.Unmarshal(line, &m) == nil {
			all = append(all, m)
		}
	}
	return all
}

func kindOf(all []mark, id int) string {
	for _, m := range all {
		if m.ID == id && m.Record != nil {
			return m.Record.Kind
		}
	}
	return ""
}

// recoverAfter undoes by hand what a run without a watchdog has left.
func recoverAfter(t *testing.T, dir string) {
	t.Helper()
	if all := marks(dir); all[len(all)-1].Closed {
		t.Fatal("the journal is closed already: somebody else has undone it")
	}
	try(t, "recover", dir).ends(t, verdict.ExitPass, "everything is undone")
}

// nothingIsLeft looks at the processes of this host, the run's folder and the journal.
func nothingIsLeft(t *testing.T, dir string) {
	t.Helper()
	noProcess(t, dir)
	if !allUndone(t, dir) {
		t.Error("there is no journal")
	}
	if got := try(t, "recover", dir); got.code != verdict.ExitPass || !strings.HasSuffix(got.stdout, "closed: nothing to undo\n") {
		t.Errorf("a second recover: %+v", got)
	}
}

// processes lists those whose command line contains all of the words. This process has none of them in its own.
func processes(words ...string) []int {
	var pids []int
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		data, _ := os.ReadFile(path)
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err == nil && !slices.ContainsFunc(words, func(w string) bool { return !bytes.Contains(data, []byte(w)) }) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// The watchdog lives as long as its run, apart from it, holds nothing of it open, and leaves no trace where it had nothing to do.
func TestLiveTheWatchdogStandsApart(t *testing.T) {
	besideDrills(t)
	var pid int
	o := runDrill(t, goodDrill, func(runner int) {
		waitForWorker(t, runner)
		dogs := processes("watchdog", filepath.Dir(t.TempDir()))
		if len(dogs) != 1 {
			t.Fatalf("watchdogs %v", dogs)
		}
		pid = dogs[0]
		if sid, err := exec.Command("ps", "-o", "sid=", "-p", strconv.Itoa(pid)).Output(); err != nil || strings.TrimSpace(string(sid)) != strconv.Itoa(pid) {
			t.Errorf("the watchdog's session is %q (%v): a terminal's end takes it along", sid, err)
		}
		pipe, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/3", pid))
		if err != nil || !strings.HasPrefix(pipe, "pipe:") {
			t.Errorf("its file 3 is %q, %v", pipe, err)
		}
		for _, child := range childrenOf(runner) {
			if slices.Equal(commandLine(child), commandLine(runner)) {
				continue // a replica that is being started: it has all that its parent has until it is itself
			}
			fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", child))
			for _, fd := range fds {
				if to, _ := os.Readlink(fd); to == pipe && child != pid {
					t.Errorf("child %d (%s) holds the watchdog's pipe open: %s", child, comm(child), fd)
				}
			}
		}
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
			must(t, syscall.Kill(pid, sig))
		}
	})
	o.ends(t, verdict.ExitPass)
	allGone(t, []int{pid})
	isGone(t, filepath.Join(o.dir, drill.WatchdogLog))
	if all := marks(o.dir); len(all) == 0 || !all[len(all)-1].Closed {
		t.Errorf("journal of a run that went well: %+v", all)
	}
}
