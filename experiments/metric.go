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
	Name   string            `rule:"ident"`         // how SLOs name it
	Preset string            `rule:"words=cordum"`  // cordum: all metrics that the articles name; with scrape and every alone
	Scrape string            `rule:"required"`      // replicas, locks (a key of their store), or the URL of an exposition
	Series string            `rule:"format=series"` // its name; of a histogram _sum, _count or _bucket
	Labels map[string]string // only series with these
	Key    string            // of locks: the key to look at
	Ask    string            `rule:"words=idle|length|exists"`                   // of locks: idle (seconds since its use), length or exists (1 or 0)
	Every  time.Duration     `rule:"positive,default=1s,least=100ms" scale:"no"` // between scrapes; not scaled
	Asker
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
		all = append(all, Metric{Name: q.Name, Scrape: q.URL, Series: q.Query, Every: q.Step})
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
	for i := range c.e.Probes.Metrics {
		m, path := &c.e.Probes.Metrics[i], vocab.At("probes.metrics", i)
		one := Probes{Metrics: []Metric{*m}}
		for _, of := range one.Scraped() {
			if !c.nameOnce(names, path, of.Name) {
				break // a preset's others are there as well
			}
		}
		c.metric(path, m)
	}
	for i := range c.e.Probes.PromQL {
		q, path := &c.e.Probes.PromQL[i], vocab.At("probes.promql", i)
		c.nameOnce(names, path, q.Name)
		q.check(c.File, path, q.URL)
	}
}

// nameOnce refuses the name of a metric that another one has.
func (c *checker) nameOnce(names map[string]string, path, name string) bool {
	if first, ok := names[name]; ok && name != "" {
		c.Check(path+".name", "a second metric called %q: the first is %s", name, first)
		return false
	}
	names[name] = path
	return true
}

// metric checks what one metric is, and where it is scraped.
func (c *checker) metric(path string, m *Metric) {
	switch {
	case m.Preset != "" && (m.Name != "" || m.Series != "" || len(m.Labels) > 0 || m.Key != "" || m.Ask != ""):
		c.Check(path, "preset brings names and series along: beside it stand only scrape and every")
		return
	case m.Preset != "" && m.Scrape == ScrapeLocks:
		c.Check(path+".scrape", "a preset is of expositions: replicas, or the address of one")
		return
	case c.Invalid(path + ".preset"):
		return
	case m.Preset == "" && m.Name == "" && !c.Invalid(path):
		c.Check(path+".name", "missing")
	}
	if m.Scrape == ScrapeLocks {
		if !c.e.InRedis() {
			c.Check(path+".scrape", "locks asks a Redis, and the locks are in %s: scrape replicas, or an address", c.e.StoreKind())
			return
		}
		c.keyMetric(path, m)
		return
	}
	switch {
	case m.Preset != "":
	case m.Key != "" || m.Ask != "":
		c.Check(path, "key and ask are for scrape: locks")
	case m.Series == "":
		c.Check(path+".series", "missing: the name of the series")
	}
	p := c.e.System.Processes
	switch {
	case m.Scrape == ScrapeReplicas && c.e.Observed() && c.inPods():
		c.Check(path+".scrape", "nobody says where the observed pods serve metrics: the address of an exposition, or promql of the Prometheus that scrapes them")
	case m.Scrape == ScrapeReplicas && c.inPods():
		c.Check(path+".scrape", "lockdrill's workers serve their metrics on the loopback of their pod, which the runner does not reach: the address of an exposition, such as a Prometheus federation's")
	case m.Scrape == ScrapeReplicas && p != nil && p.Metrics == "":
		c.Check(path+".scrape", "nobody says where the observed processes serve metrics: system.processes.metrics")
	}
	m.check(c.File, path, m.Scrape)
	if m.Scrape != ScrapeReplicas {
		httpAddress(c.File, path+".scrape", m.Scrape, "neither replicas nor locks nor the address of an exposition: write it like http://127.0.0.1:9121/metrics")
		openAddress(c.File, path+".scrape", m.Scrape)
	}
}

// httpAddress checks an address. As with redis.url, the parser's own words might quote a password.
func httpAddress(f *vocab.File, path, address, wrong string) {
	if !isHTTP(address) {
		f.Check(path, "%s", wrong)
	}
}

// openAddress refuses an address with what looks like a secret: it stands in the history and in messages.
func openAddress(f *vocab.File, path, address string) {
	if vocab.Redact(address) != address {
		f.Check(path, secretInside)
	}
}

