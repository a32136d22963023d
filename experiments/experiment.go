// Package experiments is the vocabulary of lockdrill's YAML files: what is drilled, what is broken, what is watched and what
// is promised. It is pure, and the only reader of YAML in the project.
//
// Load gives a checked Experiment with its profiles resolved and all durations real; Scale gives the same experiment at its
// time scale. Its one invariant: an Experiment that Load returned has no problem that could be known without touching
// anything, and every problem of a bad file is reported at once with its place.
package experiments

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Experiment is one drill, resolved: profiles are expanded, defaults filled in. In a file a field HolderOf is spelled
// holder_of; the tag `file` names the exceptions, and forms.go the types that are spelled differently.
type Experiment struct {
	Name         string           `rule:"required,ident"` // names the run's folder
	Description  string           // for people
	Environment  string           `rule:"ident,default=local"` // what the target must call itself
	Redis        Redis            // where the locks live
	Store        *Store           // a store of another kind, in place of redis
	Ledger       LedgerStore      `rule:"for=@embedded"` // where the ledger lives; default: a store of the run's own
	Proxy        Proxy            // the Toxiproxy between replicas and store
	Kubernetes   *Kubernetes      // replicas are pods; left out: processes of this host
	System       System           `rule:"required"`                 // replicas, locks, work
	TimeScale    float64          `rule:"positive,max=1,default=1"` // multiplies the timings of locks, work, faults and SLOs
	SteadyState  SteadyState      // what must hold before the first fault
	Faults       Faults           // what is broken, and when; left out: promises are watched
	AllowOverlap [][2]string      `rule:"ref=fault"` // pairs of faults that may be in effect together
	Probes       Probes           // how evidence is gathered
	AbortWhen    []AbortCondition // what ends a run early; no promises
	Limits       RunLimits        // caps, whatever the faults ask for
	Windows      []Window         // a run is in progress only within one of them; default: always
	Blackouts    []Window         // a run is in progress within none of them
	BlockedBy    []Block          // each must be quiet before a run starts
	SLOs         []SLO            `file:"slos" rule:"required,unless=system.policy_sheet"` // the promises
	Expect       []SLO            `rule:"single"`                                          // what the faults must provoke
	Seed         int64            `rule:"min=1"`                                           // of all random choices; default: the run's choice

	Scaled float64 `file:"-"` // what Scale has multiplied by; 0 = not scaled
}

// Redis says where the locks live. All but Mode is for mode external.
type Redis struct {
	Mode        RedisMode `rule:"words=auto|embedded|spawn|external,default=auto"`                                   // auto: a redis-server on the PATH, else embedded; embedded: inside the runner; spawn: started by the run; external: yours
	URL         string    `file:"url" rule:"for=mode:external,need=mode:external,not=sentinel,format=redis:cluster"` // redis:// or rediss:// (TLS), or unix: and a socket's path; of a cluster, several with commas
	UsernameEnv string    `rule:"for=mode:external,format=env"`                                                      // variable with the user name
	PasswordEnv string    `rule:"for=mode:external,format=env"`                                                      // variable with the password
	CA          string    `file:"ca" rule:"for=mode:external,path,format=pem"`                                       // PEM file of the server's authority; default: the system's
	Cert        string    `rule:"for=mode:external,path,format=pem:own"`                                             // PEM file of the client certificate
	Key         string    `rule:"for=cert,need=cert,path,format=pem:own"`                                            // PEM file of its key
	Allow       []string  `rule:"words=@faults,for=mode:external"`                                                   // what may be done to it
	Cluster     bool      `rule:"omit,for=mode:external,for=@observed"`                                              // url is a server of a Redis Cluster
	Sentinel    *Sentinel `rule:"for=mode:external,for=@observed,not=cluster"`                                       // who is the primary, in place of url
	Replica     string    `rule:"omit,for=mode:external,for=@observed,not=cluster,format=redis"`                     // URL of a replica that is looked at in place of the primary
}

