package experiments

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Metric is a number that is read before, during and after the faults: a Prometheus series, or what a key of the locks' store tells.
type Metric struct {
	Name   string            `rule:"ident,required,unless=preset,not=preset"`                                // how SLOs name it
	Preset string            `rule:"words=cordum"`                                                           // cordum: all metrics that the articles name; with scrape and every alone
	Scrape string            `rule:"required,format=scrape"`                                                 // replicas, locks (a key of their store), or the URL of an exposition
	Series string            `rule:"format=series,not=preset"`                                               // its name; of a histogram _sum, _count or _bucket
	Labels map[string]string `rule:"not=preset"`                                                             // only series with these
	Key    string            `rule:"for=scrape:locks,need=scrape:locks,not=preset"`                          // the key to look at
	Ask    string            `rule:"words=idle|length|exists,for=scrape:locks,need=scrape:locks,not=preset"` // idle (seconds since its use), length or exists (1 or 0)
	Every  time.Duration     `rule:"positive,default=1s,least=100ms" scale:"no"`                             // between scrapes; not scaled
	Asker
	Level bool `file:"-"` // it goes up and down: what a key tells, and what a server evaluates
}

// What is what is read, in a person's words.
func (m *Metric) What() string {
	switch m.Ask {
	case "":
		return m.Series
	case AskExists:
		return "existence of key " + m.Key
	case AskIdle:
		return "idle time of key " + m.Key
	}
	return "length of key " + m.Key
}

// presetMetrics are the series that the articles on locks in Redis name, and what SLOs call them.
func presetMetrics() []Metric {
	return []Metric{
		{Name: "job_lock_abandoned", Series: "cordum_scheduler_job_lock_abandoned_total"},
		{Name: "job_lock_waits", Series: "job_lock_wait_count"},
		{Name: "job_lock_wait_sum", Series: "job_lock_wait_sum"},
		{Name: "stale_jobs", Series: "stale_jobs"},
		{Name: "orphan_replayed", Series: "orphan_replayed_total"},
	}
}

// Scraped are the metrics that are scraped one by one: presets are written out.
func (p *Probes) Scraped() []Metric {
	var all []Metric
	for _, m := range p.Metrics {
		m.Level = m.Ask != ""
		if m.Preset == "" {
			all = append(all, m)
			continue
		}
		for _, of := range presetMetrics() {
			of.Scrape, of.Every, of.Asker = m.Scrape, m.Every, m.Asker
			all = append(all, of)
		}
	}
	return all
}

// Numbers are all that SLOs can name as a metric: what is scraped, and what a Prometheus server is asked for.
func (p *Probes) Numbers() []Metric {
	all := p.Scraped()
	for i := range p.PromQL {
		q := &p.PromQL[i]
		all = append(all, Metric{Name: q.Name, Scrape: q.URL, Series: q.Query, Every: q.Step, Level: q.Evaluated()})
	}
	return all
}

// Words of Metric.Scrape that are no URL.
const (
	ScrapeReplicas = "replicas" // every replica's own metrics
	ScrapeLocks    = "locks"    // a key of the locks' store
)

// What is asked of a key: words of Metric.Ask.
const (
	AskIdle   = "idle"   // OBJECT IDLETIME, in seconds; an absent key has none
	AskLength = "length" // bytes of a string, entries of anything else; 0 where it is absent
	AskExists = "exists" // 1 or 0
)

// MetricLimit bounds a metric: exactly one of Delta, Rate and Max is set.
type MetricLimit struct {
	_           struct{}        `rule:"one=delta|rate|max"`
	Name        string          `rule:"required,ref=metric"`       // of probes.metrics or probes.promql
	Delta       *Bound[float64] `rule:"shorthand"`                 // increase from the first fault to the end, over all targets
	Rate        *Bound[float64] `rule:"shorthand" scale:"inverse"` // increase a second; divided by time_scale
	Max         *Bound[float64] `rule:"shorthand"`                 // highest value of a target
	AbsentMeans string          `rule:"words=zero"`                // zero: a series that does not exist is 0; default: unknown
}

// Limit is the one that is set, and the word for it: delta, rate or max.
func (l *MetricLimit) Limit() (word string, limit *Bound[float64]) {
	switch {
	case l.Delta != nil:
		return "delta", l.Delta
	case l.Rate != nil:
		return "rate", l.Rate
	}
	return "max", l.Max
}

// metrics checks what is scraped.
func (c *checker) metrics() {
	names := map[string]string{}
	for path, m := range entries("probes.metrics", c.e.Probes.Metrics) {
		one := Probes{Metrics: []Metric{*m}}
		for _, of := range one.Scraped() {
			if !c.nameOnce(names, path, of.Name) {
				break // a preset's others are there as well
			}
		}
		c.metric(path, m)
	}
	for path, q := range entries("probes.promql", c.e.Probes.PromQL) {
		c.nameOnce(names, path, q.Name)
		q.check(c.File, path, q.URL)
	}
}