// keyMetric checks what is asked of a key of the locks' store.
func (c *checker) keyMetric(path string, m *Metric) {
	leases := len(c.e.System.Locks) > 0
	for i := range c.e.System.Locks {
		leases = leases && c.e.System.Locks[i].Lease != ""
	}
	switch {
	case leases:
		c.Check(path+".scrape", "the locks are Lease objects: there is no store of keys")
	case m.Series != "" || len(m.Labels) > 0:
		c.Check(path, "series and labels are for expositions: of the locks' store say key and ask")
	case m.Key == "":
		c.Check(path+".key", "missing: the key that is looked at")
	case m.Ask == "":
		c.Check(path+".ask", "missing: idle, length or exists")
	}
}

// metricLimit checks a promise about a metric.
func (c *checker) metricLimit(path string, l *MetricLimit) {
	if l == nil {
		return
	}
	switch n := len(vocabulary.Given(l)); {
	case n == 0:
		c.Check(path, "no limit: delta, rate or max")
	case n > 1:
		c.Check(path, "has more than one limit: an SLO has one of delta, rate and max")
	}
	at := slices.IndexFunc(c.e.Probes.Metrics, func(m Metric) bool { return m.Name == l.Name && m.Ask != "" })
	if word, _ := l.Limit(); at >= 0 && word != "max" && !c.recorded {
		c.Check(path+"."+word, "the %s goes up and down, and %s needs a counter: say max", c.e.Probes.Metrics[at].What(), word)
	}
	for _, b := range []*Bound[float64]{l.Delta, l.Rate, l.Max} {
		if b == nil {
			continue
		}
		for _, v := range []*float64{b.Max, b.Min, b.Exactly} {
			if v != nil && *v > maxMetric {
				c.Check(path, "a limit above %g is none", float64(maxMetric))
			}
		}
	}
}

// metricNames are the names of what is read.
func (c *checker) metricNames() (known []string) {
	for _, m := range c.e.Probes.Numbers() {
		if m.Name != "" && !slices.Contains(known, m.Name) {
			known = append(known, m.Name)
		}
	}
	return known
}

// maxMetric bounds limits: what is measured is kept in billionths.
const maxMetric = 9e9

// Query is what a Prometheus server has scraped of some series, sample by sample.
type Query struct {
	Name  string        `rule:"required,ident"`                                   // how SLOs name it
	Query string        `rule:"required,format=selector"`                         // a selector, without function, range or offset
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
		c.Refuse(vocab.Constraint{At: path + "." + name, Says: "is for https", Broken: file != "" && !strings.HasPrefix(address, "https://")})
	}
	for _, headers := range []struct {
		field string
		named map[string]string
	}{{"headers", a.Headers}, {"headers_env", a.HeadersEnv}} {
		for _, name := range slices.Sorted(maps.Keys(headers.named)) {
			at, value := path+"."+headers.field, headers.named[name]
			switch {
			case !header.MatchString(name):
				c.Check(at, "%q is no name of a header", name)
			case headers.field == "headers" && secretHeader.MatchString(name):
				c.Check(at, "%s says who asks: name the environment variable that holds it in headers_env, or say bearer_env, or username_env and password_env", name)
			case headers.field == "headers_env" && !environmentName.MatchString(value):
				c.Check(at, "%s: not the name of an environment variable: capital letters, digits and underscores", name)
			case strings.ContainsAny(value, "\r\n"):
				c.Check(at, "%s has the end of a line in it", name)
			}
		}
	}
}

var (
	header       = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	secretHeader = regexp.MustCompile(`(?i)auth|cookie|token|secret|passw|key`)
)

var (
	matcher  = `\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`[^`]*`" + `)\s*`
	selector = regexp.MustCompile(`^(?:[a-zA-Z_:][a-zA-Z0-9_:]*)?\s*(?:\{(?:` + matcher + `(?:,` + matcher + `)*,?\s*)?\})?$`)
	ranged   = regexp.MustCompile(`\[[^\]]*\]\s*$`)
	modified = regexp.MustCompile(`\s(?:offset\s.*|@\s*\S+)$`)
)

// notSelector says why a query is no selector, or "".
func notSelector(query string) string {
	text := strings.TrimSpace(query)
	switch {
	case modified.MatchString(text):
		return "an offset or a time of its own"
	case ranged.MatchString(text):
		return "the range is chosen by the run: leave [...] out"
	case strings.ContainsAny(text, "()") && !selector.MatchString(text):
		return "a function or an aggregation"
	case !selector.MatchString(text) || strings.Trim(text, "{} ") == "":
		return "no selector"
	}
	return ""
}
