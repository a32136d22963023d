package tap

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// Ways in which an operation fails.
const (
	Error     = "error"      // not sent on; an error reply in its place
	Timeout   = "timeout"    // not sent on, no reply; nothing that follows on the connection is sent or answered either
	Delay     = "delay"      // sent on late, and what follows on the connection behind it
	LostReply = "lost_reply" // executed; neither its reply nor any later one on the connection is delivered
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
	say := func(bad bool, field, problem, remedy string) {
		if bad {
			all = append(all, Problem{field, problem, remedy})
		}
	}
	say(!slices.Contains([]string{Acquire, Renew, Release}, f.Op), "op", fmt.Sprintf("%q is no operation on a lock", f.Op), "one of acquire, renew, release")
	say(!slices.Contains([]string{Error, Timeout, Delay, LostReply}, f.Mode), "mode", fmt.Sprintf("%q is no way to fail", f.Mode), "one of error, timeout, delay, lost_reply")
	say(f.Count < 0, "count", "is negative", "the number of operations that fail, or 0 for all during `for`")
	say(!(f.Share >= 0 && f.Share <= 1), "share", fmt.Sprintf("%v is no share", f.Share), "above 0 and at most 1, or leave it out: all")
	say(f.For <= 0, "for", "nothing may fail without end", "how long at most, as \"30s\"")
	say(f.Mode == Delay && f.Delay <= 0, "delay", "mode delay needs one", "how long each operation is held back, as \"200ms\"")
	say(f.Mode != Delay && f.Delay != 0, "delay", "is of mode delay only", "leave it out, or say mode: delay")
	say(f.Op == Acquire && f.Token != "", "token", "an acquire brings a token that nobody knows before", "aim it by key")
	return all
}

// Words of Status.State.
const (
	Armed = "armed" // operations may fail
	Spent = "spent" // its count is reached; connections that it holds hang until their clients close them, or `for` is over
	Ended = "ended"
)

// Status is how far a fault has come. Times are of the tap's clock, ns.
type Status struct {
	Fault
	State string
	Why   string // ended
	Hits  int64  // operations that were made to fail
	Spare int64  // operations that it was aimed at and that chance spared
	Holds int    // connections that hang, or commands held back
	First int64  // the first hit
	Last  int64
	From  int64 // armed
	To    int64 // ended
}

// Hit is one operation that was made to fail.
type Hit struct {
	Fault string
	Name  string // of the listener
	Op    string
	Key   string // as on the wire
	Token string // "" = not recognised
	At    int64  // ns of the tap's clock: when it was decided
	N     int64  // the fault's hits so far, this one included
}

// armed is a fault in the tap's table.
type armed struct {
	Status
	rng   *rand.Rand
	over  chan struct{} // closed at the end: what is held back goes on
	held  map[*conn]int
	timer *time.Timer
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
	h := fnv.New64a()
	_, _ = io.WriteString(h, f.ID)
	a := &armed{
		Status: Status{Fault: f, State: Armed, From: t.o.Clock()},
		rng:    rand.New(rand.NewPCG(uint64(t.o.Seed), h.Sum64())), over: make(chan struct{}), held: map[*conn]int{},
	}
	t.faults = append(t.faults, a)
	t.activate()
	a.timer = time.AfterFunc(f.For, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.end(a, "its time was up")
	})
	return a.Status, nil
}

// maxPast is how many ended faults are remembered.
const maxPast = 100

// activate tells connections which faults they have to ask for, and forgets old ones.
func (t *Tap) activate() {
	past := 0
	for _, a := range slices.Backward(t.faults) {
		if a.State == Ended {
			past++
		}
		if past > maxPast {
			t.faults = slices.DeleteFunc(t.faults, func(o *armed) bool { return o == a })
			break
		}
	}
	var active []*armed
	for _, a := range t.faults {
		if a.State == Armed {
			active = append(active, a)
		}
	}
	t.active.Store(&active)
}

func (t *Tap) find(id string) *armed {
	for _, a := range t.faults {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// end is called with mu held; a timer may come late.
func (t *Tap) end(a *armed, why string) {
	if a.State == Ended {
		return
	}
	a.State, a.Why, a.To = Ended, why, t.o.Clock()
	a.timer.Stop()
	close(a.over)
	for c := range a.held {
		if c.hangs.Load() {
			c.kill()
		}
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
	return a.Status, true
}

// Faults are all that are armed, and the last ones that have ended.
func (t *Tap) Faults() []Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Status, 0, len(t.faults))
	for _, a := range t.faults {
		all = append(all, a.Status)
	}
	return all
}

// Over is closed when the fault has ended; nil = there is none with that id.
func (t *Tap) Over(id string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.find(id); a != nil {
		return a.over
	}
	return nil
}

// strike returns the fault that an operation falls to, or nil: the first that is aimed at it and by chance takes it. Modes other than
// error hold the connection, which gives itself back by release.
func (t *Tap) strike(c *conn, o *operation) *armed {
	active := t.active.Load()
	if active == nil {
		return nil
	}
	for _, a := range *active {
		key := a.aims(c.name, o)
		if key == nil {
			continue
		}
		t.mu.Lock()
		took := t.take(a, c, o, key)
		t.mu.Unlock()
		if took {
			return a
		}
	}
	return nil
}

// aims returns the key of the operation that the fault is aimed at, or nil.
func (a *armed) aims(name string, o *operation) []byte {
	if a.Op != o.op || len(a.Names) > 0 && !slices.Contains(a.Names, name) || a.Token != "" && a.Token != string(o.token) {
		return nil
	}
	for _, k := range o.keys {
		if a.Key == "" || match(a.Key, k) {
			return k
		}
	}
	return nil
}

func (t *Tap) take(a *armed, c *conn, o *operation, key []byte) bool {
	if a.State != Armed {
		return false
	}
	if a.Share > 0 && a.rng.Float64() >= a.Share {
		a.Spare++
		return false
	}
	now := t.o.Clock()
	if a.Hits++; a.Hits == 1 {
		a.First = now
	}
	a.Last = now
	if a.Mode != Error {
		a.Holds++
		a.held[c]++
	}
	if t.o.OnHit != nil {
		t.o.OnHit(Hit{Fault: a.ID, Name: c.name, Op: o.op, Key: string(key), Token: string(o.token), At: now, N: a.Hits})
	}
	if a.Count > 0 && a.Hits >= int64(a.Count) {
		a.State = Spent
		t.activate()
		t.settle(a)
	}
	return true
}

// release gives back one hold of the connection.
func (t *Tap) release(a *armed, c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.Holds--
	if a.held[c]--; a.held[c] == 0 {
		delete(a.held, c)
	}
	t.settle(a)
}

func (t *Tap) settle(a *armed) {
	if a.State == Spent && a.Holds == 0 {
		t.end(a, "its count was spent")
	}
}
