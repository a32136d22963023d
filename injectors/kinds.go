package injectors

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/postgres"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// Injector makes one kind of fault: what the runner asks of it.
type Injector interface {
	Prepare(ctx context.Context, shot history.Event) (undo.Record, error)
	Inject(ctx context.Context, r undo.Record) (history.Span, error)
	Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error)
	Revert(ctx context.Context, r undo.Record) (history.Span, error)
}

// Reach is how what is struck is reached: what a drill has for it. What it has not is nil, and faults that need it are not made. A process
// that only undoes has Open and Cluster.
type Reach struct {
	Clock    func() int64 // ns since the run's origin
	Await    Await
	Past     func() []history.Event // all that is recorded so far
	Record   func(history.Event) error
	Run      string
	Replicas []string // all names

	Signal func(incarnation string, sig syscall.Signal) (history.Span, error) // of processes; returns the bracket of kill(2)
	Alone  bool                                                               // they are somebody's own: a signal is for the process itself, and nobody else
	Grace  time.Duration                                                      // that they have from SIGTERM to SIGKILL
	Send   func(incarnation string, c protocol.Command) error                 // to replicas that take commands
	Sample func(context.Context) error                                        // looks at the locks once more; nil = nobody does

	Store  Server   // the locks'
	Open   Outsider // of whatever kind
	Prefix string   // of every key of the run
	Keys   string   // of every lock's key: those of an observed system have none of the run's

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
	Home      func(namespace string) undo.Cluster                 // what the run makes there; "" = its first namespace
	APIProxy  string                                              // API of the proxy through which its electors reach their API server
	Container string                                              // of a pod, that takes the locks; "" = its first

	specs sync.Map // OLD
	once  sync.Once
	set   *Set
}

// row is how faults of one kind are made and undone.
type row struct {
	make   func(*Set) Injector        // nil result = the drill has not what it takes
	undone func(*Reach) undo.Reverter // gives what undoes a record by itself, in any process; nil = ends says why none is needed
	ends   string
}

// mechanisms are the injectors of all faults that are made by one mechanism, and ways those of kinds that are made or undone like no
// other.
func mechanisms() map[fault.Mechanism]row {
	return map[fault.Mechanism]row{
		fault.Toxic: {make: (*Set).network, undone: onRoutes},
		fault.Burst: {make: (*Set).bursts, undone: atProxy, ends: "a replica disarms itself, a tap ends with the runner, and a fault of a lockdrill proxy with its time"},
		fault.Hooks: {make: (*Set).hook, undone: byCommand},
	}
}

func ways() map[string]row {
	return map[string]row{
		"kill":            {make: (*Set).kill, ends: "a death is not undone"},
		"rolling_restart": {make: (*Set).roll, ends: "a restart is not undone"},
		"pause":           {make: (*Set).pause, undone: continued},
		"starve":          {make: (*Set).starve, undone: continued},
		"store":           {make: (*Set).store, undone: byStore},
		"delete_key":      {make: (*Set).deleteKey, undone: byKey},
		"terminate":       {make: (*Set).terminate, ends: "a session that was ended is not put back"},
		"clock":           {make: (*Set).clock, ends: "a replica sets its clock right by itself"},
		"network_policy":  {make: (*Set).networkPolicy, undone: byPolicy},
		"api_server":      {make: (*Set).apiServer, undone: atProxy},
		"node":            {make: (*Set).node, undone: byNode},
	}
}

// rows is how faults of each kind are made and undone.
func rows() map[string]row {
	all := ways()
	for _, kind := range fault.Kinds() {
		r, made := mechanisms()[fault.Of(fault.New(kind)).By()]
		if _, own := all[kind]; made && !own {
			all[kind] = r
		}
	}
	return all
}

// Kinds are the kinds of faults that have an injector here, and for each why its record need not be undone by others; "" = it is.
func Kinds() map[string]string {
	kinds := map[string]string{}
	for kind, r := range rows() {
		kinds[kind] = r.ends
	}
	return kinds
}

// Set is the injectors of one drill.
type Set struct {
	*Reach
	Fault    func(string) fault.Spec
	failures *Failures // one for all kinds of bursts: the tap reports to it
	toxics   *Toxics   // likewise, of the network
}

// New makes the injectors of a drill.
func New(p *Reach) *Set {
	s := &Set{Reach: p, Fault: func(id string) fault.Spec { f, _ := p.specs.Load(id); return f.(fault.Spec) }}
	s.failures = &Failures{
		Fault: s.Fault, Clock: s.Clock, Send: s.Send, Await: s.Await, Tap: s.Tap, Glob: s.Glob, Bare: s.Bare, Record: s.Record, API: s.API, Run: s.Run,
	}
	s.toxics = &Toxics{Fault: s.Fault, Routes: s.Routes, Replicas: s.Replicas, Question: s.Question, Run: s.Run, Await: s.Await, Past: s.Past, Clock: s.Clock}
	return s
}

// Of is the injector of a kind of fault, or nil where the drill has not what that takes.
func (s *Set) Of(kind string) Injector {
	if r, ok := rows()[kind]; ok {
		return r.make(s)
	}
	return nil
}

// Hit takes what the tap reports.
func (r *Reach) Hit(h tap.Hit) { r.old().failures.Hit(h) }

func (r *Reach) old() *Set {
	r.once.Do(func() { r.set = New(r) })
	return r.set
}

func redisBy(open Outsider) func(undo.Store) (*redis.Client, error) {
	return func(w undo.Store) (*redis.Client, error) {
		c, err := open(w)
		if err != nil {
			return nil, err
		}
		return clientOf(c), nil
	}
}