// Sentinel says which Sentinels know the primary of the locks. The authority is that of the Redis section; its user and password are for
// the servers alone.
type Sentinel struct {
	Master      string   `rule:"required"`                                         // the primary's name
	URLs        []string `file:"urls" rule:"required,format=redis:network,unique"` // redis:// or rediss:// (TLS) of each Sentinel
	UsernameEnv string   `rule:"format=env"`                                       // variable with the user name at the Sentinels
	PasswordEnv string   `rule:"format=env"`                                       // variable with the Sentinels' password
}

// Servers are the URLs of the servers that are named: of a cluster there may be several.
func (r *Redis) Servers() []string { return strings.Split(r.URL, ",") }

// Target names the Redis for a person.
func (r *Redis) Target() string {
	if r.Sentinel != nil {
		return r.Sentinel.Master + " of the Sentinels " + strings.Join(r.Sentinel.URLs, ", ")
	}
	return r.URL
}

// LedgerStore says where the ledger lives. By default it is a store of the run's own, on loopback; replicas in pods need one that they
// can reach, which no fault may reach: another server than that of the locks.
type LedgerStore struct {
	URL         string `file:"url" rule:"format=redis"`                // redis:// or rediss:// (TLS), of another server than the locks'
	UsernameEnv string `rule:"format=env"`                             // variable with the user name
	PasswordEnv string `rule:"format=env"`                             // variable with the password
	CA          string `file:"ca" rule:"path,format=pem"`              // PEM file of the server's authority; default: the system's
	Cert        string `rule:"path,format=pem:own"`                    // PEM file of the client certificate
	Key         string `rule:"for=cert,need=cert,path,format=pem:own"` // PEM file of its key
}

// AsRedis is the ledger's store as a Redis that the run does not start; the zero Redis where the run starts one of its own.
func (l *LedgerStore) AsRedis() Redis {
	if l.URL == "" {
		return Redis{}
	}
	return Redis{Mode: RedisExternal, URL: l.URL, UsernameEnv: l.UsernameEnv, PasswordEnv: l.PasswordEnv, CA: l.CA, Cert: l.Cert, Key: l.Key}
}

// Proxy says which Toxiproxy stands between the replicas and the locks' store where a fault needs one: embedded in the runner, or
// a server that exists, by its API.
type Proxy struct {
	Mode  ProxyMode `rule:"words=embedded|external,default=embedded"`                         // embedded: inside the runner; external: a Toxiproxy of yours
	URL   string    `file:"url" rule:"for=mode:external,need=mode:external,format=toxiproxy"` // its API, http://host:8474
	Route string    `rule:"for=mode:external,for=@observed,format=template:processes"`        // name of the proxy that the replicas pass; with {name}, one for each
	API   string    `file:"api" rule:"for=@observed,format=proxy"`                            // API of a lockdrill proxy on the replicas' route, http://127.0.0.1:6381 or unix:PATH
}

// Shared reports one proxy of somebody's own on the way of all replicas.
func (p *Proxy) Shared() bool { return p.Route != "" && len(Placeholders(p.Route)) == 0 }

// ProxyMode is embedded or external.
type ProxyMode string

const (
	ProxyEmbedded ProxyMode = "embedded"
	ProxyExternal ProxyMode = "external"
)

// RedisMode is auto (a redis-server on the PATH, else embedded), embedded, spawn or external.
type RedisMode string

const (
	RedisAuto     RedisMode = "auto"
	RedisEmbedded RedisMode = "embedded"
	RedisSpawn    RedisMode = "spawn"
	RedisExternal RedisMode = "external"
)

