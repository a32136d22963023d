package experiments

import (
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Fault is one fault of the timeline. In a file its kind stands as a section beside the other fields, and exactly one does.
type Fault struct {
	ID       string        `rule:"required,ident,unique"`          // names the fault
	At       time.Duration `scale:"yes"`                           // so long after the steady state
	After    string        `rule:"ref=fault"`                      // id of the fault after whose shots this one begins, in place of at
	Delay    time.Duration `rule:"positive,for=after" scale:"yes"` // so much later
	Together []string      `rule:"ref=fault"`                      // ids of faults with which it begins, in place of at, and may overlap
	For      time.Duration `rule:"positive" scale:"yes"`           // how long it lasts
	Repeat   Repeat        // how many shots, and when
	Spec     fault.Spec    // of an experiment that Load returned: never nil
}

// Kind is the YAML name of the fault's kind; "" = it has none.
func (f *Fault) Kind() string { return fault.Of(f.Spec).Kind() }

// Aim is whom the fault strikes; the zero Aim is the locks' store itself.
func (f *Fault) Aim() fault.Aim { return fault.Of(f.Spec).Target() }

// Traits are what is asked of the fault.
func (f *Fault) Traits() fault.Traits { return fault.Of(f.Spec).Traits() }

// Form is the fault's variant within its kind, as events carry it; "" where there is only one.
func (f *Fault) Form() string { return fault.Of(f.Spec).Form() }

// Magnitude is what is configured of the fault, in a person's words; "" where kind and form say all.
func (f *Fault) Magnitude() string { return fault.Of(f.Spec).Magnitude() }

// Lock is the name of the lock whose holder the fault is aimed at; "" = it is aimed at no holder.
func (f *Fault) Lock() string { return f.Aim().HolderOf }

// Net reports a fault of the way between replicas and the locks' store: it needs a Toxiproxy.
func (f *Fault) Net() bool {
	_, net := f.Wire()
	return net
}

// Wire is what a fault of the network does; ok is false of any other.
func (f *Fault) Wire() (w fault.Wire, ok bool) { return fault.Of(f.Spec).Wire() }

// Moment is the moment within the lease at which the fault strikes; "" = it strikes at its `at`.
func (f *Fault) Moment() fault.Phase {
	if t, ok := f.Spec.(fault.Timed); ok {
		return t.Moment()
	}
	return ""
}

// eachInTurn reports a fault that strikes every replica, one a shot.
func (f *Fault) eachInTurn() bool { return f.Traits().Rolls && f.Traits().Kills }

// everybody reports whether the fault strikes every replica.
func (f *Fault) everybody() bool { return f.Aim().All || f.Net() && f.Aim() == fault.Aim{} }

// Struck is how many replicas one shot strikes of so many, before limits allow fewer.
func (f *Fault) Struck(replicas int) int {
	some := f.Aim().Some
	switch {
	case f.everybody(), f.Traits().WholeNode:
		return replicas
	case some != (fault.Some{}):
		return some.Of(replicas)
	}
	return 1
}

// Describe says what a fault of e does, for whoever plans it.
func (e *Experiment) Describe(f *Fault) fault.Description {
	d := fault.Of(f.Spec).Describe(e.Kubernetes != nil)
	d.Does = vocab.Redact(d.Does)
	return d
}

// Repeat says how many shots a fault has. Settled: the next shot waits until the last one has settled; else every Every.
// Answered: until every percentile that is promised of the lock is answered, and Count is the most.
type Repeat struct {
	Count    int // at least 1
	Answered bool
	Settled  bool
	Every    time.Duration `scale:"yes"`
}

// CleanTrials is how many kills that keep it the sequential test takes for each percentile: package forecast does the sum, and its test
// holds this table against it.
func CleanTrials(percentile string) int {
	return map[string]int{"p50": 6, "p90": 36, "p95": 72, "p99": 367}[percentile]
}