func (s *Set) kill() Injector {
	switch {
	case s.Pods != nil:
		return &PodKill{Pods: s.Pods, Container: s.Container, Sample: s.Sample, Send: s.Send, Fault: s.Fault, Await: s.Await, Past: s.Past, Clock: s.Clock}
	case s.Signal != nil:
		return &Kill{Signal: s.Signal, Fault: s.Fault, Grace: s.Grace, Sample: s.Sample, Await: s.Await, Past: s.Past, Clock: s.Clock}
	}
	return nil
}

// roll ends one replica a shot, as a graceful kill does, or has the pods' owner replace all.
func (s *Set) roll() Injector {
	kill := s.kill()
	if pods, is := kill.(*PodKill); is {
		return &Rollout{One: pods, Owners: s.Pods, Fault: s.Fault, Past: s.Past, Clock: s.Clock}
	}
	return kill
}

func (s *Set) pause() Injector {
	if s.Signal == nil {
		return nil
	}
	return &Pause{Signal: s.Signal, Alone: s.Alone, Past: s.Past, Clock: s.Clock}
}

func (s *Set) bursts() Injector {
	if s.Send == nil && s.API == "" {
		return nil
	}
	return s.failures
}

func (s *Set) network() Injector {
	if s.Routes == nil {
		return nil
	}
	return s.toxics
}

func (s *Set) store() Injector {
	if s.Store == nil {
		return nil
	}
	return &Store{Server: s.Store, Open: s.Open, Prefix: s.Prefix, Clock: s.Clock, Fault: func(id string) fault.Store { return *s.Fault(id).(*fault.Store) }}
}

func (s *Set) deleteKey() Injector {
	if s.Store == nil {
		return nil
	}
	if keys, named := s.Store.(held); named {
		return &Terminate{Held: keys, Prefix: s.Keys, Past: s.Past, Clock: s.Clock}
	}
	return &DeleteKey{Open: redisBy(s.Open), Where: s.Store.Where, Prefix: s.Keys, Clock: s.Clock}
}

func (s *Set) terminate() Injector {
	server, ok := s.Store.(interface{ Sessions() *postgres.Client })
	if !ok {
		return nil
	}
	return &Terminate{Held: sessions{server.Sessions()}, Past: s.Past, Clock: s.Clock}
}

func (s *Set) clock() Injector {
	if s.Send == nil {
		return nil
	}
	return &Clock{Send: s.Send, Await: s.Await, Now: s.Clock, Offset: func(id string) time.Duration { return s.Fault(id).(*fault.Clock).Offset }}
}

func (s *Set) networkPolicy() Injector {
	if s.Cluster == nil {
		return nil
	}
	return &NetworkPolicy{Reach: s.Cluster, Where: s.Home, Fault: s.Fault, Container: s.Container, Await: s.Await, Past: s.Past, Clock: s.Clock}
}

func (s *Set) apiServer() Injector {
	if s.Pods == nil || s.APIProxy == "" {
		return nil
	}
	return &APIServer{API: s.APIProxy, Run: s.Run, Pods: s.Pods, Fault: s.Fault, Past: s.Past, Clock: s.Clock}
}

func (s *Set) node() Injector {
	kill, pods := s.kill().(*PodKill)
	if !pods || s.Cluster == nil {
		return nil
	}
	return &Node{One: kill, Reach: func(ctx context.Context, r undo.Record) (Nodes, error) { return s.Cluster(ctx, r) }, Where: s.Home(""), Clock: s.Clock}
}

func (s *Set) hook() Injector {
	if s.Mark == nil {
		return nil
	}
	return &Hook{Fault: s.Fault, Mark: s.Mark, Secrets: s.Secrets, Past: s.Past, Clock: s.Clock}
}

// Reverters undo faults by their records alone, in any process. While the runner lives, only those that work past it are given: what
// lives in a replica, or in the runner, ends by itself or with it.
func (r *Reach) Reverters(runnerDead bool) map[string]undo.Reverter {
	all := map[string]undo.Reverter{}
	for kind, row := range rows() {
		switch {
		case row.undone != nil && (row.ends == "" || runnerDead):
			all[kind] = row.undone(r)
		case runnerDead:
			all[kind] = endedWithReplica
		}
	}
	return all
}

// endedWithReplica: a death is not undone, and what a replica was told to do, or what stood in the runner, is gone with them. The
// replica's own record says that it is gone: without that the journal is not closed.
func endedWithReplica(context.Context, undo.Record) error { return nil }

// noClock is for injectors that only revert: nobody writes a history of it.
func noClock() int64 { return 0 }

func atProxy(*Reach) undo.Reverter { return endAtProxy }

func onRoutes(*Reach) undo.Reverter { return RevertRoutes }

func continued(*Reach) undo.Reverter {
	return revertBy(&Pause{Clock: noClock})
}

func byPolicy(reach *Reach) undo.Reverter {
	return revertBy(&NetworkPolicy{Reach: reach.Cluster, Clock: noClock})
}

func byNode(reach *Reach) undo.Reverter {
	return revertBy(&Node{Clock: noClock, Reach: func(ctx context.Context, r undo.Record) (Nodes, error) { return reach.Cluster(ctx, r) }})
}

func byCommand(*Reach) undo.Reverter { return revertBy(&Hook{Clock: noClock}) }

func byStore(reach *Reach) undo.Reverter {
	return revertBy(&Store{Open: reach.Open, Clock: noClock})
}

func byKey(reach *Reach) undo.Reverter {
	return revertBy(&DeleteKey{Open: redisBy(reach.Open), Clock: noClock})
}

// revertBy makes a reverter of an injector that needs nothing but the record to revert.
func revertBy(i Injector) undo.Reverter {
	return func(ctx context.Context, r undo.Record) error {
		_, err := i.Revert(ctx, r)
		return err
	}
}
