package experiments

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// redis checks where the locks live.
func (c *checker) redis() {
	r := &c.e.Redis
	if r.Mode != RedisExternal {
		return
	}
	c.Refuse(!r.Cluster && len(r.Servers()) > 1 && c.sure("redis.cluster"), "redis.url", "names several servers, which only those of a cluster can be: say cluster: true, or name one")
	c.Refuse(r.Cluster && slices.ContainsFunc(r.Servers(), func(url string) bool { return strings.Trim(pathOf(url), "/0") != "" }), "redis.url", "a cluster has no numbered databases: leave the number out")
	c.Refuse(r.Cluster && strings.HasPrefix(hostOf(r.URL), "/"), "redis.url", "is a socket, and the servers of a cluster are reached by their ports")
	c.Refuse(c.inPods() && !c.e.Observed() && strings.HasPrefix(r.URL, "unix:"), "redis.url", "is a socket of this host, which pods do not reach")
	c.secured("redis", r.URL, r.CA, r.Cert)
	for i, word := range r.Allow {
		at, over := vocab.At("redis.allow", i), word == string(fault.StoreFailover)
		c.Refuse(r.Cluster && word != AllowMonitor && !over, at, "%s would be done to one server of the cluster and not to the others", word)
		c.Refuse(over && r.Sentinel == nil && !r.Cluster && c.sure("redis.sentinel", "redis.cluster") && !c.Stored, at, "is of Sentinels, and of a cluster: a server that stands alone has nobody to fail over to; leave it out")
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
	c := &checker{File: f, e: &Experiment{Redis: *r, System: System{Mode: ModeObserve}}}
	c.ask()
	c.CheckRules("redis", r)
	c.redis()
	return f.Err()
}

// ledger checks where the ledger lives.
func (c *checker) ledger() {
	l := &c.e.Ledger
	c.Refuse(c.Node("ledger") != nil && l.URL == "", "ledger", "needs the url of the Redis that keeps it; without a section, the run starts one of its own")
	c.secured("ledger", l.URL, l.CA, l.Cert)
	c.Refuse(c.inPods() && strings.HasPrefix(l.URL, "unix:"), "ledger.url", "is a socket of this host, which pods do not reach")
	own, locks := hostOf(l.URL), hostOf(c.e.Redis.Servers()[0])
	among := slices.ContainsFunc(c.e.Redis.Servers(), func(url string) bool { return hostOf(url) == own })
	if k := c.e.Kubernetes; !c.Refuse(own != "" && among, "ledger.url", "%s is the server of the locks as well: what befalls it would befall the witness; another database of one server is not enough", own) && k != nil {
		own, locks = cmp.Or(strings.ToLower(k.Ledger), own), cmp.Or(strings.ToLower(k.Redis), locks)
		c.Refuse(own != "" && own == locks, "kubernetes.ledger", "%s is the server of the locks as well, as pods reach it: the ledger needs another", own)
	}
}

// secured refuses files of certificates for a Redis that is not reached by TLS, and a key for one whose clients are pods: it would stand in a
// manifest.
func (c *checker) secured(section, address, ca, cert string) {
	plain := address != "" && !strings.HasPrefix(address, "rediss:")
	c.Refuse(ca != "" && plain, section+".ca", "is for TLS: write the url with rediss://")
	c.Refuse(cert != "" && plain, section+".cert", "is for TLS: write the url with rediss://")
	c.Refuse(cert != "" && c.inPods() && !c.e.Observed(), section+".cert", "is for replicas of this host: its key is put into no pod")
}

// hostOf is the host:port of a Redis by its URL, or the path of its socket; "" where that is none.
func hostOf(address string) string {
	if path, _, ok := Socket(address); ok {
		return path
	}
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

// proxy checks what is said of proxies that are somebody's own.
func (c *checker) proxy() {
	c.Refuse(c.e.Proxy.Route != "" && (c.e.Redis.Cluster || c.e.Redis.Sentinel != nil), "proxy.route", "is the way to one server: clients of a cluster, or of Sentinels, ask for the addresses of the servers and go round it")
}

// calendar checks what may end a run, and what may keep it from starting.
func (c *checker) calendar() {
	c.aborts()
	for path, b := range entries("blocked_by", c.e.BlockedBy) {
		if b.PromQL != nil && !c.Invalid(path+".promql") {
			b.PromQL.check(c.File, path+".promql", b.PromQL.URL)
		}
	}
}

// caps checks the limits against what the faults declare.
func (c *checker) caps() {
	e := c.e
	declared := e.declaredKills(true)
	c.Refuse(e.Limits.MaxKills > 0 && e.Limits.MaxKills < declared, "limits.max_kills", "%d is under the %d kills that the faults declare", e.Limits.MaxKills, declared)
	for i := range e.Faults {
		f := &e.Faults[i]
		n := f.Struck(e.System.Replicas)
		most := e.Limits.MaxTargets > 0 && !f.Traits().Kills && f.Aim().Some.Percent == 0 && n > 1
		if c.Refuse(most && e.Limits.MaxTargets < n, "limits.max_targets", "%d is under the %d replicas that %s strikes", e.Limits.MaxTargets, n, f.ID) {
			break
		}
	}
}
