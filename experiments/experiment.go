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
	Environment  string           `rule:"ident,default=local"` // what the target must call itself; local is what the run started itself
	Redis        Redis            // where the locks live
	Store        *Store           // where the locks live instead, in a store of another kind: etcd, PostgreSQL, Lease objects
	Ledger       LedgerStore      `rule:"for=@embedded"` // where the ledger lives; left out: a store of the run's own
	Proxy        Proxy            // the Toxiproxy between replicas and store, where a fault needs one
	Kubernetes   *Kubernetes      // replicas are pods; left out: processes of this host
	System       System           `rule:"required"`                 // what is drilled: replicas, locks, work
	TimeScale    float64          `rule:"positive,max=1,default=1"` // multiplies the timings of locks, work, faults and SLOs; 1 is real time
	SteadyState  SteadyState      // what must hold before the first fault
	Faults       Faults           // the timeline: what is broken, and when; or what it is made from; left out: nothing is broken, and the promises are watched
	AllowOverlap [][2]string      `rule:"ref=fault"` // pairs of ids: faults that may be in effect together
	Probes       Probes           // how evidence is gathered
	AbortWhen    []AbortCondition // conditions that end a run early; they are no promises
	Limits       RunLimits        // caps that hold whatever the faults ask for
	Windows      []Window         // a run may be in progress only within one of them; none: always
	Blackouts    []Window         // a run may be in progress within none of them
	BlockedBy    []Block          // each must be quiet before a run starts
	SLOs         []SLO            `file:"slos" rule:"required,unless=system.policy_sheet"` // the promises
	Expect       []SLO            `rule:"single"`                                          // what the faults must provoke for the drill to mean anything
	Seed         int64            `rule:"min=1"`                                           // of every random choice; left out: chosen by the run

	Scaled float64 `file:"-"` // what Scale has multiplied by; 0 = not scaled
}

// Redis says where the locks live. All but Mode is for mode external.
type Redis struct {
	Mode        RedisMode `rule:"words=auto|embedded|spawn|external,default=auto"`                           // auto: a redis-server on the PATH, else embedded; embedded: inside the runner; spawn: started by the run; external: yours
	URL         string    `file:"url" rule:"for=mode:external,need=mode:external,not=sentinel,format=redis"` // external: redis:// or rediss:// (TLS), without a password; or unix: and the path of a socket
	UsernameEnv string    `rule:"for=mode:external,format=env"`                                              // name of the environment variable that holds the user name
	PasswordEnv string    `rule:"for=mode:external,format=env"`                                              // name of the environment variable that holds the password: it never stands in a file
	CA          string    `file:"ca" rule:"for=mode:external,path,format=pem"`                               // PEM file of the authority that signed the server's certificate, beside the experiment's; default: the system's
	Cert        string    `rule:"for=mode:external,path,format=pem:own"`                                     // PEM file of the certificate that the server asks for
	Key         string    `rule:"for=cert,need=cert,path,format=pem:own"`                                    // PEM file of the key of that certificate
	Allow       []string  `rule:"words=@faults,for=mode:external"`                                           // what may be done to it: faults of the store itself (pause, flush, fill, delete_key), and monitor
	Cluster     bool      `rule:"omit,for=mode:external,for=@observed"`                                      // observed: url is a server of a Redis Cluster, and keys are on all of its masters
	Sentinel    *Sentinel `rule:"for=mode:external,for=@observed,not=cluster"`                               // observed: Sentinels that say which server is the primary, in place of url
	Replica     string    `rule:"omit,for=mode:external,for=@observed,not=cluster,format=redis"`             // observed: URL of a read-only replica that is looked at in place of the primary
}

