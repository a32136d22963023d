package experiments

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// HolderSource is one way to find out which replica holds a key of an observed system. Exactly one field is set.
type HolderSource struct {
	Value   *HolderValue   // what stands in the key
	Client  *HolderClient  // the connection that renews the key
	Proxy   *HolderProxy   // a lockdrill proxy that the replicas' route goes through
	Log     *HolderLog     // a line of a replica's log
	Metric  *HolderMetric  // a gauge that is 1 of the holder
	Command *HolderCommand // a command of the user's
}

// HolderValue finds a replica's name in the value of the key: the whole value, or a part of it.
type HolderValue struct {
	Field   string // of a value that is a JSON object; a.b is field b of its field a
	Pattern string `rule:"pattern"` // RE2 whose group holder is the name
	Is      string // template of the name, with * for anything; left out: the name begins with what the replica is called
}

// HolderClient finds the connection that renews a key in windows of MONITOR, and the process, or the pod, at its other end.
type HolderClient struct {
	Window   time.Duration `rule:"positive,default=2s" scale:"no"`      // the longest one
	Commands int           `rule:"min=1000,max=10000000,default=50000"` // that the server may tell in one window
	Is       string        // template of the connection's name in CLIENT LIST, for connections from elsewhere
}

// HolderProxy asks a lockdrill proxy, by its API, which connection carried the token.
type HolderProxy struct {
	API string `file:"api" rule:"required"` // http://127.0.0.1:PORT, or unix:PATH
	Is  string // template of the name that it listens under for that replica; left out: the process or pod that has the connection
}

// HolderLog finds a line in a replica's log that says that it acquired the key with its present token.
type HolderLog struct {
	Pattern string `rule:"required,pattern"` // RE2 with the groups key and token
}

// HolderMetric finds the replica of which a gauge is above 0.
type HolderMetric struct {
	URL    string            `file:"url"`      // address of the exposition, a template; left out: that of system.processes.metrics
	Series string            `rule:"required"` // name of the series
	Labels map[string]string // only series that carry these; templates, of the replica and of {key} and {lock}
}

// HolderCommand runs a command that prints the holder's name or pid.
type HolderCommand struct {
	Run    []string      `rule:"required"`                       // program and arguments; templates of {key}, {lock} and {epoch}
	Within time.Duration `rule:"positive,default=2s" scale:"no"` // it is ended after so long
}

// Words of sources, as looks and reports have them.
const (
	HolderByValue   = "value"
	HolderByClient  = "client"
	HolderByProxy   = "proxy"
	HolderByLog     = "log"
	HolderByMetric  = "metric"
	HolderByCommand = "command"
)

// Word is the source's.
func (h *HolderSource) Word() string {
	switch {
	case h.Value != nil:
		return HolderByValue
	case h.Client != nil:
		return HolderByClient
	case h.Proxy != nil:
		return HolderByProxy
	case h.Log != nil:
		return HolderByLog
	case h.Metric != nil:
		return HolderByMetric
	}
	return HolderByCommand
}

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

// The longest that a source may take: a shot waits for it.
const (
	longestWindow  = 10 * time.Second
	longestCommand = 4 * time.Second
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
	if len(e.System.Holder) > 0 && !e.Observed() {
		c.Check(path, "is for mode observe: lockdrill's workers say what they hold")
		return
	}
	if !e.Observed() {
		return
	}
	if e.Kubernetes != nil && e.Kubernetes.Holder != nil && len(e.System.Holder) > 0 && !e.hasLease() {
		c.Check("kubernetes.holder", "leads from a name to its pod, and system.holder says that too: leave one out")
	}
	for i := range e.System.Holder {
		if h := &e.System.Holder[i]; !c.Invalid(vocab.At(path, i)) {
			c.holderSource(vocab.At(path, i), h)
		}
	}
	if len(e.System.Holder) > 0 && !c.Invalid(path) {
		c.holderKnown()
	}
}

// nameless checks that something leads from a key to the process that holds it.
func (c *checker) nameless(p *Processes) {
	if len(c.e.System.Holder) == 0 && !slices.Contains(p.Known(), KnownName) {
		c.Check("system.processes", "nothing leads from a key to the process that holds it: say {name} (match: a group called name) where the values of keys begin with that name, else how to find out, under system.holder")
	}
}

func (e *Experiment) hasLease() bool {
	return slices.ContainsFunc(e.System.Locks, func(l Lock) bool { return l.Lease != "" })
}

// holderKnown checks that some source can name the holder of each lock: a connection is found by the renewals that it sends.
func (c *checker) holderKnown() {
	for i := range c.e.System.Holder {
		if c.e.System.Holder[i].Client == nil {
			return
		}
	}
	for i := range c.e.System.Locks {
		if l := &c.e.System.Locks[i]; l.Lease == "" && l.Policy.RenewEvery == 0 {
			c.Check(vocab.At("system.locks", i), "no source of system.holder can say who holds lock %s: client finds the connection that renews, and this lock is not renewed; add another source, such as log or value", l.Name)
		}
	}
}

