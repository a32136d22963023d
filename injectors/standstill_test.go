package injectors

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
)

const pauseFor = 600 * time.Millisecond

// sleeper is a process of its own group that has a child.
func sleeper(t *testing.T) (*exec.Cmd, undo.Process) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 60 & echo started; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	mark := t.Name() + "/" + rand.Text()
	cmd.Env = append(os.Environ(), undo.MarkEnv+"="+mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
	})
	if _, err := out.Read(make([]byte, 8)); err != nil { // the child is there
		t.Fatal(err)
	}
	self := undo.Find(cmd.Process.Pid)
	self.Mark = mark
	if _, err := self.Lives(); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	return cmd, self
}

// pausing is a pause of the sleeper, with whatever signal does instead of kill(2).
func pausing(p undo.Process, signal func(syscall.Signal) error) (*stepping, history.Event) {
	past := []history.Event{{Kind: history.ReplicaStart, Replica: &history.Replica{Incarnation: "r1.1", PID: p.PID, Started: p.Started}}}
	shot := history.Event{Op: "p#1", Fault: &history.Fault{ID: "p", Shot: 1, Kind: "pause", Victim: "r1.1", Declared: int64(pauseFor)}}
	return steps(&fault.Pause{}, &Reach{
		Signal: func(_ string, sig syscall.Signal) (history.Span, error) {
			span := history.At(monotime.Now())
			err := signal(sig)
			span.To = monotime.Now()
			return span, err
		},
		Past:  func() []history.Event { return past },
		Clock: monotime.Now,
	}), shot
}

func group(p undo.Process) func(syscall.Signal) error {
	return func(sig syscall.Signal) error { return syscall.Kill(-p.PID, sig) }
}

// meanwhile is a clock that sends the group a signal when it is read for the second time while the group stands still: after the
// look that saw it stand, and before the next.
func meanwhile(p undo.Process, sig syscall.Signal) func() int64 {
	seen := 0
	return func() int64 {
		if all, _, _ := standing(p); all {
			if seen++; seen == 2 {
				_ = syscall.Kill(-p.PID, sig)
			}
		}
		return monotime.Now()
	}
}

// whileStanding is a clock that goes on only while the group stands still: by it a pause is seen for its time, however late it is seen
// on a busy machine.
func whileStanding(p undo.Process) func() int64 {
	now := monotime.Now()
	return func() int64 {
		if all, _, _ := standing(p); all {
			now += int64(pauseFor / 10)
		}
		return now
	}
}

func TestAPauseStandsStillForItsTimeAndEnds(t *testing.T) {
	_, proc := sleeper(t)
	p, shot := pausing(proc, group(proc))
	p.Clock = whileStanding(proc)
	r, err := p.Prepare(t.Context(), shot)
	if err != nil {
		t.Fatal(err)
	}
	r.Shot = shot
	if _, err := p.Inject(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	applied := history.At(p.Clock())
	window, seen, err := p.Confirm(t.Context(), r, applied)
	watched := p.Clock() - applied.To
	if err != nil || watched < int64(pauseFor) || seen.Observed < int64(pauseFor)/2 || seen.Observed != window.Width() || window.From < applied.From {
		t.Errorf("window %v, seen %+v, watched for %s, %v; want a standstill of %s", window, seen, time.Duration(watched), err, pauseFor)
	}
	if all, _, err := standing(proc); !all || err != nil {
		t.Errorf("before the end it goes: %v", err)
	}
	// Another process has nothing but the record.
	for range 2 {
		if err := elsewhere(t.Context(), undo.Record{Kind: "pause", Shot: shot, Process: r.Process}); err != nil {
			t.Fatal(err)
		}
	}
	if _, any, err := standing(proc); any || err != nil {
		t.Errorf("after the end something stands: %v", err)
	}
}

func TestAPauseThatIsNotFeltIsVoid(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal func(p undo.Process) func(syscall.Signal) error
		then   syscall.Signal // sent once the pause has been seen to stand
		want   string
	}{
		{"nothing was stopped", func(undo.Process) func(syscall.Signal) error { return func(syscall.Signal) error { return nil } }, 0, "unconfirmed"},
		{"only the parent was stopped", func(p undo.Process) func(syscall.Signal) error {
			return func(sig syscall.Signal) error { return syscall.Kill(p.PID, sig) }
		}, 0, "unconfirmed"},
		{"somebody else continued it", group, syscall.SIGCONT, "unconfirmed"},
		{"it was killed meanwhile", group, syscall.SIGKILL, "ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, proc := sleeper(t)
			p, shot := pausing(proc, c.signal(proc))
			if c.then != 0 {
				shot.Fault.Declared = int64(time.Minute) // it never comes to that
				p.Clock = meanwhile(proc, c.then)
			}
			r, err := p.Prepare(t.Context(), shot)
			if err != nil {
				t.Fatal(err)
			}
			r.Shot = shot
			applied, err := p.Inject(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := p.Confirm(t.Context(), r, applied); voidOf(err) != c.want {
				t.Errorf("%v, want a void shot: %s", err, c.want)
			}
			if _, err := p.Revert(t.Context(), r); err != nil {
				t.Errorf("revert: %v", err)
			}
		})
	}
}

func TestAPauseOfWhatIsGoneIsVoid(t *testing.T) {
	cmd, proc := sleeper(t)
	p, shot := pausing(proc, func(syscall.Signal) error { return errors.New("the replica is dead") }) // as the fleet says it
	r, err := p.Prepare(t.Context(), shot)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(-proc.PID, syscall.SIGKILL)
	_ = cmd.Wait() // it was killed
	if _, err := p.Prepare(t.Context(), shot); voidOf(err) != "moved" {
		t.Errorf("prepare: %v, want moved", err)
	}
	r.Shot = shot
	if _, err := p.Inject(t.Context(), r); voidOf(err) != "moved" {
		t.Errorf("inject: %v, want moved", err)
	}
	if _, err := p.Revert(t.Context(), r); err != nil {
		t.Errorf("what is gone counts as reverted: %v", err)
	}
	// The number may be another's by now: it is not touched.
	_, other := sleeper(t)
	_ = syscall.Kill(-other.PID, syscall.SIGSTOP)
	stranger := other
	stranger.Started, stranger.Mark = stranger.Started+"0", "another's"
	if _, err := p.Revert(t.Context(), undo.Record{Shot: shot, Process: &stranger}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*stopWithin)
	defer cancel()
	for {
		if _, any, _ := standing(other); any {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("a process was continued that only has the number of the victim")
		}
	}
}
