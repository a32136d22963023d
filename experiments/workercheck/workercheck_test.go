package workercheck

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/redistest"
)

const (
	healthy = "../../scenarios/workers/python/worker.py"
	liar    = "testdata/liar.py"
)

// python is the way to run a script. Without Python the test is skipped, in continuous integration it fails.
func python(t *testing.T, script string, args ...string) []string {
	t.Helper()
	program, err := exec.LookPath("python3")
	if err == nil {
		return append([]string{program, "-B", script}, args...)
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("python3 is not on the PATH: continuous integration must test the worker that others copy")
	}
	t.Skip("SKIPPED, NOT TESTED: python3 is not on the PATH")
	return nil
}

func check(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wrongs are the names of the steps that are wrong.
func wrongs(r *Report) (names []string) {
	for _, s := range r.Steps {
		if s.Result == Wrong {
			names = append(names, s.Name)
		}
	}
	return names
}

// stalls counts the steps that a busy machine kept from being seen: of them nobody can say more.
func stalls(r *Report) (n int) {
	for _, s := range r.Steps {
		if s.Stalled {
			n++
		}
	}
	return n
}

func tell(t *testing.T, r *Report) {
	t.Helper()
	for _, s := range r.Steps {
		if s.Result != OK {
			t.Logf("%s %s: %s", s.Result, s.Name, s.Seen)
		}
	}
}

func TestTheExamplesAreRightInEveryStep(t *testing.T) {
	redistest.Need(t)
	t.Parallel()
	var wait sync.WaitGroup
	for _, command := range [][]string{python(t, healthy), {buildExample(t)}} {
		wait.Go(func() {
			r, err := Run(t.Context(), Options{Command: command})
			if err != nil {
				t.Error(err)
			} else if n := r.Count(OK) + stalls(r); n != len(rows()) {
				tell(t, r)
				t.Errorf("%s: %d of %d steps are right", command, n, len(rows()))
			}
		})
	}
	wait.Wait()
}

// buildExample builds the worker in Go from its own module, without a network.
func buildExample(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "worker")
	for _, args := range [][]string{{"vet", "."}, {"build", "-buildvcs=false", "-o", binary, "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = "../../scenarios/workers/go"
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s the example: %v\n%s", args[0], err, out)
		}
	}
	return binary
}

// The embedded store stands in where there is no redis-server.
func TestWithoutARedisServerTheEmbeddedStoreIsUsed(t *testing.T) {
	command := python(t, healthy)
	itself, err := exec.Command(command[0], "-c", "import sys; print(sys.executable)").Output() // a wrapper needs the PATH
	if err != nil {
		t.Fatal(err)
	}
	command[0] = strings.TrimSpace(string(itself))
	t.Setenv("PATH", t.TempDir())
	r := check(t, Options{Command: command, Only: Loops})
	if r.Count(OK) != len(r.Steps) || !strings.Contains(r.Store, "embedded") {
		tell(t, r)
		t.Errorf("%d of %d steps are right at: %s", r.Count(OK), len(r.Steps), r.Store)
	}
}

