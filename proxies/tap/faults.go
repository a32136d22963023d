package tap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// Fault is a burst of failing operations. It ends by itself: at its count, and after For in any case.
type Fault struct {
	ID    string
	Op    string        // acquire, renew, release
	Mode  string        //
	Count int           // so many operations; 0 = all during For
	Share float64       // of the operations that it is aimed at, each by chance; 0 = all
	For   time.Duration // at most; above 0
	Delay time.Duration // mode delay
	Names []string      // only through these listeners; empty = all
	Key   string        // glob: only on keys that fit; "" = any
	Token string        // only with this token; "" = any
}

// Problem is what is wrong with a fault: the field, and how to put it right.
type Problem struct {
	Field   string `json:"field"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
}

// Check says all that is wrong.
func (f *Fault) Check() (all []Problem) {
	say := func(field, problem, remedy string) { all = append(all, Problem{field, problem, remedy}) }
	spec := f.spec()
	spec.Check(say)
	if f.For <= 0 {
		say("for", "nothing may fail without end", "how long at most, as \"30s\"")
	}
	if f.Mode != burst.Delay && f.Delay != 0 {
		say("delay", "is of mode delay only", "leave it out, or say mode: delay")
	}
	if f.Op == burst.Acquire && f.Token != "" {
		say("token", "an acquire brings a token that nobody knows before", "aim it by key")
	}
	return all
}

// spec is the fault but for its key, which is matched before.
func (f *Fault) spec() burst.Spec {
	return burst.Spec{Op: f.Op, Mode: f.Mode, Count: f.Count, Share: f.Share, For: f.For, Delay: f.Delay, Names: f.Names, Token: f.Token}
}

// Status is how far a fault has come. Times are of the tap's clock, ns.
type Status struct {
	Fault
	State burst.State // spent: connections that it holds hang until their clients close them, or `for` is over
	Why   string      // ended
	Hits  int64       // operations that were made to fail
	Spare int64       // operations that it was aimed at and that chance spared
	Holds int         // connections that hang, or commands held back
	First int64       // the first hit
	Last  int64
	From  int64 // armed
	To    int64 // ended

	Struck []Struck
}

// Hit is one operation that was made to fail.
type Hit struct {
	Fault string
	Name  string // of the listener
	Op    string
	Key   string // as on the wire
	Token string // "" = not recognised
	Epoch string // whose operation it is, as the witness of the store names it; "" = not known
	At    int64  // ns of the tap's clock: when it was decided
	N     int64  // the fault's hits so far, this one included
}

// holder is what a fault may hold until it ends: a connection, or one call of several on a connection.
type holder interface {
	Cut() // ends what hangs, which is of no use any more; it does not wait
}

// armed is a fault in the tap's table.
type Armed struct {
	Fault
	burst *burst.Burst
	why   string // ended

	first, last, from, to int64 // as in Status
	struck                []Struck

	Over  chan struct{} // closed at the end: what is held back goes on
	held  map[holder]int
	timer *time.Timer
}

func (a *Armed) status() Status {
	b := a.burst
	return Status{Fault: a.Fault, State: b.State(), Why: a.why, Hits: b.Hits, Spare: b.Spared, Holds: b.Held, First: a.first, Last: a.last, From: a.from, To: a.to, Struck: slices.Clone(a.struck)}
}

// Inject arms a fault. ID names it, or is chosen.
func (t *Tap) Inject(f Fault) (Status, error) {
	if all := f.Check(); len(all) > 0 {
		return Status{}, fmt.Errorf("arm a fault: %s: %s; %s", all[0].Field, all[0].Problem, all[0].Remedy)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return Status{}, errors.New("arm a fault: the proxy has ended")
	}
	t.number++
	if f.ID == "" {
		f.ID = fmt.Sprintf("f%d", t.number)
	}
	if t.find(f.ID) != nil {
		return Status{}, fmt.Errorf("arm a fault: there is one with the id %q already", f.ID)
	}
	draws := rand.New(rand.NewPCG(uint64(t.o.Seed), burst.Stream(f.ID)))
	a := &Armed{Fault: f, burst: burst.New(f.spec(), draws.Float64), from: t.o.Clock(), Over: make(chan struct{}), held: map[holder]int{}}
	t.faults = append(t.faults, a)
	t.activate()
	a.timer = time.AfterFunc(f.For, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.end(a, burst.TimeUp)
	})
	return a.status(), nil
}

// mostStruck is of how many operations a fault remembers what they were.
const mostStruck = 1000

// maxPast is how many ended faults are remembered.
const maxPast = 100

// activate tells connections which faults they have to ask for, and forgets old ones.
func (t *Tap) activate() {
	past := 0
	for _, a := range slices.Backward(t.faults) {
		if a.burst.State() == burst.Ended {
			past++
		}
		if past > maxPast {
			t.faults = slices.DeleteFunc(t.faults, func(o *Armed) bool { return o == a })
			break
		}
	}
	var active []*Armed
	for _, a := range t.faults {
		if a.burst.State() == burst.Armed {
			active = append(active, a)
		}
	}
	t.active.Store(&active)
}

func (t *Tap) find(id string) *Armed {
	for _, a := range t.faults {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// end is called with mu held; a timer may come late.
func (t *Tap) end(a *Armed, why string) {
	if !a.burst.End() {
		return
	}
	a.why, a.to = why, t.o.Clock()
	a.timer.Stop()
	close(a.Over)
	for c := range a.held {
		c.Cut()
	}
	t.activate()
}

// End ends a fault early; false = there is none with that id. One that has ended is left as it is.
func (t *Tap) End(id, why string) (Status, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.find(id)
	if a == nil {
		return Status{}, false
	}
	t.end(a, why)
	return a.status(), true
}

// Faults are all that are armed, and the last ones that have ended.
func (t *Tap) Faults() []Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Status, 0, len(t.faults))
	for _, a := range t.faults {
		all = append(all, a.status())
	}
	return all
}

// Over is closed when the fault has ended; nil = there is none with that id.
func (t *Tap) Over(id string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.find(id); a != nil {
		return a.Over
	}
	return nil
}

// strike returns the fault that an operation falls to, or nil: the first that is aimed at it and by chance takes it. name is the listener's.
// Modes other than error hold c, which gives itself back by release.
func (t *Tap) Strike(name string, c holder, o *Operation) *Armed {
	active := t.active.Load()
	if active == nil {
		return nil
	}
	for _, a := range *active {
		if a.Op != o.Op {
			continue
		}
		key := a.lock(o)
		if key == nil {
			continue
		}
		t.mu.Lock()
		took := t.take(a, name, c, o, key)
		t.mu.Unlock()
		if took {
			return a
		}
	}
	return nil
}

// lock returns the first key of the operation that fits, or nil.
func (a *Armed) lock(o *Operation) []byte {
	for _, k := range o.Keys {
		if a.Key == "" || match(a.Key, k) {
			return k
		}
	}
	return nil
}

func (t *Tap) take(a *Armed, name string, c holder, o *Operation, key []byte) bool {
	token := string(o.Token)
	if !a.burst.Strike(burst.Call{Op: o.Op, Name: name, Token: token}) {
		return false
	}
	now := t.o.Clock()
	if a.burst.Hits == 1 {
		a.first = now
	}
	a.last = now
	if len(a.struck) < mostStruck {
		a.struck = append(a.struck, Struck{Key: string(key), Epoch: o.named()})
	}
	if t.o.OnHit != nil {
		t.o.OnHit(Hit{Fault: a.ID, Name: name, Op: o.Op, Key: string(key), Token: token, Epoch: o.named(), At: now, N: a.burst.Hits})
	}
	if a.burst.State() == burst.Spent {
		t.activate()
	}
	if a.held[c]++; a.Mode == burst.Error {
		t.back(a, c)
	}
	return true
}

// release gives back one hold of c.
func (t *Tap) Release(a *Armed, c holder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.back(a, c)
}

func (t *Tap) back(a *Armed, c holder) {
	if a.held[c]--; a.held[c] == 0 {
		delete(a.held, c)
	}
	if a.burst.Done() {
		t.end(a, burst.CountSpent)
	}
}