// System is what is drilled.
type System struct {
	Mode        string         `rule:"required,words=embedded|observe"` // embedded: lockdrill starts the replicas; observe: they are yours, watched and struck
	Replicas    int            `rule:"required,min=1,max=1000"`         // how many there are in the steady state
	Worker      []string       // command of a worker of yours; default: lockdrill's own
	CheckWorker bool           `rule:"omit,for=@embedded"`                                 // a line that breaks the worker protocol fails the run
	Restart     time.Duration  `rule:"default=500ms,least=1ms" scale:"no"`                 // when a killed replica is replaced; not scaled, not of pods
	PolicySheet PolicySheet    `rule:"shorthand=File"`                                     // a leader_election section, or its file: its loops become locks, with SLOs
	Processes   *Processes     `rule:"for=@observed"`                                      // replicas that are processes of this host
	Holder      []HolderSource `rule:"for=@observed"`                                      // how to find who holds a key, in this order
	Locks       []Lock         `rule:"required,unless=system.policy_sheet|system.effects"` // the locks that are drilled
	Work        []Work         `rule:"for=@embedded"`                                      // streams of jobs under the job locks
	Effects     []Effects      // where its jobs, and their ends, are read
}

// Words of System.Mode.
const (
	ModeEmbedded = "embedded"
	ModeObserve  = "observe"
)

// Observed reports a system that is watched and struck, and not made by the run.
func (e *Experiment) Observed() bool { return e.System.Mode == ModeObserve }

// Lock is the lock of that name, or one without a key where effects of that name come about under none; nil = there is neither.
func (e *Experiment) Lock(name string) *Lock {
	if l := find(e.System.Locks, func(l *Lock) bool { return l.Name == name }); l != nil {
		return l
	}
	if x := e.keyless(name); x != nil {
		return &Lock{Name: x.Name}
	}
	return nil
}

// find is the first of a list that is so; nil = none is.
func find[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// KeyOf is the key under which a job is locked.
func (l *Lock) KeyOf(job string) string { return l.KeyPrefix + job + l.KeySuffix }

// Pattern is what the keys of a job lock look like: a star stands for the job.
func (l *Lock) Pattern() string { return l.KeyOf("*") }

// JobOf is the job under a key; ok is false for a key that is not the lock's.
func (l *Lock) JobOf(key string) (job string, ok bool) {
	rest, begins := strings.CutPrefix(key, l.KeyPrefix)
	job, ends := strings.CutSuffix(rest, l.KeySuffix)
	return job, begins && ends
}

// LockOf is the lock that a key belongs to: a loop by its own key, else the one whose pattern says most of it; nil = none.
func (e *Experiment) LockOf(key string) (lock *Lock) {
	longest := -1
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		if l.Loop() && key == l.Key {
			return l
		}
		if _, its := l.JobOf(key); its && !l.Loop() && len(l.Pattern()) > longest {
			lock, longest = l, len(l.Pattern())
		}
	}
	return lock
}

// Keyless reports that there is no lock, but effects alone.
func (l *Lock) Keyless() bool { return l.Key == "" && l.KeyPrefix == "" && l.Lease == "" }

// Fenced reports whether the ledger compares fences for a lock: neither the lock nor its stream of jobs says otherwise.
func (e *Experiment) Fenced(lock string) bool {
	l, w := e.Lock(lock), e.WorkUnder(lock)
	return (l == nil || !l.Unfenced) && (w == nil || w.Fenced)
}

// WorkUnder is the stream of jobs under a lock; nil = it has none.
func (e *Experiment) WorkUnder(lock string) *Work {
	return find(e.System.Work, func(w *Work) bool { return w.Lock == lock })
}

// ReplicaNames are the names of the replicas that a run starts; observed ones get theirs as they are seen.
func (e *Experiment) ReplicaNames() []string {
	names := make([]string, e.System.Replicas)
	for i := range names {
		names[i] = fmt.Sprintf("r%d", i+1)
	}
	return names
}

// ViaProxy reports whether a fault is made by a proxy on the replicas' way that fails single lock operations.
func (e *Experiment) ViaProxy() bool {
	return slices.ContainsFunc(e.Faults, func(f Fault) bool { return f.Traits().Via == fault.ViaProxy })
}

// LockCalls says how the run's own workers send lock operations: history.CallsBatched, or history.CallsSingle where a proxy must be able
// to fail single ones and where the store has no batches; "" = the replicas are not lockdrill's own.
func (e *Experiment) LockCalls() string {
	switch {
	case e.Observed() || len(e.System.Worker) > 0:
		return ""
	case e.ViaProxy(), !e.InRedis():
		return history.CallsSingle
	}
	return history.CallsBatched
}