// nameOnce refuses the name of a metric that another one has.
func (c *checker) nameOnce(names map[string]string, path, name string) bool {
	if first, ok := names[name]; c.Refuse(ok && name != "", path+".name", "a second metric called %q: the first is %s", name, first) {
		return false
	}
	names[name] = path
	return true
}

// metric checks what one metric is, and where it is scraped.
func (c *checker) metric(path string, m *Metric) {
	if c.Refuse(m.Preset != "" && m.Scrape == ScrapeLocks, path+".scrape", "a preset is of expositions: replicas, or the address of one") || c.Invalid(path+".preset") {
		return
	}
	if m.Scrape == ScrapeLocks {
		if !c.Refuse(!c.e.InRedis(), path+".scrape", "locks asks a Redis, and the locks are in %s: scrape replicas, or an address", c.e.StoreKind()) {
			c.keyMetric(path, m)
		}
		return
	}
	p, theirs := c.e.System.Processes, m.Scrape == ScrapeReplicas
	c.Refuse(m.Preset == "" && m.Series == "" && c.sure(path+".scrape"), path+".series", "missing: the name of the series")
	_ = !c.sure("system.processes") || c.Refuse(theirs && c.e.Observed() && c.inPods(), path+".scrape", "nobody says where the observed pods serve metrics: the address of an exposition, or promql of the Prometheus that scrapes them") ||
		c.Refuse(theirs && c.inPods(), path+".scrape", "lockdrill's workers serve their metrics on the loopback of their pod, which the runner does not reach: the address of an exposition, such as a Prometheus federation's") ||
		c.Refuse(theirs && p != nil && p.Metrics == "", path+".scrape", "nobody says where the observed processes serve metrics: system.processes.metrics")
	at := m.Scrape
	if theirs && p != nil { // as its template says
		at = p.Metrics
	}
	m.check(c.File, path, at)
}

// keyMetric checks what is asked of a key of the locks' store.
func (c *checker) keyMetric(path string, m *Metric) {
	keys := len(c.e.System.Locks) == 0 || slices.ContainsFunc(c.e.System.Locks, func(l Lock) bool { return l.Lease == "" })
	_ = c.Refuse(!keys, path+".scrape", "the locks are Lease objects: there is no store of keys") ||
		c.Refuse(m.Series != "" || len(m.Labels) > 0, path, "series and labels are for expositions: of the locks' store say key and ask")
}

// metricLimit checks a promise about a metric.
func (c *checker) metricLimit(path string, l *MetricLimit) {
	if l == nil {
		return
	}
	if word, _ := l.Limit(); word != "max" && !c.Stored {
		if m := c.level(l.Name); m != nil {
			c.Check(path+"."+word, "%s goes up and down, and %s needs a counter: say max", m.What(), word)
		}
	}
}

// level is the metric of that name, where it is no counter for sure; nil = it may be one.
func (c *checker) level(name string) *Metric {
	for _, m := range c.e.Probes.Numbers() {
		own := m.Scrape == ScrapeReplicas && !c.e.Observed() && len(c.e.System.Worker) == 0
		if m.Name == name && (m.Level || own && slices.Contains(ownGauges, m.Series)) {
			return &m
		}
	}
	return nil
}

// ownGauges are those of lockdrill's own replicas.
var ownGauges = []string{"lockcore_holders", "lockcore_unowned"}

// metricNames are the names of what is read; with counters, without what is none for sure. Not known = one was lost to another problem.
func (c *checker) metricNames(counters bool) (names []string, known bool) {
	known = true
	for _, m := range c.e.Probes.Numbers() {
		if known = known && m.Name != ""; !slices.Contains(names, m.Name) && !(counters && m.Level) {
			names = append(names, m.Name)
		}
	}
	return names, known
}

// Query is what a Prometheus server has scraped of some series, sample by sample.
type Query struct {
	Name  string        `rule:"required,ident"`                                   // how SLOs name it
	Query string        `rule:"required,format=query"`                            // a selector, whose samples are read, or another expression, which the server evaluates
	Step  time.Duration `rule:"positive,default=15s,least=1s,most=5m" scale:"no"` // how often the server scrapes the series; a run whose server does so more seldom is refused
	PromServer
}

// PromServer is a server of somebody's own that speaks HTTP, and who asks it.
type PromServer struct {
	URL string `file:"url" rule:"required,format=server"` // address, without user and password
	Asker
}