// liars says for each lie of testdata/liar.py which steps it makes wrong: those that name it, and then those that follow from it.
// The first are always tried, all of them with LOCKDRILL_LIARS=all.
var liars = []struct {
	lie     string
	only    Subject
	named   []string // must be wrong
	follows []string // may be wrong: what the lie brings about
}{
	{"fake-release", Jobs, []string{"release"}, []string{"unanswered", "free", "stop", "sigterm", "input-end"}},
	{"fake-keep", Jobs, []string{"renew"}, []string{"lost", "fence-observed", "unknown", "release", "effects", "ack"}},
	{"wrong-token", Jobs, []string{"acquire-token"}, []string{"renew", "release"}},
	{"denied-grant", Jobs, []string{"grant"}, []string{"unanswered"}},
	{"ghost-holder", Jobs, []string{"holder"}, nil},
	{"missing-begin", Jobs, []string{"begin"}, []string{"skipped"}},
	{"shifted-clock", Jobs, []string{"clock"}, []string{"prompt", "work"}},
	{"buffered-lines", Jobs, []string{"prompt"}, []string{"pairs", "acquire-announced", "acquire-token", "grant", "work", "renew", "release", "renew-announced",
		"release-announced", "release-order", "ack", "skipped", "refused", "busy", "lost", "silent-store", "unknown", "fence-observed", "pause", "stop", "sigterm", "input-end", "clock", "unanswered", "unknown-fields"}},
	{"no-undo", Jobs, []string{"unanswered"}, nil},
	{"strict-fields", Jobs, []string{"unknown-fields"}, nil},
	{"hasty-ticks", Loops, []string{"loop"}, nil},
	{"claimed-grant", Jobs, []string{"grant"}, []string{"fence-grows", "refused", "busy"}},
	{"unflushed-lines", "", []string{"ready"}, nil},
	{"late-lines", Jobs, []string{"acquire-announced", "renew-announced", "release-announced"}, nil},
	{"silent-renewals", Jobs, []string{"renew-announced"}, nil},
	{"silent-loss", Jobs, []string{"fence-observed"}, nil},
	{"logs-on-stdout", Jobs, []string{"lines"}, nil},
	{"timeout-is-fail", Jobs, []string{"unknown"}, nil},
	{"process-fence", Jobs, []string{"fence-grows"}, []string{"fence-stored"}},
	{"clock-fence", Jobs, []string{"fence-stored"}, nil},
	{"no-fence", Jobs, []string{"fence"}, []string{"fence-grows"}},
	{"two-steps", Jobs, []string{"lease"}, []string{"fence-grows"}},
	{"one-token", Jobs, []string{"fresh-token"}, []string{"effects"}},
	{"thief", Jobs, []string{"refused"}, []string{"fence-grows", "busy"}},
	{"blind-release", Jobs, []string{"stranger"}, []string{"release"}},
	{"blind-renew", Jobs, []string{"stranger", "lost"}, []string{"fence-observed"}},
	{"no-renewals", Jobs, []string{"renew"}, []string{"effects", "release", "free", "ack", "lost", "fence-observed", "silent-store", "pause"}},
	{"works-on", Jobs, []string{"lost", "silent-store", "pause"}, []string{"fence-observed"}},
	{"patient", Jobs, []string{"silent-store", "unknown"}, nil},
	{"releases-first", Jobs, []string{"release-order"}, nil},
	{"leaves-key", Jobs, []string{"stop", "sigterm", "input-end"}, nil},
	{"no-answer", Jobs, []string{"ack", "busy"}, nil},
	{"does-again", Jobs, []string{"skipped"}, nil},
	{"same-op", Jobs, []string{"effects"}, []string{"skipped"}},
	{"ignores-arm", Jobs, []string{"arm", "disarm"}, nil},
	{"ignores-sigterm", Jobs, []string{"sigterm"}, nil},
	{"ignores-end", Jobs, []string{"input-end"}, nil},
	{"crashes-on-stop", Jobs, []string{"stop"}, []string{"sigterm", "input-end"}},
	{"lazy-follower", Loops, []string{"loop-follower"}, nil},
	{"begins-again", Loops, []string{"loop-begin"}, nil},
}

// alwaysTried is how many of them are tried without being asked for.
const alwaysTried = 11

// A worker that is wrong in one thing is told of that thing, and of nothing that does not follow from it.
func TestLiveEachWrongWorkerIsNamed(t *testing.T) {
	redistest.Need(t)
	python(t, liar)
	t.Parallel()
	some := liars
	if os.Getenv("LOCKDRILL_LIARS") != "all" {
		some = liars[:alwaysTried]
		t.Run("the others", func(t *testing.T) {
			t.Skipf("SKIPPED, NOT TESTED: %d of %d wrong workers; LOCKDRILL_LIARS=all (make liars) tries them", len(liars)-len(some), len(liars))
		})
	}
	atOnce := make(chan struct{}, alwaysTried) // they mostly wait
	var wait sync.WaitGroup
	var unseen atomic.Int64
	for _, c := range some {
		wait.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			o := Options{Command: python(t, liar, "--lie", c.lie), Only: c.only}
			if c.only == "" {
				o.Ready = 3 * time.Second
			}
			busy := ""
			for o.TTL = DefaultTTL; o.TTL <= 4*DefaultTTL; o.TTL *= 2 { // a machine that stands still is no witness, unless it has more time
				r, err := Run(t.Context(), o)
				if err != nil {
					t.Errorf("%s: %v", c.lie, err)
					return
				}
				t.Logf("%s: %.1f s", c.lie, r.Seconds)
				if busy = unsure(r, c.named); busy == "" {
					judge(t, c.lie, r, c.named, c.follows)
					return
				}
			}
			unseen.Add(1)
			t.Logf("NOT SHOWN: %s: even with a TTL of %s this machine is too busy to tell: %s", c.lie, o.TTL/2, busy)
		})
	}
	wait.Wait()
	if n := int(unseen.Load()); 2*n > len(some) {
		t.Errorf("of %d wrong workers %d could not be told: is this test's TTL too short for any machine?", len(some), n)
	}
}

