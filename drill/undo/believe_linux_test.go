package undo

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// started starts a shell in a session of its own, and returns the numbers that it prints, a line each.
func started(t *testing.T, env, script string, lines int) (*exec.Cmd, []int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(os.Environ(), env)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var pids []int
	for s := bufio.NewScanner(out); len(pids) < lines && s.Scan(); {
		pid, err := strconv.Atoi(strings.TrimSpace(s.Text()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		pids = append(pids, pid)
	}
	return cmd, pids
}

func runs(pid int) bool {
	stat, err := statOf(pid)
	return err == nil && stat[0] != "Z" && stat[0] != "X"
}

// What a dead process has started is found by its group, its session and its mark, and ended; what only has its number is not.
func TestWhatADeadProcessHasStartedIsEnded(t *testing.T) {
	env := MarkEnv + "=n/a"
	cmd, pids := started(t, env, `sleep 600 & echo $!; setsid sh -c 'echo $$; exec sleep 600' & sh -c 'set -m; sleep 600 & echo $!' ; wait`, 3)
	p := Find(cmd.Process.Pid)
	if p.Mark != "n/a" {
		t.Fatalf("found %+v", p)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if alive, err := p.Lives(); err != nil || alive {
		t.Fatalf("the shell lives: %v", err)
	}
	if none, err := p.Signal(0); none || err != nil {
		t.Fatalf("nothing is said to be left of it (%v)", err)
	}
	other := p
	other.Mark, other.Started = "n/b", "1"
	if none, err := other.Signal(0); none && err == nil {
		t.Error("what is in a group without its mark is not said")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.End(ctx); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if runs(pid) {
			t.Errorf("process %d lives", pid)
		}
	}
	if none, err := p.Signal(0); !none || err != nil {
		t.Errorf("after its end: %t, %v", none, err)
	}
}

// A record is data: what it names that the run did not make, or that the experiment does not name, is refused and not touched.
func TestARecordOfWhatIsNotTheRunsIsRefused(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(path)
	}
	write(filepath.Join(dir, experimentFile), "redis: {url: 'redis://h:1', password_env: MINE}\nledger: {username_env: ME}\nproxy: {url: 'http://toxi:8474/', route: 'redis-{name}'}\n"+
		"faults:\n  - {id: cut, hook: {do: [./cut.sh], undo: [./mend.sh, now], dir: /opt}}\n  - {id: blip, hook: {do: [./mend.sh, now], dir: /opt}}\n")
	file, err := os.OpenFile(filepath.Join(dir, experimentFile), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString("  - {id: chaos, object: {manifest: {apiVersion: x/v1, kind: Cut}}}\n")
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	cut := func(id, version, kind, run string) Record {
		return Record{Kind: "object", Shot: history.Event{Op: id + "#1", Fault: &history.Fault{ID: id}}, Cluster: &Cluster{Run: run, Namespace: "shop"},
			Made: &Made{Object: Object{version, kind, "c"}}}
	}
	marked, _ := started(t, MarkEnv+"=nonce/r1", "exec sleep 600", 0)
	strange, _ := started(t, "X=y", "exec sleep 600", 0)
	worker, stranger := Find(marked.Process.Pid), Find(strange.Process.Pid)
	await := func(pid int) { // until the shell has become what it is to be
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
			if c, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); strings.HasPrefix(string(c), "sleep") {
				return
			}
		}
		t.Fatal("no sleep")
	}
	await(worker.PID)
	await(stranger.PID)
	named := func(p Process, mark, folder string) *Process { p.Mark, p.Folder = mark, folder; return &p }
	alone := func(p Process) *Process { p.Alone = true; return &p }
	struck := history.Event{Op: "stall#1", Fault: &history.Fault{ID: "stall"}}
	own := write(filepath.Join(base, "lockdrill-own", NonceFile), "nonce")
	elses := write(filepath.Join(base, "lockdrill-other", NonceFile), "other")
	plain := write(filepath.Join(base, "lockdrill-plain", "letters"), "dear")
	below := write(filepath.Join(dir, "stores", "lockdrill-redis-a", "dump"), "data")
	empty := filepath.Join(base, "lockdrill-empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	begun := write(filepath.Join(base, "lockdrill-begun", NonceFile), "")
	used := write(filepath.Join(base, "lockdrill-used", NonceFile), "")
	write(filepath.Join(used, "letters"), "dear")
	link := filepath.Join(dir, "stores", "lockdrill-link")
	if err := os.Symlink(plain, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		v    int
		r    Record
		want string
	}{
		{"a folder of the run", 2, Record{Kind: StandServer, Folder: own}, ""},
		{"another run's folder", 2, Record{Kind: StandServer, Folder: elses}, "does not have the run's nonce"},
		{"anybody's folder", 2, Record{Kind: StandServer, Folder: plain}, "does not have the run's nonce"},
		{"anybody's folder, of a replica", 2, Record{Kind: StandReplica, Folder: plain}, "does not have the run's nonce"},
		{"a folder that was just made", 2, Record{Kind: StandServer, Folder: empty}, ""},
		{"a folder whose nonce is not written yet", 2, Record{Kind: StandServer, Folder: begun}, ""},
		{"a folder with no nonce, and something in it", 2, Record{Kind: StandServer, Folder: used}, "does not have the run's nonce"},
		{"a folder that is gone", 2, Record{Kind: StandServer, Folder: filepath.Join(base, "lockdrill-gone")}, ""},
		{"version 1: below the run's", 1, Record{Kind: StandServer, Folder: below}, ""},
		{"version 1: elsewhere", 1, Record{Kind: StandServer, Folder: plain}, "not below the run's own"},
		{"version 1: a link below the run's", 1, Record{Kind: StandServer, Folder: link}, "is no folder"},
		{"variables of the experiment", 2, Record{Kind: StandKeys, Store: &Store{Addr: "h:1", UsernameEnv: "ME", PasswordEnv: "MINE"}, Key: &Key{Name: "lockdrill:mine:"}}, ""},
		{"a variable of the experiment, sent elsewhere", 2, Record{Kind: StandKeys, Store: &Store{Addr: "evil:1", PasswordEnv: "MINE"}}, "sends the environment variable MINE to evil:1"},
		{"keys of another run", 2, Record{Kind: StandKeys, Store: &Store{Addr: "h:1"}, Key: &Key{Name: "lockdrill:other:"}}, "that are not of run"},
		{"keys that only have the run's name in them", 2, Record{Kind: StandKeys, Store: &Store{Addr: "h:1"}, Key: &Key{Name: "mine"}}, "that are not of run"},
		{"every key", 2, Record{Kind: StandKeys, Store: &Store{Addr: "h:1"}, Key: &Key{}}, "that are not of run"},
		{"no keys", 2, Record{Kind: StandKeys, Store: &Store{Addr: "h:1"}}, "that are not of run"},
		{"another store", 2, Record{Kind: "store", Shot: struck, Store: &Store{Addr: "evil:1", Memory: &Memory{Max: "0"}}}, "names the store at evil:1"},
		{"another server of the store", 2, Record{Kind: StandKeys, Store: &Store{Kind: "etcd", Addr: "h:1", Addrs: []string{"h:1", "evil:2"}}, Key: &Key{Name: "lockdrill:mine:"}}, "names the store at evil:2"},
		{"keys in a cluster", 2, Record{Kind: StandKeys, Store: &Store{Addr: "h:1", Cluster: true, Addrs: []string{"h:1", "h:2"}}, Key: &Key{Name: "lockdrill:mine:"}}, ""},
		{"a cluster's password, sent to others", 2, Record{Kind: StandKeys, Store: &Store{Addr: "h:1", Cluster: true, Addrs: []string{"h:1", "h:2"}, PasswordEnv: "MINE"}, Key: &Key{Name: "lockdrill:mine:"}}, "sends the environment variable MINE to h:2"},
		{"another Sentinel", 2, Record{Kind: "store", Shot: struck, Store: &Store{Addr: "h:1", Sentinel: &Sentinel{Addrs: []string{"evil:3"}}}}, "names the store at evil:3"},
		{"a store of the run's own", 2, Record{Kind: "store", Shot: struck, Store: &Store{Addr: "127.0.0.1:7", Owned: true}}, ""},
		{"a proxy of the run", 2, Record{Kind: StandRoute, Route: &ProxyRoute{API: "http://toxi:8474", Proxy: "lockdrill-mine-r1"}}, ""},
		{"somebody's proxy", 2, Record{Kind: StandRoute, Route: &ProxyRoute{API: "http://toxi:8474", Proxy: "orders"}}, "the record names proxy orders"},
		{"a proxy of another run", 2, Record{Kind: "latency", Routes: []ProxyRoute{{API: "http://toxi:8474", Proxy: "lockdrill-other-r1"}}}, "the record names proxy lockdrill-other-r1"},
		{"somebody's toxic", 2, Record{Kind: "latency", Routes: []ProxyRoute{{API: "http://toxi:8474", Proxy: "redis-a", Theirs: true, Toxics: []string{"slow"}}}}, "the record names toxic slow"},
		{"a proxy that the experiment names", 2, Record{Kind: "down", Shot: struck, Routes: []ProxyRoute{{API: "http://toxi:8474", Proxy: "redis-a", Theirs: true, Down: true}}}, ""},
		{"somebody's proxy, which it does not name", 2, Record{Kind: "down", Shot: struck, Routes: []ProxyRoute{{API: "http://toxi:8474", Proxy: "orders", Theirs: true, Down: true}}}, "names proxy orders"},
		{"a proxy that the experiment names, to be removed", 2, Record{Kind: StandRoute, Route: &ProxyRoute{API: "http://toxi:8474", Proxy: "redis-a", Theirs: true}}, "names proxy redis-a"},
		{"a fault of no store", 2, Record{Kind: "store", Shot: struck}, "does not say where its fault is"},
		{"a fault on no way", 2, Record{Kind: "latency", Shot: struck}, "does not say where its fault is"},
		{"a pod that is cut off, nowhere", 2, Record{Kind: "network_policy", Shot: struck}, "does not say where its fault is"},
		{"a pod that is cut off", 2, Record{Kind: "network_policy", Shot: struck, Cluster: &Cluster{Run: "mine", Namespace: "shop"}}, ""},
		{"an API server behind a proxy", 2, Record{Kind: "api_server", Shot: struck, Tap: &Tap{API: "http://toxi:8474", ID: "mine-cut.1"}}, ""},
		{"another Toxiproxy", 2, Record{Kind: StandRoute, Route: &ProxyRoute{API: "http://evil:8474", Proxy: "lockdrill-mine-r1"}}, "names the Toxiproxy at http://evil:8474"},
		{"the Toxiproxy of the runner itself", 2, Record{Kind: StandRoute, Route: &ProxyRoute{API: "http://127.0.0.1:9", Proxy: "lockdrill-mine-r1", Own: 7}}, ""},
		{"another's fault of a proxy", 2, Record{Kind: "fail", Tap: &Tap{API: "http://h:2", ID: "other-1"}}, "names fault other-1 of a proxy"},
		{"a fault of a proxy of the experiment", 2, Record{Kind: "fail", Tap: &Tap{API: "http://toxi:8474", ID: "mine-cut.1"}}, ""},
		{"a fault of another proxy", 2, Record{Kind: "fail", Tap: &Tap{API: "http://evil:2", ID: "mine-cut.1"}}, "names the lockdrill proxy at http://evil:2"},
		{"another variable", 2, Record{Kind: "store", Store: &Store{PasswordEnv: "AWS_SECRET_ACCESS_KEY"}}, "names the environment variable AWS_SECRET_ACCESS_KEY"},
		{"another user variable", 1, Record{Kind: "delete_key", Store: &Store{UsernameEnv: "HOME"}}, "names the environment variable HOME"},
		{"a hook of the experiment", 2, hook("cut", "/opt", "nonce/hook/cut#1", "./mend.sh", "now"), ""},
		{"a hook that has nothing to undo", 2, hook("blip", "/opt", "nonce/hook/blip#1"), ""},
		{"another command", 2, hook("cut", "/opt", "nonce/hook/cut#1", "sh", "-c", "rm -r /"), "names another: it is not run"},
		{"another folder", 2, hook("cut", "/tmp", "nonce/hook/cut#1", "./mend.sh", "now"), "names another: it is not run"},
		{"the command of another fault", 2, hook("blip", "/opt", "nonce/hook/blip#1", "./mend.sh", "now"), "names another: it is not run"},
		{"the command of no fault", 2, hook("", "/opt", "nonce/hook/cut#1", "./mend.sh", "now"), "names another: it is not run"},
		{"a hook that would end another run's commands", 2, hook("cut", "/opt", "other/hook/cut#1", "./mend.sh", "now"), "not said to carry"},
		{"a hook that would end replicas", 2, hook("cut", "/opt", "nonce/r1.1", "./mend.sh", "now"), "not said to carry"},
		{"version 1: a hook", 1, hook("cut", "/opt", "/hook/cut#1", "./mend.sh", "now"), "not said to carry"},
		{"an object that the experiment makes", 3, cut("chaos", "x/v1", "Cut", "mine"), ""},
		{"an object of another kind", 3, cut("chaos", "v1", "Secret", "mine"), "makes none such: it is not touched"},
		{"an object of another fault", 3, cut("cut", "x/v1", "Cut", "mine"), "makes none such: it is not touched"},
		{"an object of another run", 3, cut("chaos", "x/v1", "Cut", "other"), "names what run other has in namespace shop"},
		{"objects of another run", 2, Record{Kind: StandPods, Cluster: &Cluster{Run: "other", Namespace: "shop"}}, "names what run other has in namespace shop"},
		{"a replica", 2, Record{Kind: StandReplica, Process: named(worker, "nonce/r1", "")}, ""},
		{"anybody's process", 2, Record{Kind: StandReplica, Process: named(stranger, "nonce/r1", "")}, "does not carry the mark"},
		{"anybody's process, without a mark", 2, Record{Kind: "pause", Process: named(stranger, "", "")}, "not said to carry"},
		{"another run's process", 2, Record{Kind: StandReplica, Process: named(worker, "other/r1", "")}, "not said to carry"},
		{"anybody's process, by its folder", 2, Record{Kind: "store", Process: named(stranger, "", plain)}, "does not have the run's nonce"},
		{"somebody's own that stands still", 2, Record{Kind: "pause", Shot: struck, Process: alone(stranger)}, ""},
		{"somebody's own, to be ended", 2, Record{Kind: StandReplica, Process: alone(stranger)}, "is somebody's own"},
		{"somebody's own, by no fault", 2, Record{Kind: "pause", Process: alone(stranger)}, "is somebody's own"},
		{"somebody's own, and its cgroup", 2, Record{Kind: "pause", Shot: struck, Cgroup: "/lockdrill-nonce/r1", Process: alone(stranger)}, "is somebody's own"},
		{"version 1: anybody's process", 1, Record{Kind: StandReplica, Process: named(stranger, "", "")}, "does not carry the mark"},
		{"version 1: a dead process", 1, Record{Kind: StandReplica, Process: &Process{PID: stranger.PID, Started: "1", Host: stranger.Host}}, ""},
	} {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		h := Header{V: c.v, Run: "mine"}
		if c.v > 1 {
			h.Nonce = "nonce"
		}
		_, err = (&Found{path: filepath.Join(dir, File), root: root}).believe(&h, c.r)
		_ = root.Close()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// What a hook's record may name is known from when the experiment was there.
func TestTheExperimentIsRemembered(t *testing.T) {
	path := do(t, Header{Run: "r"}, "intent a")
	beside := filepath.Join(filepath.Dir(path), experimentFile)
	if err := os.WriteFile(beside, []byte("faults:\n  - {id: cut, hook: {do: [./cut.sh], undo: [./mend.sh], dir: /opt}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := foundAt(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Look()
	if err := os.Remove(beside); err != nil {
		t.Fatal(err)
	}
	if _, err := f.believe(&Header{V: 2, Run: "r", Nonce: "nonce"}, hook("cut", "/opt", "nonce/hook/cut#1", "./mend.sh")); err != nil {
		t.Error(err)
	}
}

// A folder that another user has put around a process does not make it the run's.
func TestAFolderOfSomebodyElseProvesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root can give a folder away")
		}
		t.Skip("SKIPPED, NOT TESTED: only root can give a folder away")
	}
	dir := t.TempDir()
	cmd := exec.Command("sleep", "600")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p := Find(cmd.Process.Pid)
	p.Folder = dir
	if !p.carries(p.PID) {
		t.Error("a folder of its own user proves nothing")
	}
	if err := os.Chown(dir, 65534, -1); err != nil {
		t.Fatal(err)
	}
	if p.carries(p.PID) {
		t.Error("a folder of somebody else makes a process the run's")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if p.carries(p.PID) {
		t.Error("so does one that is gone")
	}
}

// A process that leads no group is still one that was started.
func TestAProcessThatLeadsNothingIsEnded(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p := Find(cmd.Process.Pid)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.End(ctx); err != nil || runs(p.PID) {
		t.Errorf("%v; it runs: %t", err, runs(p.PID))
	}
	_ = cmd.Wait()
}

// Between two programs a process has no environment. It is looked at again, and so is what has come meanwhile.
func TestEveryProcessIsLookedAt(t *testing.T) {
	bare := exec.Command("sleep", "600")
	bare.Env = []string{}
	if err := bare.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bare.Process.Kill(); _ = bare.Wait() })
	if !unread(bare.Process.Pid) || unread(os.Getpid()) {
		t.Error("whose environment is empty is not known")
	}
	var late *exec.Cmd
	looks, came := 0, false
	err := eachProcess(func(pid int, _ []string) (hidden bool) {
		if late == nil {
			late = exec.Command("sleep", "600")
			if err := late.Start(); err != nil {
				t.Error(err)
			}
		}
		came = came || late.Process != nil && pid == late.Process.Pid
		if pid != bare.Process.Pid {
			return false
		}
		looks++
		return looks < 3
	})
	_ = late.Process.Kill()
	_ = late.Wait()
	if err != nil || looks != 3 || !came {
		t.Errorf("%d looks at one that was hidden, want 3; the one that came was seen: %t; %v", looks, came, err)
	}
}

func hook(id, dir, mark string, command ...string) Record {
	r := Record{Kind: "hook", Hook: &Hook{Undo: command, Dir: dir, Mark: mark}}
	if id != "" {
		r.Shot.Fault = &history.Fault{ID: id}
	}
	return r
}

// A journal that is gone, or another file by now, refuses every further change; what the run has undone it still knows.
func TestALostJournalRefusesEveryChange(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"gone":     os.Remove,
		"folder":   func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"replaced": func(path string) error { return os.Rename(copied(path), path) },
	} {
		path := filepath.Join(t.TempDir(), "run", File)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		j, err := Create(path, Header{Run: "r"})
		if err != nil {
			t.Fatal(err)
		}
		id, err := j.Intend(rec("pause", "a"))
		if err != nil || j.Check() != nil {
			t.Fatal(err, j.Check())
		}
		f, err := Open(filepath.Dir(path), false)
		if err != nil {
			t.Fatal(err)
		}
		if err := lose(path); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Intend(rec("pause", "b")); err == nil || j.Check() == nil {
			t.Errorf("%s: it is written on", name)
		}
		if err := j.Mark(id, Undone, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(j.Open()) > 0 || j.Close() == nil {
			t.Errorf("%s: open %v", name, j.Open())
		}
		if c, err := f.Read(); err != nil || !c.Closed { // whoever has it open sees its end
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		_ = f.Close()
	}
}

// copied is another file with the same content.
func copied(path string) string {
	data, _ := os.ReadFile(path)
	_ = os.WriteFile(path+".copy", data, 0o644)
	return path + ".copy"
}

// A process that is somebody's own is signalled by itself, whatever is in its group, and is never ended.
func TestSomebodysOwnProcessIsContinuedAndNeverEnded(t *testing.T) {
	cmd, pids := started(t, "X=y", "sleep 600 & echo $!; wait", 1)
	p := Find(cmd.Process.Pid)
	p.Alone = true
	state := func(pid int, want string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			stat, err := statOf(pid)
			if err == nil && (stat[0] == "T") == (want == "T") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %d is in state %v (%v), want %s", pid, stat, err, want)
			}
		}
	}
	if none, err := p.Signal(syscall.SIGSTOP); none || err != nil {
		t.Fatalf("%t, %v", none, err)
	}
	state(p.PID, "T")
	state(pids[0], "S") // in its group
	if err := p.End(t.Context()); err == nil || !strings.Contains(err.Error(), "somebody's own") {
		t.Errorf("End: %v", err)
	}
	other := p
	other.Started += "0"
	if none, err := other.Signal(syscall.SIGKILL); !none || err != nil {
		t.Errorf("one of its number that was started at another time: %t, %v", none, err)
	}
	if none, err := p.Signal(syscall.SIGCONT); none || err != nil {
		t.Errorf("%t, %v", none, err)
	}
	state(p.PID, "S")
	if want := "kill -CONT " + strconv.Itoa(p.PID) + " "; !strings.HasPrefix(ByHand(Record{Kind: "pause", Process: &p})[0], want) {
		t.Errorf("by hand: %q", ByHand(Record{Kind: "pause", Process: &p}))
	}
}