// Sentinel says which Sentinels know the primary of the locks. The authority is that of the Redis section; its user and password are for
// the servers alone.
type Sentinel struct {
	Master      string   `rule:"required"`                                  // name of the primary, as the Sentinels are configured
	URLs        []string `file:"urls" rule:"required,format=redis:network"` // redis:// or rediss:// (TLS), one of each Sentinel
	UsernameEnv string   `rule:"format=env"`                                // name of the environment variable that holds the user name at the Sentinels themselves
	PasswordEnv string   `rule:"format=env"`                                // name of the environment variable that holds the password of the Sentinels themselves: it never stands in a file
}

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
	URL         string `file:"url" rule:"format=redis"`                // redis:// or rediss:// (TLS), without a password; another server than that of the locks
	UsernameEnv string `rule:"format=env"`                             // name of the environment variable that holds the user name
	PasswordEnv string `rule:"format=env"`                             // name of the environment variable that holds the password: it never stands in a file
	CA          string `file:"ca" rule:"path,format=pem"`              // PEM file of the authority that signed the server's certificate, beside the experiment's; default: the system's
	Cert        string `rule:"path,format=pem:own"`                    // PEM file of the certificate that the server asks for
	Key         string `rule:"for=cert,need=cert,path,format=pem:own"` // PEM file of the key of that certificate
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
	Mode  ProxyMode `rule:"words=embedded|external,default=embedded"`                         // embedded: inside the runner; external: a Toxiproxy that exists
	URL   string    `file:"url" rule:"for=mode:external,need=mode:external,format=toxiproxy"` // external: its API, http://host:8474
	Route string    `rule:"for=mode:external,for=@observed,format=template:processes"`        // observed: name of the proxy there that the replicas' traffic passes; with {name}, one for each replica
	API   string    `file:"api" rule:"for=@observed,format=proxy"`                            // observed: API of the lockdrill proxy that the replicas' traffic passes, http://127.0.0.1:6381 or unix:PATH
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
	Mode        string         `rule:"required,words=embedded|observe"` // embedded: lockdrill starts the replicas; observe: they are somebody's own, only watched and struck
	Replicas    int            `rule:"required,min=1,max=1000"`         // how many processes or pods; observed: so many are there in the steady state
	Worker      []string       // command of a worker that speaks the worker protocol, where lockdrill stands for this program; left out: lockdrill's own
	CheckWorker bool           `rule:"omit,for=@embedded"`                                 // what a worker says is held against the worker protocol, and a line that breaks it fails the run
	Restart     time.Duration  `rule:"default=500ms,least=1ms" scale:"no"`                 // a killed replica is replaced after so long, in real time; not of pods: that is their controller's
	PolicySheet PolicySheet    `rule:"shorthand=File"`                                     // a leader_election section, or the file beside the experiment's that has it: its loops become locks, with SLOs
	Processes   *Processes     `rule:"for=@observed"`                                      // observed replicas that are processes of this host
	Holder      []HolderSource `rule:"for=@observed"`                                      // observed: how to find out who holds a key of the Redis; tried in this order
	Locks       []Lock         `rule:"required,unless=system.policy_sheet|system.effects"` // the locks that are drilled
	Work        []Work         `rule:"for=@embedded"`                                      // streams of jobs under the job locks
	Effects     []Effects      // of an observed system: where its jobs, and their ends, are read
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
	for i := range e.System.Locks {
		if l := &e.System.Locks[i]; l.Name == name {
			return l
		}
	}
	if x := e.keyless(name); x != nil {
		return &Lock{Name: x.Name}
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
	for i := range e.System.Work {
		if w := &e.System.Work[i]; w.Lock == lock {
			return w
		}
	}
	return nil
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
	Metric string   `rule:"ref=counter"` // a counter, by its name under probes
	Log    string   `rule:"ref=pattern"` // a pattern, by its name under probes.logs
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
	Rate      float64       `rule:"required,rate" scale:"inverse"` // jobs a second offered, such as 20/s; time_scale divides it
	Hold      Hold          `rule:"required"`                      // length of the work, by two percentiles, {p50: 4s, p99: 18s}: log-normal; with p50 alone every job takes as long
	Redeliver time.Duration `rule:"required" scale:"yes"`          // every job that is not finished is offered again so often; 0s: never, and then nobody takes over a job
	Fenced    bool          `rule:"default=true"`                  // the ledger compares fences
	Strict    bool          // the ledger refuses a second terminal state
	Look      bool          `rule:"default=true"`         // a worker skips jobs that are already terminal
	Classes   []JobClass    `rule:"ident,shorthand=Name"` // classes of jobs: names, dealt in turn, or sections with shares and work of their own; held and wait promise per class
}

