package experiments

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Effects says where the jobs of an observed system, and their ends, or the ticks of its loop, are read. Exactly one source is set.
type Effects struct {
	_       struct{}     `rule:"for=@observed,one=stream|list|hash|sql|http|file|command|log"`
	Name    string       `rule:"required,ident,unique"` // of the probe
	Lock    string       `rule:"ref=lock,unique"`       // the lock under which they come about; left out: none
	Stream  string       // key of a Redis stream
	List    string       // key of a Redis list, appended to on the right
	Hash    string       // key of a Redis hash: the last state of each field
	Redis   LedgerStore  `rule:"for=stream|list|hash"` // where that key is; default: where the locks are
	SQL     *SQLEffects  // rows of a database
	HTTP    *HTTPEffects // elements of a JSON array
	File    string       `rule:"path,format=glob"` // pattern of paths
	Command []string     // prints all lines, and ends
	Log     string       `rule:"words=replicas"`                             // the replicas' logs
	Pattern string       `rule:"pattern,format=regexp,for=file|command|log"` // RE2 of lines, its named groups are the columns; left out: JSON objects
	// the source keeps only the last state of a job
	Overwrites bool      `rule:"omit,for=sql|http"`
	Map        EffectMap // which column means what
	ProbeSettings
	StrandedAfter time.Duration `rule:"omit,positive,not=lock" scale:"no"` // a job that is still open so long after it is due, and after the last fault, is stranded
}

// Under is what rows call the lock that they come about under: without one, their own name.
func (x *Effects) Under() string { return cmp.Or(x.Lock, x.Name) }

// keyless are the effects that come about under no lock, of that name; nil = there are none.
func (e *Experiment) keyless(name string) *Effects {
	return find(e.System.Effects, func(x *Effects) bool { return x.Lock == "" && x.Name == name && name != "" })
}

// SQLEffects are the rows of a query.
type SQLEffects struct {
	Driver string `rule:"required,words=postgres|mysql"` // kind of database
	DSNEnv string `rule:"required,format=env"`           // variable with the data source name
	Query  string `rule:"required"`                      // with one parameter, the cursor, and in its order
	Cursor string `rule:"required"`                      // column by which rows are ordered
	Start  string // query of the first cursor; default: the greatest
}

// HTTPEffects are the elements of a JSON array, or of the array "items" of an object.
type HTTPEffects struct {
	URL      string `rule:"required,format=address"` // address of the list
	Param    string `rule:"need=cursor"`             // query parameter that takes the cursor; left out: each answer has everything
	Cursor   string `rule:"need=param"`              // field whose last value is the cursor
	TokenEnv string `rule:"format=env"`              // variable with a bearer token
}

// EffectMap says which column of an entry means what. In a column that holds a JSON object, a.b is its field b.
type EffectMap struct {
	Job      string   // id of the job
	State    string   // state of the job
	Terminal []string // states that end a job
	Begin    []string // states that show a holder at work; default: all that end nothing
	Op       string   // operation id: the same id again is a replay
	Fence    string   // fence of the grant
	Replica  string   // writer, as the locks name their holders
	Token    string   // the lock's value under which it was written
	Key      string   // the lock's key; default: the job with key_prefix and key_suffix

	Due       string // when the job is owed: RFC 3339 with a zone, or Unix time in s, ms, us or ns
	NotBefore string // when it may be taken, such as a next try; the later of both counts

	Traceparent string // W3C trace context under which it was written: the trace of a run (--otlp) links to it
}

func (x *Effects) SetDefaults() {
	x.ProbeSettings = ProbeSettings{Every: 20 * time.Millisecond, MaxGap: 500 * time.Millisecond}
}

// Names of drivers of SQL.
const (
	Postgres = "postgres"
	MySQL    = "mysql"
)

// LogReplicas is the only word of Effects.Log.
const LogReplicas = "replicas"

// Probe is what coverage events call the probe that reads them.
func (x *Effects) Probe() string { return effectsPrefix + x.Name }

const effectsPrefix = "effects:"

// What coverage events call the probes of lock keys and of Lease objects.
const (
	ProbeKeys   = "lock_keys"
	ProbeLeases = "leases"
)

// IsEffects reports the name of a probe that reads effects of an observed system.
func IsEffects(probe string) bool { return strings.HasPrefix(probe, effectsPrefix) }

// FreshTokens reports that the values of the lock's keys are promised to be new for each grant: by lockdrill's own workers and those of its
// protocol; of an observed lock where something tells its tokens. Elsewhere a value may be its holder's name, which comes back by right.
func (e *Experiment) FreshTokens(lock string) bool {
	x := e.EffectsOf(lock)
	return !e.Observed() || x != nil && x.Map.Token != "" || slices.ContainsFunc(e.System.Holder, func(h HolderSource) bool { return h.Log != nil })
}

// EffectsOf is where effects under a lock of an observed system are read; nil = nowhere.
func (e *Experiment) EffectsOf(lock string) *Effects {
	return find(e.System.Effects, func(x *Effects) bool { return x.Under() == lock })
}

// LastOnly reports a source that shows the last state of a job alone.
func (x *Effects) LastOnly() bool { return x.Overwrites || x.Hash != "" }

// Lines reports a source of lines.
func (x *Effects) Lines() bool { return x.File != "" || len(x.Command) > 0 || x.Log != "" }

// InRedis reports a source that is a key of a Redis.
func (x *Effects) InRedis() bool { return x.Stream != "" || x.List != "" || x.Hash != "" }

// Source says in a word or two where they are read.
func (x *Effects) Source() string {
	switch {
	case x.Stream != "":
		return "stream " + x.Stream
	case x.List != "":
		return "list " + x.List
	case x.Hash != "":
		return "hash " + x.Hash
	case x.SQL != nil:
		return "query of " + x.SQL.Driver
	case x.HTTP != nil:
		return "HTTP"
	case x.File != "":
		return "file " + x.File
	case len(x.Command) > 0:
		return "command " + x.Command[0]
	}
	return "logs of replicas"
}

// Ends reports a state that ends a job.
func (m *EffectMap) Ends(state string) bool { return slices.Contains(m.Terminal, state) }

// Begins reports a state that shows its writer at work.
func (m *EffectMap) Begins(state string) bool {
	if len(m.Begin) > 0 {
		return slices.Contains(m.Begin, state)
	}
	return !m.Ends(state)
}

// Columns are the columns that the map names.
func (m *EffectMap) Columns() []string {
	var all []string
	for _, c := range []string{m.Job, m.State, m.Op, m.Fence, m.Replica, m.Token, m.Key, m.Due, m.NotBefore, m.Traceparent} {
		if c != "" && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}