// Lock is a named lock with its policy. A lock whose policy has a Loop is a leader loop with one key; any other lock is taken
// per job, with key = KeyPrefix + job id + KeySuffix.
type Lock struct {
	Name      string
	Profile   string // name of the shipped profile it came from
	Key       string // loops
	KeyPrefix string // job locks
	KeySuffix string // job locks
	Lease     string // observed loops: name of the Lease object that is the lock, in the namespace of the pods, and Key is that name; "" = it is a key of the Redis
	Policy    lockcore.Policy
	Unfenced  bool // the ledger does not compare fences of what is written under the lock
	// AbandonedBy is what tells how often an observed lock was given up, which nobody claims; nil = nothing does.
	AbandonedBy *Signal
	ToldBy      *Told   // likewise of what else they would say; nil = nothing does
	Belief      *Belief // what tells whether a replica believes that it holds an observed lock; nil = nothing does

	Place   Place    `file:"-"` // for messages
	Assumed []string `file:"-"` // what the file leaves out of the policy, and what stands there instead
	Beyond  []string `file:"-"` // what of the real lock its policy cannot say, a sentence each
}

// Signal is a count that others keep: exactly one of Metric and Log is set.
type Signal struct {
	_      struct{} `rule:"one=metric|log"`
	Metric string   `rule:"ref=counter"` // a counter under probes
	Log    string   `rule:"ref=pattern"` // a pattern of probes.logs
}

// Place is where something stands in a file. Line and Column count from 1; 0 = nowhere.
type Place struct {
	File         string
	Line, Column int
}

// Loop reports whether the lock is a leader loop.
func (l *Lock) Loop() bool { return l.Policy.Loop != nil }

// Describe says in words what the lock does, one sentence a line.
func (l *Lock) Describe() []string {
	lines := l.Policy.Describe()
	if l.Unfenced {
		lines = append(lines, "Fences are not compared: the resource takes a write of whoever has lost the lock.")
	}
	return lines
}

// Work is a stream of jobs under a job lock.
type Work struct {
	Lock      string        `rule:"required,ref=lock,unique"`      // the job lock; one stream a lock
	Jobs      int           `rule:"required,min=1,max=1000000"`    // how many are offered
	Rate      float64       `rule:"required,rate" scale:"inverse"` // jobs offered a second; divided by time_scale
	Hold      Hold          `rule:"required"`                      // length of the work: log-normal, or always p50
	Redeliver time.Duration `rule:"required" scale:"yes"`          // an unfinished job is offered again so often; 0s: never
	Fenced    bool          `rule:"default=true"`                  // the ledger compares fences
	Strict    bool          // the ledger refuses a second terminal state
	Look      bool          `rule:"default=true"`         // a worker skips jobs that are already terminal
	Classes   []JobClass    `rule:"ident,shorthand=Name"` // names, dealt in turn, or sections with a share and hold; held and wait promise per class
}

// JobClass is one class of a stream's jobs. Classes without shares are dealt in turn.
type JobClass struct {
	Name  string  `rule:"required,ident,unique"` // of the class, and the label class of its metrics
	Share float64 `rule:"positive,max=1"`        // of the jobs; all shares are 1
	Hold  *Hold   // length of its jobs; default: the stream's
}

// Kinds are the classes of the jobs, each with its share and its work; one without a name where the stream has none.
func (w *Work) Kinds() []JobClass {
	if len(w.Classes) == 0 {
		return []JobClass{{Share: 1, Hold: &w.Hold}}
	}
	kinds := slices.Clone(w.Classes)
	for i := range kinds {
		if kinds[i].Share == 0 {
			kinds[i].Share = 1 / float64(len(kinds))
		}
		if kinds[i].Hold == nil {
			kinds[i].Hold = &w.Hold
		}
	}
	return kinds
}

// Shortest is the least median of the classes.
func (w *Work) Shortest() time.Duration {
	kinds := w.Kinds()
	return slices.MinFunc(kinds, func(a, b JobClass) int { return cmp.Compare(a.Hold.P50, b.Hold.P50) }).Hold.P50
}