// JobClass is one class of a stream's jobs. Classes without shares are dealt in turn.
type JobClass struct {
	Name  string  `rule:"required,ident"` // of the class, and the label class of its metrics
	Share float64 `rule:"positive,max=1"` // of the jobs; the shares of a stream are 1 together
	Hold  *Hold   // length of its jobs' work; left out: the stream's
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
	For     time.Duration `rule:"default=2s" scale:"no"`           // it must hold for so long; real time, not scaled
	Timeout time.Duration `rule:"positive,default=30s" scale:"no"` // not reached within this: the run is inconclusive; not scaled
}

// Probes says how evidence is gathered.
type Probes struct {
	LockKeys ProbeSettings // looks at the keys of the locks
	Ledger   ProbeSettings // looks at the ledger
	Leases   ProbeSettings // looks at observed locks that are Lease objects
	Metrics  []Metric      // numbers that are read before, during and after the faults
	PromQL   []Query       `file:"promql"` // numbers that a Prometheus server has scraped, sample by sample
	Alerts   *Alerts       // who is asked which alerts fire
	Logs     *Logs         // what is looked for in logs: of pods, of observed processes, and in files
}

// ProbeSettings is a probe's period and the longest tolerated stretch without a look. Neither is scaled.
type ProbeSettings struct {
	Every  time.Duration `rule:"positive,least=1ms" scale:"no"` // between two looks; not scaled
	MaxGap time.Duration `rule:"positive" scale:"no"`           // longest tolerated stretch without a good look; not scaled
}

// RunLimits are caps that hold whatever the faults ask for. Neither is scaled.
type RunLimits struct {
	MaxKills    int           `rule:"min=1"`                           // kills in all; default: twice what the faults declare
	MaxTargets  int           `rule:"min=1"`                           // replicas that faults other than kills may strike in all, each life counted; left out: no cap
	LastReplica bool          `rule:"omit,for=@observed"`              // observed replicas: the last one that lives may be struck
	MaxRun      time.Duration `rule:"positive,default=10m" scale:"no"` // then the run is aborted
	Namespaces  []string      `rule:"format=namespace"`                // the only ones whose pods may be struck; left out: the one that the run is told
	KillSwitch  string        `rule:"path"`                            // a file: where it exists nothing starts, and a run that goes on is aborted within a second
}

// Window is a stretch of the week in a time zone.
type Window struct {
	Days []string `rule:"words=mon|tue|wed|thu|fri|sat|sun"` // left out: every day
	From string   `rule:"format=clock"`                      // "09:00"; left out with to: the whole day
	To   string   `rule:"format=clock"`                      // "17:30"; one that is not after from is on the next day
	Zone string   `rule:"required,format=zone"`              // as in the tz database, such as Europe/Berlin
}

// Block keeps a run from starting while it is not quiet. One that cannot be asked is not quiet.
type Block struct {
	_      struct{}    `rule:"one=file|url|promql"`
	Name   string      `rule:"ident"`                   // what it is called where it keeps a run from starting
	File   string      `rule:"path"`                    // a file, beside the experiment's: quiet while it is not there
	URL    string      `file:"url" rule:"format=quiet"` // quiet while it answers with a status from 200 to 299
	PromQL *BlockQuery `file:"promql"`                  // quiet while a query has no result, or 0
}

// BlockQuery is a query that a Prometheus server evaluates.
type BlockQuery struct {
	Query string `rule:"required"` // any PromQL, such as count(ALERTS{alertstate="firing"})
	PromServer
}

// Says names the block for a person.
func (b *Block) Says() string { return cmp.Or(b.Name, b.File, b.URL, "promql") }
