package runner

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/procstat"
)

// How the machine is watched.
const (
	wakeEvery   = 10 * time.Millisecond
	usualLate   = time.Millisecond // timers of a machine at rest wake within it
	lateEvery   = 200 * time.Millisecond
	searchEvery = time.Second
	worthTold   = 5 * time.Millisecond // of lateness within lateEvery
	waitTold    = time.Millisecond     // of a wait in a stretch that is told
	lookShare   = 200                  // looks and searches take at most so small a part of one processor, each
)

// Machine is the one that the runner is on, as far as it can be late. Its watcher waits for nobody, on Linux for none of Go's timers either.
type Machine struct {
	Sleep func(until int64) // on the run's clock, on the thread that calls
	Proc  *procstat.Proc    // where there is none, the timer is all there is
	Stand []Standing
}

// Standing tells which processes of the drill are on this machine: replicas and stores. busy: it cannot tell now without waiting.
type Standing func() (ps []Process, busy bool)

// Process is one of them, by its incarnation or as history.Late names it.
type Process struct {
	Name string
	PID  int
}

// lateness notes how late a timer wakes, and where it was late, who waited for a processor meanwhile.
type lateness struct {
	clock func() int64
	sleep func(until int64)
	tell  func(history.Event)
	meter meter

	from  int64 // of the present stretch
	stall int64 // in it
}

var processors sync.Mutex // runs may begin and end beside one another

func moreProcessors(n int) {
	processors.Lock()
	defer processors.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
}

// watchMachine wakes every so often until ctx ends, on the thread that calls, and tells how late it woke. It is to be the only one on that
// thread, which ends with it.
//
// Why it sleeps by a raw system call and with a processor more, of Go's: a timer of Go's says that a machine is late which is not (122
// stretches of a drill against 72), and the plain call takes about a fifth more of a drill. See monotime.SleepUntil.
func watchMachine(ctx context.Context, m *Machine, clock func() int64, tell func(history.Event)) {
	runtime.LockOSThread()
	moreProcessors(1)
	defer moreProcessors(-1)
	l := newLateness(m, clock, tell)
	for ctx.Err() == nil {
		l.sleepOnce()
	}
	l.conclude(clock())
}

func newLateness(m *Machine, clock func() int64, tell func(history.Event)) *lateness {
	l := &lateness{clock: clock, sleep: m.Sleep, tell: tell, meter: newMeter(m)}
	l.meter.measure(clock())
	l.from = clock()
	return l
}

// sleepOnce sleeps once, and concludes the stretch where it is time for that.
func (l *lateness) sleepOnce() {
	due := l.clock() + int64(wakeEvery)
	l.sleep(due)
	now := l.clock()
	if late := now - due; late > int64(usualLate) {
		l.stall += late
	}
	if now >= l.meter.due {
		l.conclude(now)
	}
}

// conclude ends the present stretch, and tells of it if it was late.
func (l *lateness) conclude(now int64) {
	body := l.meter.measure(now)
	body.Stall, body.Still = l.stall, max(0, l.stall-l.meter.own)
	span := history.Span{From: l.from, To: now}
	if l.from, l.stall = now, 0; body.Stall >= int64(worthTold) {
		l.tell(history.Event{Kind: history.MachineLate, Span: span, Source: source, Late: &body})
	}
}

// meter reads from one measurement to the next what was used of the processors, and who waited for one.
type meter struct {
	*Machine
	trees *procstat.Trees
	told  [][]Process // what each of Stand said last

	busy      time.Duration // of all processors, so far
	ran, wait time.Duration // of this thread, so far
	own       int64         // for how long this thread waited since the last measurement; 0 = not known
	due       int64         // the next measurement
	search    int64         // the next search for what replicas have started
}

func newMeter(m *Machine) meter {
	return meter{Machine: m, trees: procstat.NewTrees(m.Proc), told: make([][]Process, len(m.Stand))}
}

// measure says what happened since the last measurement, and when the next one is due.
func (m *meter) measure(now int64) history.Late {
	var l history.Late
	m.due = now + int64(lateEvery)
	ran, wait, err := m.Proc.Self()
	if err != nil {
		return l
	}
	m.own = int64(wait - m.wait)
	if busy, err := m.Proc.Busy(); err == nil {
		l.Busy, m.busy = int64(busy-m.busy), busy
	}
	roots, names := m.processes()
	if len(roots) > 0 && now >= m.search {
		m.trees.Search(roots)
		m.search = now + int64(searchEvery)
	}
	for pid, s := range m.trees.Look(roots) {
		l.Ours += int64(s.Used)
		if s.Waited < waitTold {
			continue
		}
		if l.Waits == nil {
			l.Waits = map[string]int64{}
		}
		l.Waits[names[pid]] += int64(s.Waited)
	}
	l.Busy = max(l.Busy, l.Ours) // both are counted in ticks
	m.ran, m.wait = ran, wait
	m.spare(now)
	return l
}

// spare puts off what is due next where this measurement has cost too much for its turn.
func (m *meter) spare(now int64) {
	ran, wait, err := m.Proc.Self()
	if err != nil {
		return
	}
	cost := lookShare * int64(ran-m.ran)
	m.due, m.search = max(m.due, now+cost), max(m.search, now+cost)
	m.wait = wait // what the measurement itself waited is no stall of the timer
}

// processes lists what stands here now.
func (m *meter) processes() (roots []int, names map[int]string) {
	names = map[int]string{}
	for i, ask := range m.Stand {
		if ps, busy := ask(); !busy {
			m.told[i] = ps
		}
		for _, p := range m.told[i] {
			roots, names[p.PID] = append(roots, p.PID), p.Name
		}
	}
	return roots, names
}
