package experiments

import (
	"cmp"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

var environmentName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// redis checks where the locks live.
func (c *checker) redis() {
	r := &c.e.Redis
	if r.Mode != RedisExternal {
		for _, f := range []struct {
			name string
			set  bool
		}{{"url", r.URL != ""}, {"username_env", r.UsernameEnv != ""}, {"password_env", r.PasswordEnv != ""}, {"ca", r.CA != ""}, {"allow", r.Allow != nil},
			{"cluster", r.Cluster}, {"sentinel", c.Node("redis.sentinel") != nil}, {"replica", r.Replica != ""}} {
			if f.set {
				c.Check("redis."+f.name, "is for mode external; mode %s starts a store of its own", r.Mode)
			}
		}
		return
	}
	if r.URL == "" && r.Sentinel == nil {
		c.Check("redis", "mode external needs the url of the Redis")
	}
	c.address("redis", &LedgerStore{URL: r.URL, UsernameEnv: r.UsernameEnv, PasswordEnv: r.PasswordEnv, CA: r.CA})
	c.servers(r)
}

// servers checks a Redis that is more than one server.
func (c *checker) servers(r *Redis) {
	const oneServer = "is for mode observe: lockdrill's workers take their locks at one server"
	for _, f := range []ours{
		{"redis.cluster", oneServer, r.Cluster && !c.e.Observed()},
		{"redis.sentinel", oneServer, r.Sentinel != nil && !c.e.Observed()},
		{"redis.replica", oneServer, r.Replica != "" && !c.e.Observed()},
		{"redis.url", "the Sentinels say where the primary is: leave the url out", r.Sentinel != nil && r.URL != ""},
		{"redis.sentinel", "a Redis Cluster has no Sentinels: leave one of them out", r.Sentinel != nil && r.Cluster},
		{"redis.replica", "looks go to the masters of a cluster: leave it out", r.Replica != "" && r.Cluster},
		{"redis.url", "a cluster has no numbered databases: leave the number out", r.Cluster && strings.Trim(pathOf(r.URL), "/0") != ""},
	} {
		c.refuse(f)
	}
	for i, word := range r.Allow {
		if r.Cluster && word != "monitor" {
			c.Check(vocab.At("redis.allow", i), "%s would be done to one server of the cluster and not to the others", word)
		}
	}
	c.redisURL("redis.replica", r.Replica)
	if r.Sentinel != nil {
		for i, u := range r.Sentinel.URLs {
			c.redisURL(vocab.At("redis.sentinel.urls", i), u)
		}
	}
}

func pathOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Path
}

// Check says what is wrong with the way to an external Redis; the error is of type Problems.
func (r *Redis) Check() error {
	f := vocabulary.Blank("--redis")
	(&checker{File: f, e: &Experiment{Redis: *r, System: System{Mode: ModeObserve}}}).redis()
	return f.Err()
}

// ledger checks where the ledger lives.
func (c *checker) ledger() {
	l := &c.e.Ledger
	if c.Node("ledger") != nil && l.URL == "" {
		c.Check("ledger", "needs the url of the Redis that keeps it; without a section, the run starts one of its own")
	}
	c.address("ledger", l)
	own, locks := hostOf(l.URL), hostOf(c.e.Redis.URL)
	if own != "" && own == locks {
		c.Check("ledger.url", "%s is the server of the locks as well: what befalls it would befall the witness; another database of one server is not enough", own)
	} else if k := c.e.Kubernetes; k != nil {
		own, locks = cmp.Or(strings.ToLower(k.Ledger), own), cmp.Or(strings.ToLower(k.Redis), locks)
		if own != "" && own == locks {
			c.Check("kubernetes.ledger", "%s is the server of the locks as well, as pods reach it: the ledger needs another", own)
		}
	}
}

// address checks how a Redis is reached. The words of a parser are not repeated: they quote the URL, and with it the password.
func (c *checker) address(path string, r *LedgerStore) {
	c.credentials(path, r.UsernameEnv, r.PasswordEnv)
	c.redisURL(path+".url", r.URL)
	if u, err := url.Parse(r.URL); r.CA != "" && r.URL != "" && err == nil && u.Scheme != "rediss" {
		c.Check(path+".ca", "is for TLS: write the url with rediss://")
	}
}