// Asker is who asks a server of somebody's own that speaks HTTP, and how he knows that it is the right one.
type Asker struct {
	UsernameEnv string            `rule:"format=env"`                                   // variable with the user name
	PasswordEnv string            `rule:"format=env"`                                   // variable with the password
	BearerEnv   string            `rule:"format=env,not=username_env,not=password_env"` // variable with a bearer token
	Headers     map[string]string // headers of each question, such as X-Scope-OrgID
	HeadersEnv  map[string]string // headers whose values are in environment variables
	CA          string            `file:"ca" rule:"path,format=pem"`              // PEM file of the server's authority; default: the system's
	Cert        string            `rule:"path,format=pem:own"`                    // PEM file of the client certificate
	CertKey     string            `rule:"for=cert,need=cert,path,format=pem:own"` // PEM file of its key
}

// Variables are the names of the environment variables that the asker needs.
func (a *Asker) Variables() []string {
	names := slices.Collect(maps.Values(a.HeadersEnv))
	for _, name := range []string{a.UsernameEnv, a.PasswordEnv, a.BearerEnv} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Authorities are the paths of all files of authorities that an experiment names, Own those of certificates and keys of the runner's own, and
// Files those of all files.
func (e *Experiment) Authorities() []*string { return vocabulary.Paths(e, "pem") }
func (e *Experiment) Own() []*string         { return vocabulary.Paths(e, "pem:own") }
func (e *Experiment) Files() []*string       { return vocabulary.Paths(e, "") }

// check refuses an authority for a server that is not asked by TLS, and headers that are none or that would show a secret.
func (a *Asker) check(c *vocab.File, path, address string) {
	for name, file := range map[string]string{"ca": a.CA, "cert": a.Cert} {
		c.Refuse(file != "" && address != "" && !strings.HasPrefix(address, "https://"), path+"."+name, "is for https")
	}
	for _, headers := range []struct {
		field string
		named map[string]string
	}{{"headers", a.Headers}, {"headers_env", a.HeadersEnv}} {
		for _, name := range slices.Sorted(maps.Keys(headers.named)) {
			at, value := path+"."+headers.field, headers.named[name]
			_ = c.Refuse(!header.MatchString(name), at, "%q is no name of a header", name) ||
				c.Refuse(headers.field == "headers" && secretHeader.MatchString(name), at, "%s says who asks: name the environment variable that holds it in headers_env, or say bearer_env, or username_env and password_env", name) ||
				c.Refuse(headers.field == "headers_env" && !environmentName.MatchString(value), at, "what stands at %s is not the name of an environment variable: capital letters, digits and underscores", name) ||
				c.Refuse(strings.ContainsAny(value, "\r\n"), at, "%s has the end of a line in it", name)
		}
	}
}

var (
	header       = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	secretHeader = regexp.MustCompile(`(?i)auth|cookie|token|secret|passw|key`)
)

// Evaluated reports a query that the server evaluates; of a selector it tells the samples, as it has scraped them.
func (q *Query) Evaluated() bool { return !selector.MatchString(strings.TrimSpace(q.Query)) }

var (
	matcher  = `\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*` + text + `\s*`
	text     = `(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`[^`]*`" + `)`
	matchers = `\{(?:` + matcher + `(?:,` + matcher + `)*,?\s*)?\}`
	selector = regexp.MustCompile(`^(?:[a-zA-Z_:][a-zA-Z0-9_:]*)?\s*(?:` + matchers + `)?$`)
	literal  = regexp.MustCompile(matchers + `|` + text)
	ranged   = regexp.MustCompile(`\[[^\]]*\]$`)
	modified = regexp.MustCompile(`\s(?:offset\s+[^\s)]+|@\s*[^\s)]+)$`)
)

// noQuery says why a query gives no numbers of the instant at which it is asked, or, where any instant will do, none at all; "" = it may. The
// rest of its grammar is the server's.
func noQuery(query string, any bool) string {
	query = strings.TrimSpace(query)
	bare := literal.ReplaceAllString(query, "")
	switch {
	case strings.Trim(query, "{} ") == "":
		return "asks for nothing: name a series, as in stale_jobs{app=\"sched\"}"
	case !any && modified.MatchString(bare):
		return "has an offset or a time of its own: the run asks for what is there now"
	case strings.Count(bare, "(") != strings.Count(bare, ")") || strings.Count(bare, "[") != strings.Count(bare, "]"):
		return "has a bracket without the other"
	case ranged.MatchString(bare):
		return "has a range: of a selector the run reads all samples, so leave [...] out; else put a function around it, as in max_over_time(...)"
	case strings.ContainsAny(bare, "{}\"'`"):
		return "has braces without matchers, or a text that does not end: write them like stale_jobs{app=\"sched\"}"
	}
	return ""
}
