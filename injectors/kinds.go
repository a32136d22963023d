package injectors

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/proxies/tap"
	"github.com/lockdrill/lockdrill/stores"
)

// Reach is how what is struck is reached: what a drill has for it. What it has not is nil, and faults that need it are not made. A process
// that only undoes has Open and Cluster.
type Reach struct {
	Clock    func() int64 // ns since the run's origin
	Await    Await
	Past     func() []history.Event    // all that is recorded so far
	Write    func(history.Event) error // records one
	Run      string
	Replicas []string // all names

	Signal func(incarnation string, sig syscall.Signal) (history.Span, error) // of processes; returns the bracket of kill(2)
	Alone  bool                                                               // they are somebody's own: a signal is for the process itself, and nobody else
	Grace  time.Duration                                                      // that they have from SIGTERM to SIGKILL
	Send   func(incarnation string, c protocol.Command) error                 // to replicas that take commands
	Sample func(context.Context) error                                        // looks at the locks once more; nil = nobody does

	Store  interface{ Where() undo.Store }          // the locks'; what can be done to it its type says
	Open   func(undo.Store) (stores.Outside, error) // of whatever kind
	Prefix string                                   // of every key of the run
	Keys   string                                   // of every lock's key: those of an observed system have none of the run's

	Routes   func(replica string) []undo.ProxyRoute // of replicas to the locks, through a Toxiproxy: one for each server that it reaches
	Question endpoint.Question                      // of the locks' store; without any, as a Redis is asked that wants no password

	Tap  *tap.Tap                             // on all ways; nil = no fault goes by it
	API  string                               // of a lockdrill proxy that somebody's own replicas go through
	Glob func(lock, key string) string        // names as the store knows them: of the key; key "": of all of the lock; lock "": of all locks
	Bare func(name string) (lock, key string) // the other way round

	Mark    func(name string) string // of the run, for the environment of what it starts
	Secrets []string                 // names of environment variables whose values are never told

	Pods      Cluster                                             // replicas are pods of it
	Cluster   func(context.Context, undo.Record) (Network, error) // that of a record
	Again     bool                                                // it was undone, by its record: what does not bear the run's name, which another may have changed since, is only looked at
	Home      func(namespace string) undo.Cluster                 // what the run makes there; "" = its first namespace
	APIProxy  string                                              // API of the proxy through which its electors reach their API server
	Container string                                              // of a pod, that takes the locks; "" = its first

	armed sync.Map // *Hit at the tap, by the shot's name
}

// kind is how faults of one kind are made and undone.
type kind struct {
	any   []Row
	forms map[string][]Row // of those that are made or undone like no other
	ends  string           // why none is undone by others while the runner lives; "" = it is
}

// mechanisms are the faults that are made by one mechanism, and ways those of kinds that are made or undone like no other.
func mechanisms() map[fault.Mechanism]kind {
	return map[fault.Mechanism]kind{
		fault.Toxic: {any: []Row{wires}},
		fault.Burst: {any: bursts, ends: "a replica disarms itself, a tap ends with the runner, and a fault of a lockdrill proxy with its time"},
		fault.Hooks: {any: []Row{hook}},
	}
}

func ways() map[string]kind {
	return map[string]kind{
		"kill": {any: []Row{execed, crashed, killed}, ends: "a death is not undone",
			forms: map[string][]Row{fault.Graceful: {deleted, askedTo}, fault.ForceDelete: {deleted}, fault.Evict: {deleted}}},
		"rolling_restart": {any: []Row{deleted, askedTo}, forms: map[string][]Row{fault.RolledOut: {rolledOut}}, ends: "a restart is not undone"},
		"pause":           {any: []Row{pause}},
		"starve":          {any: []Row{starve}},
		"store":           {forms: ofStores},
		"delete_key":      {any: []Row{heldEnds, vanish}, forms: map[string][]Row{FormStranger: {heldEnds, stranger}}},
		"terminate":       {any: []Row{heldEnds}, ends: "a session that was ended is not put back"},
		"clock":           {any: []Row{clocks}, ends: "a replica sets its clock right by itself"},
		"network_policy":  {any: []Row{policies}},
		"api_server":      {any: []Row{apiServer}},
		"object":          {any: []Row{objects}},
		"node":            {any: []Row{cordons}, forms: map[string][]Row{string(fault.Drain): {drains}}},
	}
}

// kinds is how faults of each kind are made and undone.
func kinds() map[string]kind {
	all := ways()
	for _, word := range fault.Kinds() {
		k, made := mechanisms()[fault.Of(fault.New(word)).By()]
		if _, own := all[word]; made && !own {
			all[word] = k
		}
	}
	return all
}

// rowsOf are the rows of a form of a kind, in the order in which they are asked what they need.
func rowsOf(word, form string) []Row {
	k := kinds()[word]
	if rows, own := k.forms[form]; own {
		return rows
	}
	return k.any
}

// Reverters undo faults by their records alone, in any process, as their rows end them. While the runner lives, only those that work past it are
// given: what lives in a replica, or in the runner, ends by itself or with it; once it is dead, the replica's own record says that it is gone.
func (r *Reach) Reverters(runnerDead bool) map[string]undo.Reverter {
	all := map[string]undo.Reverter{}
	for word, k := range kinds() {
		if k.ends == "" || runnerDead {
			all[word] = r.end
		}
	}
	return all
}

// end ends a fault by its record.
func (r *Reach) end(ctx context.Context, rec undo.Record) error {
	for _, row := range rowsOf(rec.Kind, rec.Shot.Fault.Form) {
		if row.End != nil {
			return row.End(ctx, &Hit{Reach: r, Rec: rec})
		}
	}
	return nil
}