// unsure says which of the steps was not seen because the machine was busy.
func unsure(r *Report, named []string) string {
	for _, s := range r.Steps {
		if slices.Contains(named, s.Name) && s.Stalled {
			return s.Seen
		}
	}
	return ""
}

func judge(t *testing.T, lie string, r *Report, named, follows []string) {
	found := wrongs(r)
	for _, name := range named {
		if !slices.Contains(found, name) {
			t.Errorf("%s: the step %s is not wrong; wrong are %q", lie, name, found)
		}
	}
	for _, s := range r.Steps {
		if s.Result == Wrong && !slices.Contains(named, s.Name) && !slices.Contains(follows, s.Name) {
			t.Errorf("%s: the step %s is wrong as well: %s", lie, s.Name, s.Seen)
		}
		if s.Result == Wrong && (s.Seen == "" || s.Expected == "" || s.Change == "" || s.Section == "") {
			t.Errorf("%s: the step %s does not say all: %+v", lie, s.Name, s)
		}
	}
}

// Whatever a worker does, the check ends, and so does all that the worker has started.
func TestWhatNeverSpeaksIsEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, says string }{
		{"silent", `exec sleep 1000`, "wrote no line"},
		{"gone", `exit 3`, "exit status 3"},
		{"broken", `echo no module named redis >&2; exit 1`, "no module named redis"},
		{"garbage", `while :; do echo hello; sleep 0.1; done`, "hello"},
		{"flood", `exec yes`, "no event"},
		{"one long line", `exec tr '\0' x < /dev/zero`, "wrote no line"},
		{"stubborn", `trap "" TERM INT HUP; while :; do sleep 1; done`, "wrote no line"},
		{"forks", `sleep 1000 & echo $! > "$PIDFILE"; setsid sleep 1000 & echo $! >> "$PIDFILE"; exec sleep 1000`, "wrote no line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pids := filepath.Join(t.TempDir(), "pids")
			r := check(t, Options{Command: []string{"sh", "-c", c.script}, Env: []string{"PIDFILE=" + pids}, Ready: time.Second})
			if first := r.Steps[0]; first.Result != Wrong || !strings.Contains(first.Seen+r.Steps[1].Seen, c.says) {
				t.Errorf("ready is %s: %s", first.Result, first.Seen)
			}
			if n := r.Count(OK); n != 0 {
				t.Errorf("%d steps are right", n)
			}
			list, _ := os.ReadFile(pids)
			for _, field := range strings.Fields(string(list)) {
				pid, err := strconv.Atoi(field)
				if err != nil {
					t.Fatal(err)
				}
				if runs(pid) {
					t.Errorf("process %d still runs", pid)
				}
			}
			if c.name == "forks" && len(list) == 0 {
				t.Error("it did not fork")
			}
		})
	}
}

// runs reports whether a process runs. One that is dead and that nobody has collected yet does not.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestOptionsThatMakeNoSenseStartNothing(t *testing.T) {
	for _, o := range []Options{
		{}, {Command: []string{"there-is-no-such-program"}}, {Command: []string{"sh"}, TTL: time.Millisecond},
		{Command: []string{"sh"}, Only: "both"}, {Command: []string{"sh"}, Ready: -1},
	} {
		if _, err := Run(t.Context(), o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestAnInterruptedCheckLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	o := Options{Command: []string{"sh", "-c", "exec sleep 1000"}, Notify: func(string) { cancel() }}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// Each step says where the document describes it.
func TestStepsNameSectionsOfTheDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/worker-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	if says := "takes it through " + strconv.Itoa(len(rows())) + " steps"; !strings.Contains(string(doc), says) {
		t.Errorf("the document does not say: %s", says)
	}
	names := map[string]bool{}
	for _, r := range rows() {
		if !strings.Contains("\n"+string(doc), "# "+r.section+"\n") {
			t.Errorf("step %s: docs/worker-protocol.md has no section %q", r.name, r.section)
		}
		if names[r.name] || r.title == "" || r.expected == "" || r.change == "" {
			t.Errorf("step %s: named twice, or does not say all", r.name)
		}
		names[r.name] = true
	}
}
