package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/stores"
)

// guardedDrill is a drill without end, with sections of one's own.
const guardedDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: guarded
%s
system:
  mode: embedded
  replicas: 2
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 1s
        renew_every: 300ms
        class: standard
        op_timeout: 200ms
        release: {mode: none}
        acquire: {mode: try, timeout: 200ms}
        loop: {poll: 100ms, mode: renewed}
steady_state: {for: 200ms, timeout: 20s}
faults:
  - {id: slow, at: 1h, kill: {holder_of: loop}}
slos:
  - {lock: loop, takeover: {max: 5s}}
`

const embeddedRedis = "redis: {mode: embedded}\n"

// guarded writes guarded.yaml with the given sections into a fresh folder.
func guarded(t *testing.T, sections string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if !strings.Contains(sections, "limits:") {
		sections += "limits: {max_run: 2h}\n"
	}
	write(t, filepath.Join(dir, "guarded.yaml"), fmt.Appendf(nil, guardedDrill, sections))
	return dir
}

// refused checks that a run was refused by the guard, said so, and left nothing; and that a plan of it says the same, and ends the same.
func refused(t *testing.T, dir string, want []string, flags ...string) {
	t.Helper()
	refusedAndPlanned(t, verdict.ExitRefused, dir, want, flags...)
}

// notYet is refused by what an operator has not said yet, or by the hour: a plan shows it, asks what is left, and ends well.
func notYet(t *testing.T, dir string, want []string, flags ...string) {
	t.Helper()
	refusedAndPlanned(t, verdict.ExitPass, dir, want, flags...)
}

func refusedAndPlanned(t *testing.T, plan int, dir string, want []string, flags ...string) {
	t.Helper()
	got := tryIn(t, dir, append([]string{"run", "guarded.yaml"}, flags...)...)
	if got.code != verdict.ExitRefused || got.stdout != "" {
		t.Errorf("run: %+v, want status %d", got, verdict.ExitRefused)
	}
	planned := tryIn(t, dir, append([]string{"plan", "guarded.yaml"}, flags...)...)
	if planned.code != plan {
		t.Errorf("plan: status %d, want %d\n%s", planned.code, plan, planned.stdout)
	}
	for _, w := range append(want, "guarded: refused: ") {
		if !strings.Contains(got.stderr, w) {
			t.Errorf("run says %q, want %q in it", got.stderr, w)
		}
	}
	if !strings.Contains(planned.stdout, "REFUSES") {
		t.Errorf("plan does not say that a guard refuses:\n%s", planned.stdout)
	}
	onlyFile(t, dir, "guarded.yaml", "kubeconfig")
}

func onlyFile(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.Contains(strings.Join(names, " "), e.Name()) {
			t.Errorf("%s was made", e.Name())
		}
	}
}

func TestTheKillSwitchKeepsARunFromStarting(t *testing.T) {
	t.Parallel()
	stop := filepath.Join(t.TempDir(), "stop")
	dir := guarded(t, embeddedRedis+"limits: {max_run: 2h, kill_switch: "+stop+"}\n")
	if got := tryIn(t, dir, "plan", "guarded.yaml"); got.code != verdict.ExitPass {
		t.Errorf("without the switch: %+v", got)
	}
	write(t, stop, nil)
	refused(t, dir, []string{"kill switch", stop})
}

func TestTheKillSwitchAbortsARun(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: no drill through the binary")
	}
	dir := t.TempDir()
	// A call that waits for a second is late on a busy machine, and no matter here.
	patient := strings.NewReplacer("ttl: 1s", "ttl: 20s", "op_timeout: 200ms", "op_timeout: 5s", "timeout: 200ms}", "timeout: 5s}", "timeout: 20s}", "timeout: 100s}", "max: 5s", "max: 60s")
	yaml := patient.Replace(fmt.Sprintf(guardedDrill, embeddedRedis+"limits: {max_run: 2h, kill_switch: stop}\n")) // beside the file
	path := func() string { return filepath.Join(dir, "run", historyFile) }
	o := runDrillIn(t, dir, unrehearsed(yaml), func(int) {
		until(t, "the faults", inFile(path, `"name":"faults"`))
		write(t, filepath.Join(dir, "stop"), nil)
	})
	if o.code != verdict.ExitAborted {
		t.Errorf("status %d, want %d\n%s", o.code, verdict.ExitAborted, o.text)
	}
	if !inFile(path, `"what":"kill_switch"`)() {
		t.Error("the history has no abort by the kill switch")
	}
}

func TestTheCalendarKeepsARunFromStarting(t *testing.T) {
	t.Parallel()
	day := strings.ToLower(time.Now().UTC().AddDate(0, 0, 3).Weekday().String()[:3])
	notYet(t, guarded(t, embeddedRedis+"windows: [{days: ["+day+"], zone: UTC}]\n"), []string{"calendar", "outside of the windows " + day, "it opens"})
	notYet(t, guarded(t, embeddedRedis+"blackouts: [{from: \"00:00\", to: \"00:00\", zone: Europe/Berlin}]\n"),
		[]string{"calendar", "within the blackout", "does not open within"})
}

func TestWhatARunStartsItselfIsLocal(t *testing.T) {
	t.Parallel()
	refused(t, guarded(t, embeddedRedis+"environment: staging\n"), []string{"environment", `"staging"`, `"local"`})
}

func TestATargetThatIsNotOursNeedsAName(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	dir := guarded(t, "environment: staging\nredis: {mode: external, url: \"redis://"+addr+"\"}\n")
	notYet(t, dir, []string{"confirm", "redis://" + addr, "--confirm guarded"}, "--environment", "staging")
	notYet(t, dir, []string{"confirm", "--confirm guarded", "not staging"}, "--environment", "staging", "--confirm", "staging")
}

func TestATargetMustBeWhatTheFileIsFor(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	dir := guarded(t, "environment: staging\nredis: {mode: external, url: \"redis://"+addr+"\"}\n")
	notYet(t, dir, []string{"does not say what it is", stores.EnvironmentKey, "--environment staging"}, "--confirm", "guarded")
	refused(t, dir, []string{`for "staging"`, `"production"`}, "--confirm", "guarded", "--environment", "production")

	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	if err := client.Set(context.Background(), stores.EnvironmentKey, "production", 0).Err(); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, []string{`for "staging"`, `"production"`, stores.EnvironmentKey}, "--confirm", "guarded")
	refused(t, dir, []string{`says it is "production"`, `--environment says "staging"`}, "--confirm", "guarded", "--environment", "staging")

	if err := client.Set(context.Background(), stores.EnvironmentKey, "staging", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := tryIn(t, dir, "plan", "guarded.yaml", "--confirm", "guarded"); got.code != verdict.ExitPass {
		t.Errorf("a target that is right and confirmed: %+v", got)
	}
}

func TestAServerSaysWhatItIsForAllItsDatabases(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	dir := guarded(t, "environment: staging\nredis: {mode: external, url: \"redis://"+addr+"/2\"}\n")
	set := func(db int, environment string) {
		client := redis.NewClient(&redis.Options{Addr: addr, DB: db})
		defer client.Close()
		if err := client.Set(context.Background(), stores.EnvironmentKey, environment, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(0, "production") // as docs/guards.md has it: redis-cli SET, without -n
	refused(t, dir, []string{`for "staging"`, `"production"`}, "--confirm", "guarded")
	refused(t, dir, []string{`says it is "production"`, `--environment says "staging"`}, "--confirm", "guarded", "--environment", "staging")
	set(2, "staging")
	refused(t, dir, []string{"environment", `"staging"`, `"production"`, "database 0"}, "--confirm", "guarded")
	set(0, "staging")
	if got := tryIn(t, dir, "plan", "guarded.yaml", "--confirm", "guarded"); got.code != verdict.ExitPass {
		t.Errorf("a server that is right and confirmed: %+v", got)
	}
}

func TestATargetThatCannotBeAskedIsRefused(t *testing.T) {
	t.Parallel()
	dir := guarded(t, "environment: staging\nredis: {mode: external, url: \"redis://127.0.0.1:1\"}\n")
	refused(t, dir, []string{"environment", "could not be asked"}, "--confirm", "guarded")
	refused(t, dir, []string{"confirm"}) // a plan asks on

	dir = guarded(t, "environment: staging\nredis: {mode: external, url: \"redis://127.0.0.1:1\", password_env: NOT_SET_HERE}\n")
	for _, command := range []string{"run", "plan"} {
		got := tryIn(t, dir, command, "guarded.yaml", "--confirm", "guarded")
		if got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "NOT_SET_HERE") || got.stdout != "" {
			t.Errorf("%s without the variable: %+v", command, got)
		}
	}
	onlyFile(t, dir, "guarded.yaml")
}

func TestAToxiproxyThatIsNotOursIsGuardedToo(t *testing.T) {
	t.Parallel()
	dir := guarded(t, embeddedRedis+"environment: staging\nproxy: {mode: external, url: \"http://127.0.0.1:8474\"}\n")
	notYet(t, dir, []string{"2 guards are not met\n  confirm: ", "toxiproxy http://127.0.0.1:8474", "--confirm guarded", "\n  environment: ",
		"\nTo consent to what the drill would touch: lockdrill run guarded.yaml --confirm=guarded --environment=staging\n"})
	notYet(t, dir, []string{"Toxiproxy does not say what it is for", "--environment staging"}, "--confirm", "guarded")
}

// pausedDrill stops the leader for longer than the test may take.
func pausedDrill() string {
	yaml := fmt.Sprintf(guardedDrill, embeddedRedis+"limits: {max_run: 2h}\n")
	return strings.Replace(yaml, "{id: slow, at: 1h, kill: {holder_of: loop}}", "{id: gc, for: 1h, pause: {holder_of: loop}}", 1)
}

// stoppedChild waits until a replica is stopped, and gives all children.
func stoppedChild(t *testing.T, pid int) (children []int) {
	t.Helper()
	until(t, "a stopped replica", func() bool {
		children = childrenOf(pid)
		for _, c := range children {
			data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c))
			if _, rest, ok := strings.Cut(string(data), ") "); ok && strings.HasPrefix(rest, "T") {
				return true
			}
		}
		return false
	})
	return children
}

// The first interrupt ends the faults that are in effect, and says so in the history.
func TestTheFirstInterruptRevertsWhatIsInEffect(t *testing.T) {
	t.Parallel()
	needDrill(t)
	var children []int
	o := runDrill(t, pausedDrill(), func(pid int) {
		children = stoppedChild(t, pid)
		if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
			t.Error(err)
		}
	})
	if o.code != verdict.ExitAborted {
		t.Errorf("exit %d, want %d\n%s", o.code, verdict.ExitAborted, o.text)
	}
	history := string(read(t, filepath.Join(o.dir, historyFile)))
	for _, kind := range []string{"fault.applied", "fault.reverted", "fault.verified"} {
		if !strings.Contains(history, `"kind":"`+kind+`"`) {
			t.Errorf("the history has no %s", kind)
		}
	}
	allGone(t, children)
}

// The second leaves at once and names what is not undone; the watchdog undoes it.
func TestTheSecondInterruptSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	needDrill(t)
	var children []int
	o := runDrill(t, pausedDrill(), func(pid int) {
		children = stoppedChild(t, pid)
		signal := func(sig syscall.Signal) {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Error(err)
			}
		}
		signal(syscall.SIGSTOP) // or the fault may be ended between the two
		until(t, "a runner that stands still", func() bool { return strings.HasPrefix(stateOf(fmt.Sprintf("/proc/%d", pid)), "T") })
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGCONT} { // two that cannot become one
			signal(sig)
		}
	})
	if o.code != verdict.ExitDirty {
		t.Errorf("exit %d, want %d\n%s", o.code, verdict.ExitDirty, o.text)
	}
	for _, want := range []string{"left at once", "NOT UNDONE", "gc#1", "by hand", "lockdrill recover " + o.dir} {
		if !strings.Contains(o.text, want) {
			t.Errorf("does not say %q:\n%s", want, o.text)
		}
	}
	allGone(t, children)
}
