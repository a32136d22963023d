package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/experiments"
)

// LOCKDRILL_STRESS is how many timelines the stress test runs, LOCKDRILL_STRESS_SEED the seed of the first; the next has the next.
const (
	stressEnv     = "LOCKDRILL_STRESS"
	stressSeedEnv = "LOCKDRILL_STRESS_SEED"
	stressShort   = 3               // timelines where nobody has asked for more
	stressLimit   = 2 * time.Minute // of one run: one that takes longer hangs
)

// Random timelines of overlapping faults, with runs that end by themselves, are interrupted, or are killed: nothing is ever left, and
// no run that was cut short is a pass.
func TestLiveStress(t *testing.T) {
	besideDrills(t)
	n, first := stressShort, rand.Uint64N(1_000_000_000)
	for env, to := range map[string]func(uint64){stressEnv: func(v uint64) { n = int(v) }, stressSeedEnv: func(v uint64) { first = v }} {
		if text := os.Getenv(env); text != "" {
			v, err := strconv.ParseUint(text, 10, 63)
			if err != nil {
				t.Fatalf("%s: %v", env, err)
			}
			to(v)
		}
	}
	t.Logf("%d timelines from seed %d", n, first)
	for i := range uint64(n) {
		t.Run(fmt.Sprintf("seed %d", first+i), func(t *testing.T) {
			t.Parallel()
			timelineOf(t, first+i).run(t)
		})
	}
}

// stressRun is a run of a timeline that is over.
type stressRun struct {
	stress
	dir     string
	text    bytes.Buffer
	state   *os.ProcessState
	ended   bool     // what was to end it came in time
	events  []logged // of its history
	verdict string   // "" = it has none
}

// logged is what the test reads of a line of the history.
type logged struct {
	Kind  string
	Op    string
	Fault struct{ Why, Detail string }
}

func (l stress) run(t *testing.T) {
	r := &stressRun{stress: l, dir: filepath.Join(t.TempDir(), "run")}
	var redis, api string
	if l.theirRedis {
		redis = theirRedis(t)
		l.e.Redis.URL = "redis://" + redis
	}
	if l.theirProxy {
		api = theirProxies(t)
		l.e.Proxy.URL = api
	}
	defer func() {
		if t.Failed() {
			journal, _ := os.ReadFile(filepath.Join(r.dir, "undo.jsonl"))
			log, _ := os.ReadFile(filepath.Join(r.dir, drill.WatchdogLog))
			t.Logf("again: %s=1 %s=%d go test -count=1 -v -run TestLiveStress ./cmd/lockdrill/e2e", stressEnv, stressSeedEnv, l.seed)
			t.Logf("%s after %s or %d lines, %v\n%s\n%s\n%s", l.end, l.after, l.lines, r.state, r.text.String(), journal, log)
		}
	}()
	r.play(t)
	if r.ended && slices.Contains([]ending{endsByRace, endsByBoth, endsByUndoing}, r.end) {
		r.recover(t)
	}
	noProcess(t, r.dir)
	r.read(t)
	r.isUndone(t)
	r.endsAsItMay(t)
	r.isJudgedAsItMay(t)
	if redis != "" {
		asBefore(t, redis)
	}
	if api != "" {
		onlyTheirs(t, api)
	}
	t.Logf("%s, %v, verdict %q: %s%s", l.end, r.state, r.verdict, faultsOf(l.e), r.voids())
}

// play runs the binary and ends it as the timeline says.
func (r *stressRun) play(t *testing.T) {
	t.Helper()
	file := filepath.Join(filepath.Dir(r.dir), "stress.yaml")
	data, err := experiments.Marshal(r.e)
	must(t, err)
	write(t, file, data)
	cmd := lockdrill("run", file, "--out", r.dir)
	if r.theirRedis || r.theirProxy {
		cmd.Args = append(cmd.Args, "--environment", "local", "--confirm", "stress")
	}
	cmd.Env = append(os.Environ(), stressMark+"="+r.dir)
	cmd.Stdout, cmd.Stderr = &r.text, &r.text
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait() // how it ended is in its state
	}()
	limit := time.AfterFunc(stressLimit, func() {
		t.Errorf("the run hangs")
		_ = cmd.Process.Signal(syscall.SIGQUIT) // every goroutine's stack
	})
	defer limit.Stop()
	if r.end != endsAlone {
		r.ended = r.moment(over) && r.strike(cmd.Process.Pid, over)
	}
	<-over
	r.state = cmd.ProcessState
}

// moment waits for what ends the run; false = it has ended before.
func (r *stressRun) moment(over <-chan struct{}) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(r.after)
	for {
		select {
		case <-over:
			return false
		case <-late:
			return true
		case <-tick.C:
			if data, _ := os.ReadFile(filepath.Join(r.dir, "undo.jsonl")); r.lines > 0 && bytes.Count(data, []byte("\n")) >= r.lines {
				return true
			}
		}
	}
}

// strike ends the run; false = it has ended before. A kill takes the runner's process group along, as a CI does.
func (r *stressRun) strike(pid int, over <-chan struct{}) bool {
	switch r.end {
	case endsByInterrupt:
		return syscall.Kill(pid, syscall.SIGINT) == nil
	case endsByTwo:
		if syscall.Kill(pid, syscall.SIGINT) != nil {
			return false
		}
		select {
		case <-over:
		case <-time.After(r.again):
			_ = syscall.Kill(pid, syscall.SIGINT) // it may have come to its end
		}
		return true
	case endsByUndoing:
		dead := syscall.Kill(-pid, syscall.SIGKILL) == nil
		<-time.After(r.again)
		r.killWatchdog()
		return dead
	case endsByBoth:
		r.killWatchdog()
	}
	return syscall.Kill(-pid, syscall.SIGKILL) == nil
}

