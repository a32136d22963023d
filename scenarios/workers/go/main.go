// Command worker is a healthy lockdrill worker outside of lockdrill's own module, with the standard library only: jobs and leader loops
// under locks on Redis. Linux.
//
// Copy it, and put your own lock in place of type Hold. docs/worker-protocol.md describes every line that it reads and writes;
// `lockdrill run worker-check -- ./worker` says whether it still does what it must. It gives a lock up as class "standard" does.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Command is one line that the runner writes.
type Command struct {
	V         int
	Cmd       string
	Configure struct {
		Name, Incarnation, Script string
		Store, Ledger             Endpoint
		Locks                     []Lock
	}
	Offer struct {
		Lock, Job, Key string
		Hold           time.Duration
	}
	Arm struct {
		Fault, Op, Mode string
		Shot            int
	}
}

// Lock is one lock of the experiment.
type Lock struct {
	Name, Key        string
	Policy           Policy
	Unfenced, Strict bool
	NoLook           bool `json:"no_look"`
}

// Policy is as much of lockcore/policy.go as class "standard" needs. Durations are nanoseconds.
type Policy struct {
	TTL        time.Duration `json:"ttl"`
	RenewEvery time.Duration `json:"renew_every"`
	OpTimeout  time.Duration `json:"op_timeout"`
	Drift      time.Duration `json:"drift"`
	StopBudget time.Duration `json:"stop_budget"`
	Release    struct {
		Mode         string
		Attempts     int
		Timeout      time.Duration
		AfterAbandon string `json:"after_abandon"`
	}
	Acquire struct {
		Mode            string
		Timeout, Budget time.Duration
		Backoff         struct{ Every time.Duration }
	}
	Loop *struct {
		Poll, Tick time.Duration
		Jitter     float64
		Mode       string
		Effect     string // after: a tick is written when its work is done
	}
}

// Event is one line that the worker writes.
type Event struct {
	Kind    string         `json:"kind"`
	From    int64          `json:"from"`
	To      int64          `json:"to"`
	Lock    string         `json:"lock,omitempty"`
	Key     string         `json:"key,omitempty"`
	Epoch   string         `json:"epoch,omitempty"`
	Fence   int64          `json:"fence,omitempty"`
	Op      string         `json:"op,omitempty"`
	Outcome string         `json:"outcome,omitempty"`
	Call    *Call          `json:"call,omitempty"`
	Abandon *Abandon       `json:"abandon,omitempty"`
	Work    map[string]any `json:"work,omitempty"`
	Write   map[string]any `json:"write,omitempty"`
	Replica map[string]any `json:"replica,omitempty"`
	Job     map[string]any `json:"job,omitempty"`
	Fault   map[string]any `json:"fault,omitempty"`
}

