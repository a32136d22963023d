package testbed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// lookEvery is how often processes are looked for: a replica that is started again is known within that.
const lookEvery = 50 * time.Millisecond

// lostAfter is how long looks may fail: longer, and a replica that came back would be taken for one that did not.
const lostAfter = 3 * time.Second

// lastError refuses to strike the last replica that lives.
type lastError struct{}

func (lastError) Error() string {
	return "it is the last replica that lives, and the file does not say limits.last_replica: true"
}

// Void is the word for a shot that was not fired for it.
func (lastError) Void() history.VoidReason { return history.NoTarget }

// LocalOptions say which processes of this host are watched.
type LocalOptions struct {
	Processes *experiments.Processes
	Last      bool         // the last one that lives may be struck
	Clock     func() int64 // ns since the run's origin
	// Wanted says whether the run itself ended an incarnation: by a fault, or because the drill is over.
	Wanted  func(incarnation string) bool
	OnEvent func(history.Event) // one at a time
}

// LocalFleet names the lives of processes of this host that are somebody's own: r1, r2 ... in the order of their pids, r1.2 for whoever
// takes the slot after r1.1. A process is held by a handle of the kernel's, so that a signal never reaches another of its number, and its
// end is known when it comes. It tells replica.start, replica.ready and replica.exit itself. It implements runner.Fleet, and is safe for
// concurrent use.
type LocalFleet struct {
	o    LocalOptions
	find *locator
	stop context.CancelFunc
	done chan struct{}

	telling sync.Mutex // held while events are told, after mu where both are

	mu    sync.Mutex
	slots slots[*localLife]
	lives []*localLife // those that go on
	since int64        // when the last look began that came to its end
	err   error        // of the last look
}

// localLife is one life of a process.
type localLife struct {
	located
	name, incarnation string
	handle            handle
	began             history.Span
	by                int64         // as the kernel says, also before the run
	killed            *history.Span // the first SIGKILL that reached it while it lived
	over              bool
}

// NewLocalFleet begins to watch. Its owner calls Stop.
func NewLocalFleet(o LocalOptions) *LocalFleet {
	ctx, stop := context.WithCancel(context.Background())
	f := &LocalFleet{o: o, find: newLocator(o.Processes, o.Clock), stop: stop, done: make(chan struct{})}
	f.look(ctx)
	go f.watch(ctx)
	return f
}