// holderSource checks one of them.
func (c *checker) holderSource(path string, h *HolderSource) {
	var given []string
	for _, s := range []struct {
		word string
		set  bool
	}{{HolderByValue, h.Value != nil}, {HolderByClient, h.Client != nil}, {HolderByProxy, h.Proxy != nil}, {HolderByLog, h.Log != nil},
		{HolderByMetric, h.Metric != nil}, {HolderByCommand, h.Command != nil}} {
		if s.set {
			given = append(given, s.word)
		}
	}
	switch {
	case len(given) == 0:
		c.Check(path, "is no source: one of value, client, proxy, log, metric and command")
	case len(given) > 1:
		c.Check(path, "has %s: one source an entry, in the order in which they are tried", strings.Join(given, " and "))
	case h.Value != nil:
		c.holderValue(path+".value", h.Value)
	case h.Client != nil:
		c.holderClient(path+".client", h.Client)
	case h.Proxy != nil:
		c.holderProxy(path+".proxy", h.Proxy)
	case h.Log != nil:
		c.holderLog(path+".log", h.Log)
	case h.Metric != nil:
		c.holderMetric(path+".metric", h.Metric)
	default:
		c.holderCommand(path+".command", h.Command)
	}
}

func (c *checker) holderValue(path string, v *HolderValue) {
	if v.Field != "" && v.Pattern != "" {
		c.Check(path, "has field and pattern: exactly one of them, or neither, where the whole value is the name")
	}
	c.groups(path+".pattern", v.Pattern, "holder")
	c.nameTemplate(path, v.Is)
}

// nameTemplate checks how a name leads to a replica.
func (c *checker) nameTemplate(path, is string) {
	words := c.e.replicaWords()
	switch {
	case is == "" && !slices.Contains(words, KnownName):
		c.Check(path, "can name no replica: none has a {name}. Say what differs with is, such as is: \"{%s}\"", words[0])
	case is != "" && len(Placeholders(is)) == 0:
		c.Check(path+".is", "%q is the same for every replica: say what differs, such as \"{%s}\"", is, words[0])
	default:
		c.template(path+".is", is, words)
	}
}

func (c *checker) holderClient(path string, h *HolderClient) {
	if !slices.Contains(c.e.Redis.Allow, AllowMonitor) {
		c.Check(path, "needs redis: {allow: [monitor]}: MONITOR shows every value to whoever can read the runner's memory, and costs the server up to a fifth of its throughput while it lasts")
	}
	if c.e.Redis.Cluster || c.e.Redis.Sentinel != nil {
		c.Check(path, "watches one server, by redis.url: in a cluster keys are on several, and behind Sentinels the server changes. Take another source")
	}
	if h.Window > longestWindow {
		c.Check(path+".window", "%s is over %s: a window is a burden to the server", figures.Spell(h.Window), figures.Spell(longestWindow))
	}
	if h.Is != "" {
		c.nameTemplate(path, h.Is)
	}
}

func (c *checker) holderProxy(path string, h *HolderProxy) {
	c.proxyAPI(path+".api", h.API)
	if h.Is != "" {
		c.nameTemplate(path, h.Is)
	}
}

func (c *checker) proxyAPI(path, api string) {
	u, err := url.Parse(api)
	switch {
	case api == "" || strings.HasPrefix(api, "unix:"):
	case err == nil && u.User != nil:
		c.Check(path, "has a user: the API of a lockdrill proxy asks for none")
	case err != nil || u.Host == "" || u.Scheme != "http":
		c.Check(path, "%q is no address of a proxy's API: write it like http://127.0.0.1:6381, or unix:/run/lockdrill.sock, as lockdrill proxy --api has it", api)
	}
}

func (c *checker) holderLog(path string, h *HolderLog) {
	c.groups(path+".pattern", h.Pattern, "key", "token")
	if p := c.e.System.Processes; p != nil && p.Log == "" {
		c.Check(path, "reads the logs of the replicas, and system.processes.log does not say where they are")
	}
}

// groups checks a pattern and the groups that it needs.
func (c *checker) groups(path, pattern string, needs ...string) {
	if pattern == "" {
		return
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		c.Check(path, "no regular expression: %v", err)
		return
	}
	for _, name := range needs {
		if !slices.Contains(re.SubexpNames(), name) {
			c.Check(path, "has no group called %s: write (?P<%s>\\S+) where it stands", name, name)
		}
	}
}

func (c *checker) holderMetric(path string, h *HolderMetric) {
	c.openAddress(path+".url", h.URL)
	words, address, word := c.e.replicaWords(), h.URL, path+".url"
	if p := c.e.System.Processes; address == "" && p != nil {
		address, word = p.Metrics, "system.processes.metrics"
	}
	if address == "" {
		c.Check(path+".url", "missing: the address of the exposition; or, of processes, system.processes.metrics")
		return
	}
	if word == path+".url" {
		c.template(word, address, words)
		if u, err := url.Parse(placeholder.ReplaceAllString(address, "1")); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			c.Check(word, "no address of an exposition: write it like http://127.0.0.1:9121/metrics")
		}
	}
	if h.Series != "" && !seriesName.MatchString(h.Series) {
		c.Check(path+".series", "%q is no name of a series; labels go under labels", h.Series)
	}
	differs := len(Placeholders(address)) > 0
	for name, value := range h.Labels {
		c.template(vocab.Join(path+".labels", name), value, slices.Concat(words, []string{AboutKey, AboutLock}))
		differs = differs || slices.ContainsFunc(Placeholders(value), func(w string) bool { return slices.Contains(words, w) })
	}
	if !differs && !c.Invalid(path) {
		c.Check(path, "cannot tell one replica from another: neither its address nor a label says which, such as labels: {pod: \"{%s}\"}", words[0])
	}
}

func (c *checker) holderCommand(path string, h *HolderCommand) {
	for i, word := range h.Run {
		c.template(vocab.At(path+".run", i), word, []string{AboutKey, AboutLock, AboutEpoch})
	}
	if h.Within > longestCommand {
		c.Check(path+".within", "%s is over %s: each shot waits for it", figures.Spell(h.Within), figures.Spell(longestCommand))
	}
}
