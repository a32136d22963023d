package experiments

import (
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// HolderSource is one way to find out which replica holds a key of an observed system. Exactly one field is set.
type HolderSource struct {
	_       struct{}       `rule:"one=value|client|proxy|log|metric|command"`
	Value   *HolderValue   // what stands in the key
	Client  *HolderClient  // the connection that renews the key
	Proxy   *HolderProxy   // a lockdrill proxy on the replicas' route
	Log     *HolderLog     // a line of a replica's log
	Metric  *HolderMetric  // a gauge, 1 of the holder
	Command *HolderCommand // a command of yours, which prints the holder
}

// HolderValue finds a replica's name in the value of the key: the whole value, or a part of it.
type HolderValue struct {
	Field   string // of a JSON value; a.b is field b of a
	Pattern string `rule:"pattern,format=regexp:holder,not=field"` // RE2 whose group holder is the name
	Is      string `rule:"format=name"`                            // template of the name, with *; default: it begins with the replica's name
}

// HolderClient finds the connection that renews a key in windows of MONITOR, and the process, or the pod, at its other end.
type HolderClient struct {
	Window   time.Duration `rule:"positive,default=2s,most=10s" scale:"no"` // the longest window
	Commands int           `rule:"min=1000,max=10000000,default=50000"`     // most commands that the server tells in a window
	Is       string        `rule:"format=name"`                             // template of the name in CLIENT LIST, for connections from elsewhere
}

// HolderProxy asks a lockdrill proxy, by its API, which connection carried the token.
type HolderProxy struct {
	API string `file:"api" rule:"required,format=proxy"` // http://127.0.0.1:PORT or unix:PATH
	Is  string `rule:"format=name"`                      // template of its listener for that replica; default: the process or pod with the connection
}

// HolderLog finds a line in a replica's log that says that it acquired the key with its present token.
type HolderLog struct {
	Pattern string `rule:"required,pattern,format=regexp:key+token"` // RE2 with the groups key and token
}

// HolderMetric finds the replica of which a gauge is above 0.
type HolderMetric struct {
	URL    string            `file:"url" rule:"format=exposition"` // template of the exposition; default: system.processes.metrics
	Series string            `rule:"required,format=series"`       // name of the series
	Labels map[string]string // only series with these; templates of the replica, {key}, {lock}
}

// HolderCommand runs a command that prints the holder's name or pid.
type HolderCommand struct {
	Run    []string      `rule:"required,format=template:about"`         // program and arguments; templates with {key}, {lock}, {epoch}
	Within time.Duration `rule:"positive,default=2s,most=4s" scale:"no"` // its limit
}

// Words of sources that beliefs have as well.
const (
	HolderByLog    = "log"
	HolderByMetric = "metric"
)

// AllowMonitor is the word of redis.allow that lets a run look at the server's commands: whoever can read its memory sees values.
const AllowMonitor = "monitor"

// KnownPod and KnownIP are known of pods.
const (
	KnownPod = "pod"
	KnownIP  = "ip"
)

// Words of templates about a key.
const (
	AboutKey   = "key"
	AboutLock  = "lock"
	AboutEpoch = "epoch" // the fingerprint of its token
)

// replicaWords are the words that templates about an observed replica may use.
func (e *Experiment) replicaWords() []string {
	if e.System.Processes != nil {
		return e.System.Processes.Known()
	}
	return []string{KnownName, KnownPod, KnownIP}
}

// holders checks the sources that say who holds.
func (c *checker) holders() {
	const path = "system.holder"
	e := c.e
	if !e.Observed() {
		return
	}
	c.Refuse(e.Kubernetes != nil && e.Kubernetes.Holder != nil && len(e.System.Holder) > 0 && !e.hasLease(), "kubernetes.holder", "leads from a name to its pod, and system.holder says that too: leave one out")
	for at, h := range entries(path, e.System.Holder) {
		if c.sure(at, "redis", "system.processes") && len(vocabulary.Given(h)) == 1 {
			c.holderSource(at, h)
		}
	}
	if len(e.System.Holder) > 0 && !c.Refuse(c.lockless(), path, "says who holds a key, and no lock has one: leave it out") && !c.Invalid(path) {
		c.holderKnown()
	}
}

// lockless reports effects alone: nobody holds anything.
func (c *checker) lockless() bool {
	names, known := c.lockNames()
	return len(names) == 0 && known
}

func (e *Experiment) hasLease() bool {
	return slices.ContainsFunc(e.System.Locks, func(l Lock) bool { return l.Lease != "" })
}

// holderKnown checks that some source can name the holder of each lock: a connection is found by the renewals that it sends.
func (c *checker) holderKnown() {
	if slices.ContainsFunc(c.e.System.Holder, func(h HolderSource) bool { return h.Client == nil }) {
		return
	}
	for at, l := range entries("system.locks", c.e.System.Locks) {
		c.Refuse(l.Lease == "" && l.Policy.RenewEvery == 0, at, "no source of system.holder can say who holds lock %s: client finds the connection that renews, and this lock is not renewed; add another source, such as log or value", l.Name)
	}
}

// holderSource checks what one of them needs of the rest of the file.
func (c *checker) holderSource(path string, h *HolderSource) {
	switch {
	case h.Value != nil:
		words := c.e.replicaWords()
		c.Refuse(h.Value.Is == "" && !slices.Contains(words, KnownName), path+".value", "can name no replica: none has a {name}. Say what differs with is, such as is: \"{%s}\"", words[0])
	case h.Client != nil:
		c.Refuse(!slices.Contains(c.e.Redis.Allow, AllowMonitor), path+".client", "needs redis: {allow: [monitor]}: MONITOR shows every value to whoever can read the runner's memory, and costs the server up to a fifth of its throughput while it lasts")
		c.Refuse(c.e.Redis.Cluster || c.e.Redis.Sentinel != nil, path+".client", "watches one server, by redis.url: in a cluster keys are on several, and behind Sentinels the server changes. Take another source")
	case h.Log != nil:
		p := c.e.System.Processes
		c.Refuse(p != nil && p.Log == "", path+".log", "reads the logs of the replicas, and system.processes.log does not say where they are")
	case h.Metric != nil:
		c.holderMetric(path+".metric", h.Metric)
	}
}

func (c *checker) holderMetric(path string, h *HolderMetric) {
	words, address := c.e.replicaWords(), h.URL
	if p := c.e.System.Processes; address == "" && p != nil {
		address = p.Metrics
	}
	if c.Refuse(address == "", path+".url", "missing: the address of the exposition; or, of processes, system.processes.metrics") {
		return
	}
	differs := len(Placeholders(address)) > 0
	for name, value := range h.Labels {
		why := templateOf(value, slices.Concat(words, []string{AboutKey, AboutLock}))
		c.Refuse(why != "", vocab.Join(path+".labels", name), "%s", why)
		differs = differs || why != "" || slices.ContainsFunc(Placeholders(value), func(w string) bool { return slices.Contains(words, w) })
	}
	c.Refuse(!differs && !c.Invalid(path), path, "cannot tell one replica from another: neither its address nor a label says which, such as labels: {pod: \"{%s}\"}", words[0])
}