// watch looks for processes, and waits for the ends of those that it knows, until ctx ends.
func (f *LocalFleet) watch(ctx context.Context) {
	defer close(f.done)
	for ctx.Err() == nil {
		for next := f.o.Clock() + int64(lookEvery); ctx.Err() == nil && f.await(next); {
		}
		f.look(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lives {
		l.handle.close()
	}
}

// look takes note of processes that are new.
func (f *LocalFleet) look(ctx context.Context) {
	at := f.o.Clock()
	found, err := f.find.look(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err = err; err != nil {
		return
	}
	for _, p := range found {
		if !f.has(p) && f.find.untouchable(p.proc) == "" {
			f.begin(p)
		}
	}
	f.since = at
}

// Unseen implements runner.Finder.
func (f *LocalFleet) Unseen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f *LocalFleet) has(p located) bool {
	for _, l := range f.lives {
		if l.PID == p.PID && l.Started == p.Started {
			return true
		}
	}
	return false
}

// begin gives a process a slot: the one of a life that is over and had its name, else the first that is free.
func (f *LocalFleet) begin(p located) {
	h, err := hold(p.Process)
	if err != nil { // it has ended meanwhile
		f.find.forget(p.PID)
		return
	}
	l := &localLife{located: p, handle: h, began: f.bracket(p), by: f.startedBy(p)}
	l.name, l.incarnation = f.slots.take(l,
		func(last *localLife) bool { return last.over && last.called() != "" && last.called() == l.called() },
		func(last *localLife) bool { return last.over })
	f.lives = append(f.lives, l)
	f.tell(history.Event{Kind: history.ReplicaStart, Span: l.began, Source: "runner", Replica: l.replica()})
	ready := l.replica()
	ready.Metrics = l.living(f.o.Processes).Metrics
	f.tell(history.Event{Kind: history.ReplicaReady, Span: history.Span{From: l.began.From, To: f.o.Clock()}, Source: "runner", Replica: ready})
}

// bracket is when a process was started: after the look that did not show it, and as the kernel says, as well as it knows.
func (f *LocalFleet) bracket(p located) history.Span {
	seen := history.Span{From: f.since, To: f.o.Clock()}
	by := f.startedBy(p)
	says := history.Span{From: max(seen.From, by-int64(grain)), To: min(seen.To, by)}
	if says.From > says.To { // the clocks disagree: the looks are what was seen
		return seen
	}
	return says
}

// startedBy is by when a process was started, as the kernel says, also before the run.
func (f *LocalFleet) startedBy(p located) int64 {
	return int64(p.Began()) - (monotime.Boot() - f.o.Clock()) + int64(grain)
}

// called is the owner's word for it; "" = none.
func (l *localLife) called() string { return l.words[experiments.KnownName] }

func (l *localLife) replica() *history.Replica {
	return &history.Replica{Name: l.name, Incarnation: l.incarnation, PID: l.PID, Started: strconv.FormatInt(l.Started, 10), Called: l.called()}
}

func (f *LocalFleet) tell(e history.Event) {
	f.telling.Lock()
	defer f.telling.Unlock()
	f.o.OnEvent(e)
}

// await waits for the end of a life, and no longer than until next; false = the time is up.
func (f *LocalFleet) await(next int64) bool {
	f.mu.Lock()
	handles := make([]handle, len(f.lives))
	for i, l := range f.lives {
		handles[i] = l.handle
	}
	f.mu.Unlock()
	alive := f.o.Clock()
	if alive >= next {
		return false
	}
	ended := awaitEnd(handles, time.Duration(next-alive))
	at := f.o.Clock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, over := range ended {
		if over {
			f.end(f.lives[i], history.Span{From: alive, To: at}) // only this goroutine adds and removes lives
		}
	}
	for i := len(ended) - 1; i >= 0; i-- {
		if ended[i] {
			f.lives = append(f.lives[:i:i], f.lives[i+1:]...)
		}
	}
	return true
}

// end takes note of the end of a life, which came within the span.
func (f *LocalFleet) end(l *localLife, within history.Span) {
	l.over = true
	l.handle.close()
	f.find.forget(l.PID)
	r := l.replica()
	r.Exit, r.By = "gone", history.ByKernel
	if k := l.killed; k != nil {
		r.Exit, within.From = "signal: "+syscall.SIGKILL.String(), min(max(within.From, k.From), within.To)
	}
	r.Wanted = f.o.Wanted != nil && f.o.Wanted(l.incarnation)
	f.tell(history.Event{Kind: history.ReplicaExit, Span: within, Source: "runner", Replica: r})
}

// Start implements runner.Fleet: nobody starts these.
func (f *LocalFleet) Start(context.Context, protocol.Configure) (history.Replica, history.Span, error) {
	return history.Replica{}, history.Span{}, errors.New("the processes are somebody's own: none is started")
}

// Send implements runner.Fleet: nobody tells these anything.
func (f *LocalFleet) Send(string, protocol.Command) error {
	return errors.New("the processes are somebody's own: they take no commands")
}

// Stop ends the watch. It ends no process.
func (f *LocalFleet) Stop(context.Context) error {
	f.stop()
	<-f.done
	return nil
}

// Signal sends sig to that very process; the span is the bracket of the call. A signal that may end it or make it stand still is not sent
// to the last one that lives, unless that is allowed.
func (f *LocalFleet) Signal(incarnation string, sig syscall.Signal) (history.Span, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var victim *localLife
	others := 0
	for _, l := range f.lives {
		switch {
		case l.handle.over():
		case l.incarnation == incarnation:
			victim = l
		default:
			others++
		}
	}
	span := history.At(f.o.Clock())
	switch {
	case victim == nil || victim.killed != nil:
		return span, fmt.Errorf("signal replica %s: %w", incarnation, ErrDead)
	case others == 0 && sig != syscall.SIGCONT && !f.o.Last:
		return span, fmt.Errorf("signal replica %s: %w", incarnation, lastError{})
	}
	err := victim.handle.signal(sig)
	span.To = f.o.Clock()
	if err != nil {
		return span, fmt.Errorf("signal replica %s: %w", incarnation, err)
	}
	if sig == syscall.SIGKILL {
		victim.killed = &span
	}
	return span, nil
}

// Sign implements what looks at locks tell: of a process the kernel says when it ended.
func (f *LocalFleet) Sign(string, int64) {}

// HolderOf is the incarnation that a lock means by the name that it gives its holder: it begins with what its owner calls it. "" = none
// that lives, or more than one.
func (f *LocalFleet) HolderOf(named string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := ""
	for _, l := range f.lives {
		if (*experiments.HolderNames)(nil).Is(named, l.called(), nil, nil) && l.called() != "" {
			if found != "" {
				return ""
			}
			found = l.incarnation
		}
	}
	return found
}

// Lost says why replicas that are started again would not be noticed; nil = they would.
func (f *LocalFleet) Lost() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || f.o.Clock()-f.since < int64(lostAfter) {
		return nil
	}
	return fmt.Errorf("replicas could not be looked for, for more than %s: %w", lostAfter, f.err)
}

// Replicas are the lives that go on.
func (f *LocalFleet) Replicas() []Living {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]Living, 0, len(f.lives))
	for _, l := range f.lives {
		all = append(all, l.living(f.o.Processes))
	}
	return all
}

// all is what templates may use of a process.
func (p *located) all() map[string]string {
	known := map[string]string{}
	maps.Copy(known, p.words)
	known[experiments.KnownPID] = strconv.Itoa(p.PID)
	known[experiments.KnownHost], _ = os.Hostname()
	return known
}

// living is what is known of a life.
func (l *localLife) living(p *experiments.Processes) Living {
	known := l.located.all()
	v := Living{Incarnation: l.incarnation, Name: l.called(), PID: l.PID, Since: min(l.began.To, l.by), Known: known}
	v.Log, _ = experiments.FillIn(p.Log, known)
	v.Metrics, _ = experiments.FillIn(p.Metrics, known)
	return v
}

// Processes are the pids of the replicas that live, by incarnation. busy: it cannot be told now without waiting.
func (f *LocalFleet) Processes() (pids map[string]int, busy bool) {
	if !f.mu.TryLock() {
		return nil, true
	}
	defer f.mu.Unlock()
	pids = make(map[string]int, len(f.lives))
	for _, l := range f.lives {
		pids[l.incarnation] = l.PID
	}
	return pids, false
}