func (r *stressRun) killWatchdog() {
	for _, dog := range processes("watchdog", r.dir) {
		_ = syscall.Kill(dog, syscall.SIGKILL) // it may have left
	}
}

// recover undoes by hand. A run that was killed before it had a folder has nothing to undo.
func (r *stressRun) recover(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(r.dir, historyFile)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	try(t, "recover", r.dir).ends(t, verdict.ExitPass)
}

// isUndone: the journal is closed by who had to. Where the runner died before it had changed anything, it may be left to recover.
func (r *stressRun) isUndone(t *testing.T) {
	t.Helper()
	all := marks(r.dir)
	if untouched := !slices.ContainsFunc(all, func(m mark) bool { return m.ID > 0 }); untouched && r.state.ExitCode() == -1 {
		r.recover(t)
	}
	if !allUndone(t, r.dir) && slices.ContainsFunc(r.events, func(e logged) bool { return e.Kind != "" }) {
		t.Error("a run that has a history has no journal")
	}
	if r.state.ExitCode() >= 0 && r.state.ExitCode() != verdict.ExitDirty {
		ends := map[int]time.Time{}
		for _, m := range all {
			if m.Record != nil && !m.Record.Ends.IsZero() {
				ends[m.ID] = m.Record.Ends
			}
			overdue := !ends[m.ID].IsZero() && m.At.After(ends[m.ID]) // a busy machine has held up the runner
			if m.By == "watchdog" && !overdue || m.State == "dirty" {
				t.Errorf("a run that is not dirty was cleaned up after by its watchdog, or was dirty: %+v", m)
			}
		}
	}
}

// endsAsItMay holds the exit status against how the run was ended.
func (r *stressRun) endsAsItMay(t *testing.T) {
	t.Helper()
	code := r.state.ExitCode()
	may := []int{verdict.ExitPass, verdict.ExitSLOFailed, verdict.ExitInconclusive}
	if r.ended {
		switch r.end {
		case endsByInterrupt:
			may = append(may, verdict.ExitAborted)
		case endsByTwo:
			may = append(may, verdict.ExitAborted, verdict.ExitDirty)
		default:
			may = append(may, -1)
		}
	}
	status, _ := r.state.Sys().(syscall.WaitStatus)
	if r.ended && status.Signaled() && status.Signal() == syscall.SIGINT { // before it had begun
		isGone(t, r.dir)
		return
	}
	if !slices.Contains(may, code) {
		t.Errorf("exit %d (%v), want one of %v", code, r.state, may)
	}
}

// isJudgedAsItMay: what is aborted, killed, or has a fault that did not happen as often as declared is no pass; and in a run that ended in order each
// fault that was made was ended.
func (r *stressRun) isJudgedAsItMay(t *testing.T) {
	t.Helper()
	kinds, ops := map[string]int{}, map[string]map[string]bool{}
	for _, e := range r.events {
		kinds[e.Kind]++
		if ops[e.Kind] == nil {
			ops[e.Kind] = map[string]bool{}
		}
		ops[e.Kind][e.Op] = true
	}
	code := r.state.ExitCode()
	if code == verdict.ExitPass || r.verdict == "pass" {
		if code != verdict.ExitPass && code != -1 || r.verdict != "pass" || kinds["run.abort"] > 0 || kinds["run.end"] != 1 {
			t.Errorf("exit %d, verdict %q, and the history has %v", code, r.verdict, kinds)
		}
		for i := range r.e.Faults { // a void shot is made again
			f, n := &r.e.Faults[i], 0
			for op := range ops["fault.confirmed"] {
				if strings.HasPrefix(op, f.ID+"#") {
					n++
				}
			}
			if n != f.Repeat.Count {
				t.Errorf("exit %d, and %s was confirmed %d times, want %d", code, f.ID, n, f.Repeat.Count)
			}
		}
	}
	if r.verdict != "" {
		for op := range ops["fault.applied"] {
			if !ops["fault.verified"][op] {
				t.Errorf("the run ended in order, and %s was not ended", op)
			}
		}
	}
	if len(r.events) == 0 || r.verdict != "" {
		return
	}
	if got := try(t, "judge", r.dir); got.code == verdict.ExitPass && (kinds["run.end"] == 0 || kinds["run.abort"] > 0) || got.code == verdict.ExitError {
		t.Errorf("judge of a run that was cut short: %+v", got)
	}
}

// read reads history and verdict as far as there are any.
func (r *stressRun) read(t *testing.T) {
	t.Helper()
	data, _ := os.ReadFile(filepath.Join(r.dir, historyFile))
	for line := range bytes.Lines(data) {
		var e logged
		if json.Unmarshal(line, &e) == nil && e.Kind != "" {
			r.events = append(r.events, e)
		}
	}
	if data, err := os.ReadFile(filepath.Join(r.dir, verdictFile)); err == nil {
		var v struct{ Verdict string }
		if err := json.Unmarshal(data, &v); err != nil {
			t.Error(err)
		}
		r.verdict = v.Verdict
	}
}

// voids says which shots did not happen, and why: for who reads the log.
func (r *stressRun) voids() string {
	var b strings.Builder
	for _, e := range r.events {
		if e.Kind == "fault.void" {
			fmt.Fprintf(&b, "\n  %s void (%s): %s", e.Op, e.Fault.Why, e.Fault.Detail)
		}
	}
	return b.String()
}

func faultsOf(e *experiments.Experiment) string {
	var all []string
	for i := range e.Faults {
		all = append(all, strings.Join(strings.Fields(e.Faults[i].Kind()+" "+e.Faults[i].Form()), " "))
	}
	return strings.Join(all, ", ")
}