// Call is the body of calls to the store.
type Call struct {
	TTL     int64  `json:"ttl,omitempty"`
	Result  string `json:"result,omitempty"`
	Holder  string `json:"holder,omitempty"`
	PTTL    int64  `json:"pttl,omitempty"`
	Err     string `json:"err,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Demand  bool   `json:"demand,omitempty"`
	Why     string `json:"why,omitempty"`
}

// Abandon is the body of fence.observed and abandon.
type Abandon struct {
	Reason string `json:"reason"`
}

// Worker is one replica.
type Worker struct {
	incarnation, script string
	store, ledger       *Redis
	locks               map[string]Lock
	ops                 atomic.Int64
	out                 sync.Mutex
	work                sync.WaitGroup
	mu                  sync.Mutex
	jobs                map[string]bool // under way
}

// say writes one line at once, and returns its from: what announces a call must be out before the call is made.
func (w *Worker) say(kind string, e Event) int64 {
	e.Kind, e.To = kind, clock(monotonic)
	if e.From == 0 {
		e.From = e.To
	}
	line, err := json.Marshal(e)
	w.out.Lock()
	defer w.out.Unlock()
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return e.From
}

func (w *Worker) op() string { return fmt.Sprintf("%s/%d", w.incarnation, w.ops.Add(1)) }

// seek takes a key, nil where it is not to be had; result says why. Every attempt has a token of its own.
func (w *Worker) seek(ctx context.Context, l Lock, key string) (h *Hold, result int) {
	a := l.Policy.Acquire
	for until := time.Now().Add(a.Budget); ; {
		h := w.hold(l, key)
		if result = h.acquire(); result == granted {
			return h, result
		}
		if a.Mode != "wait" || time.Now().Add(a.Backoff.Every).After(until) || !pause(ctx, a.Backoff.Every) {
			return nil, result
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// write makes one effect: why the work must end, or "", and whether the job was finished before. A repetition has the same op.
func (w *Worker) write(h *Hold, l Lock, subject, state string, terminal bool) (why string, finished bool) {
	p := w.ledger.at.Prefix + "{ledger}:"
	e := h.name
	e.Op = w.op()
	for range 3 {
		if !h.check() {
			return "fenced", false
		}
		e.From, e.Outcome, e.Write = 0, "", map[string]any{"subject": subject, "state": state, "terminal": terminal}
		e.From = w.say("write.invoke", e)
		reply, err := w.ledger.Call(min(2*time.Second, h.left()), "EVAL", w.script, 4, p+"entries", p+"marks", p+"subjects", p+"answers",
			e.Key, subject, flag(l.Policy.Loop != nil), state, flag(terminal), e.Epoch, e.Fence, e.Op, w.incarnation, flag(l.Unfenced), flag(l.Strict))
		r, ok := reply.([]any)
		e.Outcome, e.Write["err"] = "unknown", "no answer"
		if ok = ok && err == nil && len(r) == 6; ok {
			e.Outcome, e.Write = "ok", map[string]any{
				"subject": subject, "state": state, "terminal": terminal, "accepted": r[1] == int64(1), "reason": r[2], "current": r[3],
			}
		}
		w.say("write.return", e)
		if ok && r[1] != int64(1) {
			return "refused", r[4] == int64(1)
		}
		if ok {
			return "", r[4] == int64(1)
		}
	}
	return "error", false
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// labour is the work itself: it ends early where the lock is lost, or the worker is told to stop.
func labour(ctx context.Context, h *Hold, length time.Duration) string {
	select {
	case <-time.After(length):
		return ""
	case <-h.lost.Done():
		return "fenced"
	case <-ctx.Done():
		return "stopped"
	}
}

// under does one stretch of work. It has stopped when this returns why.
func (w *Worker) under(h *Hold, subject string, do func() string) string {
	e := h.name
	e.Op, e.Work = w.op(), map[string]any{"subject": subject}
	w.say("work.enter", e)
	why := do()
	if why == "" {
		why = "done"
	}
	h.mu.Lock()
	valid := h.valid
	h.mu.Unlock()
	e.Work = map[string]any{"subject": subject, "why": why, "valid": valid - clock(monotonic), "has_valid": true}
	w.say("work.exit", e)
	return why
}

// job does a job and answers the offer. One that was given up has no answer: it is offered again.
func (w *Worker) job(ctx context.Context, lock, job, key string, length time.Duration) {
	l, ack := w.locks[lock], ""
	h, result := w.seek(ctx, l, key)
	switch {
	case h != nil:
		why := w.under(h, job, func() string {
			why, finished := w.write(h, l, job, "begin", false) // first: it raises the ledger's fence, so what it returns is final for older holders
			switch {
			case why == "" && finished && !l.NoLook:
				return "skipped"
			case why == "":
				why = labour(ctx, h, length)
			}
			if why == "" {
				why, _ = w.write(h, l, job, "done", true)
			}
			return why
		})
		h.release()
		if why == "done" || why == "skipped" {
			ack = why
		}
	case result == busy:
		ack = "busy"
	}
	w.mu.Lock()
	delete(w.jobs, job)
	w.mu.Unlock()
	if ack != "" {
		w.say("job.ack", Event{Lock: lock, Key: key, Job: map[string]any{"id": job, "ack": ack}})
	}
}

// loop is a leader loop: whoever gets the key, or has it, does one tick every poll; the others ask once every poll.
func (w *Worker) loop(ctx context.Context, l Lock) {
	p := l.Policy.Loop
	var h *Hold
	end := func() {
		if h != nil {
			h.release()
		}
		h = nil
	}
	defer end()
	for due := time.Now().Add(time.Duration(rand.Float64() * float64(p.Poll))); ; {
		var lost <-chan struct{}
		if h != nil {
			lost = h.lost.Done()
		}
		select {
		case <-ctx.Done():
			return
		case <-lost:
			end()
			continue
		case <-time.After(time.Until(due)):
		}
		due = due.Add(time.Duration(float64(p.Poll) * (1 + p.Jitter*(2*rand.Float64()-1))))
		if time.Now().After(due) { // ticks are not made up for
			due = time.Now()
		}
		if h == nil {
			h, _ = w.seek(ctx, l, l.Key)
		}
		if h == nil {
			continue
		}
		why := w.under(h, l.Name, func() string {
			why := ""
			if !h.begun {
				why, _ = w.write(h, l, l.Name, "begin", false)
			}
			h.begun = h.begun || why == ""
			if why == "" && p.Effect != "after" {
				why, _ = w.write(h, l, l.Name, "tick", false)
			}
			if why == "" {
				why = labour(ctx, h, p.Tick)
			}
			if why == "" && p.Effect == "after" {
				why, _ = w.write(h, l, l.Name, "tick", false)
			}
			return why
		})
		switch {
		case why != "done" || p.Mode == "explicit":
			end()
		case p.Mode == "ttl_hold":
			h.leave()
			h = nil
		}
	}
}

// obey carries out one command; false = it was stop.
func (w *Worker) obey(ctx context.Context, c Command) bool {
	switch c.Cmd {
	case "configure":
		f := c.Configure
		w.incarnation, w.script = f.Incarnation, f.Script
		w.store, w.ledger = &Redis{at: f.Store}, &Redis{at: f.Ledger}
		for _, r := range []*Redis{w.store, w.ledger} {
			if _, err := r.Call(15*time.Second, "PING"); err != nil {
				fmt.Fprintln(os.Stderr, "connect:", err)
				os.Exit(1)
			}
		}
		w.say("replica.ready", Event{Replica: map[string]any{"name": f.Name, "incarnation": f.Incarnation, "pid": os.Getpid()}})
		for _, l := range f.Locks {
			w.locks[l.Name] = l
			if l.Policy.Loop != nil {
				w.work.Add(1)
				go func() { defer w.work.Done(); w.loop(ctx, l) }()
			}
		}
	case "offer":
		w.mu.Lock()
		defer w.mu.Unlock()
		if o := c.Offer; !w.jobs[o.Job] { // an offer of a job under way is a repetition
			w.jobs[o.Job] = true
			w.work.Add(1)
			go func() { defer w.work.Done(); w.job(ctx, o.Lock, o.Job, o.Key, o.Hold) }()
		}
	case "arm": // it makes no faults: the shot is void
		a, kind := c.Arm, c.Arm.Op+"_failures"
		if a.Op == "clock" {
			kind = a.Op
		}
		w.say("fault.reverted", Event{Op: fmt.Sprintf("%s#%d", a.Fault, a.Shot), Fault: map[string]any{"id": a.Fault, "shot": a.Shot, "kind": kind, "form": a.Mode}})
	case "crash":
		os.Exit(137)
	case "stop":
		return false
	}
	return true
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	w := &Worker{locks: map[string]Lock{}, jobs: map[string]bool{}}
	commands := make(chan Command)
	go func() { // the end of standard input is that of the runner
		defer close(commands)
		for lines := bufio.NewReader(os.Stdin); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var c Command
			if err := json.Unmarshal(line, &c); err != nil || c.V > 1 {
				fmt.Fprintf(os.Stderr, "not understood: %s", line)
				os.Exit(2)
			}
			commands <- c
		}
	}()
	for more := true; more; {
		select {
		case c, open := <-commands:
			more = open && w.obey(ctx, c)
		case <-ctx.Done():
			more = false
		}
	}
	stop()
	w.work.Wait()
}
