package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/procstat"
)

// machineTest is a machine whose clock moves when somebody sleeps, and whose /proc is a folder.
type machineTest struct {
	t     *testing.T
	now   int64
	root  string
	wakes int
	wake  func(n int) (late time.Duration, more bool) // what the nth sleep comes to
	told  []history.Event
}

func (m *machineTest) write(text string, path ...string) {
	m.t.Helper()
	name := filepath.Join(append([]string{m.root}, path...)...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// proc sets what /proc says: processor time of all and of process 10, and for how many ms the watcher and process 10 have waited.
func (m *machineTest) proc(busy, used, own, waited int) {
	m.write(fmt.Sprintf("cpu  %d 0 0 0 0 0 0 0 0 0\n", busy), "stat")
	m.write(fmt.Sprintf("1 %d 1\n", own*1e6), "thread-self", "schedstat")
	m.write(fmt.Sprintf("10 (w) S 1 10 10 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 1 1 1", used), "10", "stat")
	m.write(fmt.Sprintf("1 %d 1\n", waited*1e6), "10", "task", "10", "schedstat")
}

func (m *machineTest) run(stand ...Standing) {
	ctx, cancel := context.WithCancel(m.t.Context())
	sleep := func(until int64) {
		m.wakes++
		late, more := m.wake(m.wakes)
		if !more {
			cancel()
		}
		m.now = until + int64(late)
	}
	var watching sync.WaitGroup // a goroutine whose thread ends with it
	watching.Go(func() {
		watchMachine(ctx, &Machine{Sleep: sleep, Proc: procstat.At(m.root), Stand: stand}, func() int64 { return m.now }, m.tell)
	})
	watching.Wait()
}

func (m *machineTest) tell(e history.Event) {

	if err := e.Check(); err != nil {
		m.t.Error(err)
	}
	m.told = append(m.told, e)
}

func newMachineTest(t *testing.T) *machineTest { return &machineTest{t: t, root: t.TempDir()} }

func replica10() ([]Process, bool) { return []Process{{Name: "r1.1", PID: 10}}, false }

func TestAMachineInTimeIsNotToldOf(t *testing.T) {
	m := newMachineTest(t)
	m.proc(100, 5, 0, 0)
	m.wake = func(n int) (time.Duration, bool) { return 900 * time.Microsecond, n < 200 }
	m.run(replica10)
	if len(m.told) != 0 {
		t.Errorf("told %+v of a machine whose timers are late by 0.9ms each", m.told)
	}
}

// One wake comes 80ms late. The timer's thread waited 70 of them for a processor; the replica waited 50ms for one and used 20ms.
func TestALateStretchSaysWhoWaitedAndWhoFilledTheProcessors(t *testing.T) {
	m := newMachineTest(t)
	m.proc(100, 5, 3, 1000)
	m.wake = func(n int) (time.Duration, bool) {
		if n == 5 {
			m.proc(140, 7, 73, 1050)
			return 80 * time.Millisecond, true
		}
		return 0, n < 60
	}
	m.run(replica10)
	if len(m.told) != 1 {
		t.Fatalf("told %+v, want one stretch", m.told)
	}
	e, want := m.told[0], history.Late{Stall: 80e6, Still: 10e6, Busy: 400e6, Ours: 20e6, Waits: map[string]int64{"r1.1": 50e6}}
	if !reflect.DeepEqual(*e.Late, want) {
		t.Errorf("told %+v\nwant %+v", *e.Late, want)
	}
	if e.From != 0 || e.To != int64(200*time.Millisecond) {
		t.Errorf("stretch %v, want [0s, 0.2s]", e.Span)
	}
}

// The end of a run may come in the middle of a stretch.
func TestTheLastStretchIsToldAsFarAsItWent(t *testing.T) {
	m := newMachineTest(t)
	m.proc(100, 5, 0, 0)
	m.wake = func(int) (time.Duration, bool) { return 30 * time.Millisecond, false }
	m.run(replica10)
	if len(m.told) != 1 || m.told[0].To != int64(40*time.Millisecond) || m.told[0].Late.Stall != 30e6 {
		t.Errorf("told %+v", m.told)
	}
}

// Without a /proc there is the timer alone: nothing explains its lateness, and nobody is said to have waited.
func TestWithoutProcTheTimerIsAll(t *testing.T) {
	m := newMachineTest(t)
	m.wake = func(n int) (time.Duration, bool) { return 0, n < 30 }
	base := m.wake
	m.wake = func(n int) (time.Duration, bool) {
		late, more := base(n)
		if n == 3 {
			late = 25 * time.Millisecond
		}
		return late, more
	}
	m.run(replica10)
	if len(m.told) != 1 || !reflect.DeepEqual(*m.told[0].Late, history.Late{Stall: 25e6, Still: 25e6}) {
		t.Errorf("told %+v", m.told)
	}
}

// A fleet that is just starting a replica is not waited for: what it said last is good.
func TestABusyFleetIsNotWaitedFor(t *testing.T) {
	m := newMachineTest(t)
	m.proc(100, 5, 0, 0)
	asked := 0
	m.wake = func(n int) (time.Duration, bool) {
		if n == 2 {
			m.proc(120, 5, 9, 40)
			return 9 * time.Millisecond, true
		}
		return 0, n < 30
	}
	m.run(func() ([]Process, bool) {
		if asked++; asked > 1 {
			return nil, true
		}
		return replica10()
	})
	if len(m.told) != 1 || m.told[0].Late.Waits["r1.1"] != 40e6 {
		t.Errorf("told %+v", m.told)
	}
}
