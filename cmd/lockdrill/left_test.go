package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