// Longest is the greatest p99 of the classes: a lease must do for all of them.
func (w *Work) Longest() time.Duration {
	kinds := w.Kinds()
	return slices.MaxFunc(kinds, func(a, b JobClass) int { return cmp.Compare(a.Hold.P99, b.Hold.P99) }).Hold.P99
}

// constant reports work of which no job takes longer than its class's p99.
func (w *Work) constant() bool {
	return !slices.ContainsFunc(w.Kinds(), func(k JobClass) bool { return k.Hold.P50 != k.Hold.P99 })
}

// Hold is a log-normal distribution of work durations by two of its quantiles; P99 == P50 is constant work.
type Hold struct {
	P50, P99 time.Duration `scale:"yes"`
}

// SteadyState must hold before the first fault: a holder for each loop, renewals, jobs finishing, for For; else the run ends
// after Timeout as inconclusive.
type SteadyState struct {
	For     time.Duration `rule:"default=2s" scale:"no"`           // it must hold for so long; not scaled
	Timeout time.Duration `rule:"positive,default=30s" scale:"no"` // not reached by then: inconclusive; not scaled
}

// Probes says how evidence is gathered.
type Probes struct {
	LockKeys ProbeSettings // looks at the lock keys
	Ledger   ProbeSettings // looks at the ledger
	Leases   ProbeSettings // looks at observed Lease objects
	Metrics  []Metric      // numbers, read before, during and after the faults
	PromQL   []Query       `file:"promql"` // samples of a Prometheus server
	Alerts   *Alerts       // which alerts fire
	Logs     *Logs         // lines of logs
}

// ProbeSettings is a probe's period and the longest tolerated stretch without a look. Neither is scaled.
type ProbeSettings struct {
	Every  time.Duration `rule:"positive,least=1ms" scale:"no"` // between two looks; not scaled
	MaxGap time.Duration `rule:"positive" scale:"no"`           // longest time without a good look; not scaled
}

// RunLimits are caps that hold whatever the faults ask for. Neither is scaled.
type RunLimits struct {
	MaxKills    int           `rule:"min=1"`                           // kills in all; default: twice the declared ones
	MaxTargets  int           `rule:"min=1"`                           // lives that other faults may strike in all; default: no cap
	LastReplica bool          `rule:"omit,for=@observed"`              // the last live replica may be struck
	MaxRun      time.Duration `rule:"positive,default=10m" scale:"no"` // the run is aborted after this
	Namespaces  []string      `rule:"format=namespace,unique"`         // where pods may be struck; default: the run's
	KillSwitch  string        `rule:"path"`                            // where this file exists nothing starts, and a run is aborted within a second
}

// Window is a stretch of the week in a time zone.
type Window struct {
	_    struct{} `rule:"any=days|from|to"`
	Days []string `rule:"words=mon|tue|wed|thu|fri|sat|sun"` // default: every day
	From string   `rule:"format=clock,need=to"`              // "09:00"; default: the whole day
	To   string   `rule:"format=clock,need=from"`            // "17:30"; not after from: on the next day
	Zone string   `rule:"required,format=zone"`              // such as Europe/Berlin
}

// Block keeps a run from starting while it is not quiet. One that cannot be asked is not quiet.
type Block struct {
	_      struct{}    `rule:"one=file|url|promql"`
	Name   string      `rule:"ident"`                   // its name where it keeps a run from starting
	File   string      `rule:"path"`                    // quiet while this file is not there
	URL    string      `file:"url" rule:"format=quiet"` // quiet while it answers 200 to 299
	PromQL *BlockQuery `file:"promql"`                  // quiet while a query has no result, or 0
}

// BlockQuery is a query that a Prometheus server evaluates.
type BlockQuery struct {
	Query string `rule:"required,format=query:any"` // any PromQL, such as count(ALERTS{alertstate="firing"})
	PromServer
}

// Says names the block for a person.
func (b *Block) Says() string { return cmp.Or(b.Name, b.File, b.URL, "promql") }