// credentials checks the names of the variables that hold user and password.
func (c *checker) credentials(path, username, password string) {
	for _, f := range []struct{ name, value string }{{"username_env", username}, {"password_env", password}} {
		if f.value != "" && !environmentName.MatchString(f.value) {
			c.Check(path+"."+f.name, "not the name of an environment variable: capital letters, digits and underscores")
		}
	}
}

// noUser is said where a URL has a user.
const noUser = "user and password do not stand in a file: say username_env and password_env, the names of environment variables that hold them"

// redisURL checks the URL of a server; "" = none is given.
func (c *checker) redisURL(path, raw string) {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
	case err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" || !database.MatchString(u.Path):
		c.Check(path, "not the url of a Redis: write it like redis://host:6379 or rediss://host:6379/2")
	case u.User != nil:
		c.Check(path, noUser)
	case u.RawQuery != "" || u.Fragment != "":
		c.Check(path, "takes no options: write it like redis://host:6379; a password comes by password_env")
	}
}

// hostOf is the host:port of a Redis by its URL; "" where that is none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

var database = regexp.MustCompile(`^(/[0-9]{0,4})?$`)

// proxy checks which Toxiproxy is used.
func (c *checker) proxy() {
	p := &c.e.Proxy
	c.route(p)
	if p.Mode != ProxyExternal {
		if p.URL != "" {
			c.Check("proxy.url", "is for mode external; mode %s brings its own", p.Mode)
		}
		return
	}
	u, err := url.Parse(p.URL)
	switch {
	case p.URL == "":
		c.Check("proxy", "mode external needs the url of the Toxiproxy's API")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		c.Check("proxy.url", "not the address of a Toxiproxy's API: write it like http://host:8474")
	case u.User != nil:
		c.Check("proxy.url", "user and password do not stand in a file: write it like http://host:8474")
	}
}

// route checks what is said of proxies that are somebody's own.
func (c *checker) route(p *Proxy) {
	for _, f := range []ours{
		{"proxy.route", "is for mode external: it names a proxy on a Toxiproxy that exists", p.Route != "" && p.Mode != ProxyExternal},
		{"proxy.route", "is for mode observe: the run makes the proxies of lockdrill's workers itself", p.Route != "" && !c.e.Observed()},
		{"proxy.route", "is the way to one server: clients of a cluster, or of Sentinels, ask for the addresses of the servers and go round it", p.Route != "" && (c.e.Redis.Cluster || c.e.Redis.Sentinel != nil)},
		{"proxy.api", "is for mode observe: the run has a proxy of its own on the way of lockdrill's workers", p.API != "" && !c.e.Observed()},
	} {
		c.refuse(f)
	}
	c.proxyAPI("proxy.api", p.API)
	if known := c.e.System.Processes; known != nil {
		c.template("proxy.route", p.Route, known.Known())
	}
}

// calendar checks when a run may be in progress.
func (c *checker) calendar() {
	for name, list := range map[string][]Window{"windows": c.e.Windows, "blackouts": c.e.Blackouts} {
		for i := range list {
			c.stretch(vocab.At(name, i), &list[i])
		}
	}
}

func (c *checker) stretch(path string, w *Window) {
	for _, t := range []struct{ name, value string }{{"from", w.From}, {"to", w.To}} {
		if _, err := time.Parse(clockLayout, t.value); t.value != "" && (err != nil || len(t.value) != len(clockLayout)) {
			c.Check(path+"."+t.name, "%q is no time of day: write it like \"09:00\"", t.value)
		}
	}
	switch {
	case (w.From == "") != (w.To == ""):
		c.Check(path, "needs both from and to, or neither: then it is the whole day")
	case w.From == "" && len(w.Days) == 0:
		c.Check(path, "says neither days nor hours")
	}
	c.zone(path+".zone", w.Zone)
}

// caps checks the limits against what the faults declare.
func (c *checker) caps() {
	e := c.e
	if declared := e.declaredKills(); e.Limits.MaxKills > 0 && e.Limits.MaxKills < declared {
		c.Check("limits.max_kills", "%d is under the %d kills that the faults declare", e.Limits.MaxKills, declared)
	}
	for i := range e.Faults {
		if f := &e.Faults[i]; e.Limits.MaxTargets > 0 && f.everybody() && e.Limits.MaxTargets < e.System.Replicas {
			c.Check("limits.max_targets", "%d is under the %d replicas that %s strikes", e.Limits.MaxTargets, e.System.Replicas, f.ID)
			break
		}
	}
}
