// Package workercheck takes a worker through the worker protocol, step by step, and says what it does wrong.
//
// It plays the runner of a drill: it starts the command as a replica, tells it what a runner tells, and makes its locks go wrong. A gate
// on the way to the store sees every call that the worker really makes, and what the key was like before and after; lines are held
// against that. It judges a worker and no lock: how soon a successor works is a drill's question. Its one invariant: whatever it has
// started is ended when Run returns, or Run says what is left.
package workercheck

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// SchemaVersion of Report as JSON.
const SchemaVersion = 1

// Result is how a step ended.
type Result string

const (
	OK      Result = "ok"
	Wrong   Result = "wrong"
	NotSeen Result = "not seen" // what the step is about did not happen, so nothing can be said
)

// Step is one thing that a worker must do, and whether it does.
type Step struct {
	Name     string `json:"name"`
	Title    string `json:"title"` // what a worker must do
	Result   Result `json:"result"`
	Seen     string `json:"seen"`
	Stalled  bool   `json:"stalled,omitempty"`  // it was not seen since the machine stood still: a longer TTL may show it
	Expected string `json:"expected,omitempty"` // of a step that is not ok
	Change   string `json:"change,omitempty"`   // of a wrong step: what to change in the worker
	Section  string `json:"section"`            // where docs/worker-protocol.md says so: the heading
}

// Report is the result of a check.
type Report struct {
	SchemaVersion int      `json:"schemaVersion"`
	Command       []string `json:"command"`
	Protocol      int      `json:"protocol"`
	Store         string   `json:"store"` // what the worker's locks were kept in
	Seconds       float64  `json:"seconds"`
	Steps         []Step   `json:"steps"`
}

// Count is how many steps ended so.
func (r *Report) Count(result Result) (n int) {
	for _, s := range r.Steps {
		if s.Result == result {
			n++
		}
	}
	return n
}

// Options of Run; Command must be set.
type Options struct {
	Command []string
	Env     []string      // added to the environment of the worker
	TTL     time.Duration // of the locks; all other times follow from it. 0 = DefaultTTL
	Ready   time.Duration // until the worker must be ready. 0 = as long as a drill waits
	Only    Subject       // what the worker does: the other half is left out; "" = both
	Notify  func(string)  // told of progress, a line for a person; nil = nobody
}

// Subject is what a worker works on.
type Subject string

const (
	Jobs  Subject = "jobs"
	Loops Subject = "loops"
)

// Bounds and defaults of Options.
const (
	DefaultTTL   = time.Second
	LeastTTL     = 500 * time.Millisecond // below it a busy machine is taken for a wrong worker
	MostTTL      = time.Minute
	DefaultReady = 20 * time.Second
)

// ErrOptions is wrapped by errors of Run that a person mends on the command line; nothing was started.
var ErrOptions = errors.New("cannot check")

// LeftError says what of the worker, or of the stores, could not be ended.
type LeftError struct {
	Folder string // of the journal that says it: for lockdrill recover
	Err    error
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("not everything that was started is ended (%v): run `lockdrill recover %s`", e.Err, e.Folder)
}

func (e *LeftError) Unwrap() error { return e.Err }

// Run checks a worker. It takes some fifteen times the TTL.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	began := time.Now()
	b, err := openBench(ctx, o)
	if err != nil {
		return nil, err
	}
	err = b.play(ctx)
	if end := b.close(); err == nil || errors.As(end, new(*LeftError)) {
		err = end
	}
	if err != nil {
		return nil, err
	}
	b.seen.settle(b.acts.hang.undone, o.TTL)
	r := &Report{
		SchemaVersion: SchemaVersion, Command: o.Command, Protocol: protocol.Version, Store: b.stores.Notice,
		Seconds: time.Since(began).Round(10 * time.Millisecond).Seconds(),
	}
	for _, row := range rows() {
		if row.applies(o.Only) {
			r.Steps = append(r.Steps, row.step(b))
		}
	}
	return r, nil
}

func (o *Options) complete() error {
	if len(o.Command) == 0 {
		return fmt.Errorf("%w: the command of the worker is missing", ErrOptions)
	}
	if _, err := exec.LookPath(o.Command[0]); err != nil {
		return fmt.Errorf("%w: the worker %q cannot be run: %w", ErrOptions, o.Command[0], err)
	}
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.TTL < LeastTTL || o.TTL > MostTTL {
		return fmt.Errorf("%w: a TTL of %s: want %s to %s", ErrOptions, figures.Spell(o.TTL), figures.Spell(LeastTTL), figures.Spell(MostTTL))
	}
	if o.Only != "" && o.Only != Jobs && o.Only != Loops {
		return fmt.Errorf("%w: only %q: want %s or %s", ErrOptions, o.Only, Jobs, Loops)
	}
	if o.Ready == 0 {
		o.Ready = DefaultReady
	}
	if o.Ready < 0 {
		return fmt.Errorf("%w: ready within %s: want a positive duration", ErrOptions, o.Ready)
	}
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	return nil
}
