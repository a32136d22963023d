package experiments

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Query is what a Prometheus server has scraped of some series, sample by sample.
type Query struct {
	Name  string        `rule:"required,ident"`                  // how SLOs name it
	Query string        `rule:"required"`                        // a selector: a name, matchers, or both
	Step  time.Duration `rule:"positive,default=15s" scale:"no"` // how often the server scrapes the series
	PromServer
}

// PromServer is a server of somebody's own that speaks HTTP, and who asks it.
type PromServer struct {
	URL         string `file:"url" rule:"required"` // address of the server, without user and password
	UsernameEnv string // name of the environment variable that holds the user name
	PasswordEnv string // name of the environment variable that holds the password
	BearerEnv   string // name of the environment variable that holds a bearer token
	CA          string `file:"ca"` // PEM file of the authority that signed the server's certificate, beside the experiment's file; default: the system's
}

const (
	minStep = time.Second
	maxStep = 5 * time.Minute // what is scraped more seldom is stale for the server itself
)

// promql checks what a server is asked for.
func (c *checker) promql(path string, q *Query) {
	if c.Invalid(path) {
		return
	}
	c.promServer(path, &q.PromServer)
	if why := notSelector(q.Query); why != "" {
		c.Check(path+".query", "%s: samples are read as they were scraped, so a selector is wanted, like stale_jobs{app=\"sched\"}; the SLO says delta, rate or max", why)
	}
	if q.Step < minStep || q.Step > maxStep {
		c.Check(path+".step", "%s: how often the server scrapes the series, between %s and %s", figures.Spell(q.Step), figures.Spell(minStep), figures.Spell(maxStep))
	}
}

// promServer checks where a server is, and what it is told of who asks.
func (c *checker) promServer(path string, q *PromServer) {
	c.httpAddress(path+".url", q.URL, "no address of a Prometheus server: write it like http://prometheus.monitoring:9090")
	if u, err := url.Parse(q.URL); err == nil && (u.User != nil || u.RawQuery != "") {
		c.Check(path+".url", "has a user, a password or a query in it, and would be written down: only the server's address; username_env, password_env and bearer_env say who asks")
	}
	if q.CA != "" && !strings.HasPrefix(q.URL, "https://") {
		c.Check(path+".ca", "is for https")
	}
	for _, f := range []struct{ name, value string }{{"username_env", q.UsernameEnv}, {"password_env", q.PasswordEnv}, {"bearer_env", q.BearerEnv}} {
		if f.value != "" && !environmentName.MatchString(f.value) {
			c.Check(path+"."+f.name, "not the name of an environment variable: capital letters, digits and underscores")
		}
	}
	if q.BearerEnv != "" && (q.UsernameEnv != "" || q.PasswordEnv != "") {
		c.Check(path+".bearer_env", "stands beside a user: a server is told one of the two")
	}
}

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
