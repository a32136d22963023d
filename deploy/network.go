package deploy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
)

// NetworkOptions say what the pods of a drill may reach. NetworkFor fills them from an experiment.
type NetworkOptions struct {
	Experiment string
	Namespace  string
	Ports      []int // of the stores, as pods reach them, and of all else that the experiment names an address of
	Toxiproxy  bool  // one of ours: workers and runner reach any port of it
}

// NetworkFor is what the pods of e reach.
func NetworkFor(e *experiments.Experiment) (NetworkOptions, error) {
	if e.Kubernetes == nil {
		return NetworkOptions{}, fmt.Errorf("%w: add a section kubernetes", ErrNoPods)
	}
	o := NetworkOptions{Experiment: e.Name, Namespace: e.Kubernetes.Namespace, Toxiproxy: e.Proxy.Mode == experiments.ProxyExternal}
	for _, of := range [][2]string{{e.Redis.URL, e.Kubernetes.Redis}, {e.Ledger.URL, e.Kubernetes.Ledger}} {
		if of[0] == "" {
			continue
		}
		// The runner goes by the URL, the workers by their own way.
		for _, url := range strings.Split(of[0], ",") {
			for _, at := range []string{hostPort(url), hostPort(reached(url, of[1]))} {
				o.reach(portOf(at, redisPort))
			}
		}
	}
	addresses := []string{e.Redis.Replica, e.Proxy.API, e.Kubernetes.APIProxy}
	if s := e.Redis.Sentinel; s != nil {
		for _, address := range s.URLs {
			o.reach(portOf(hostPort(address), sentinelPort))
		}
	}
	for i := range e.System.Holder {
		switch h := &e.System.Holder[i]; {
		case h.Metric != nil:
			addresses = append(addresses, h.Metric.URL)
		case h.Proxy != nil:
			addresses = append(addresses, h.Proxy.API)
		}
	}
	for i := range e.System.Effects {
		x := &e.System.Effects[i]
		if addresses = append(addresses, x.Redis.URL); x.HTTP != nil {
			addresses = append(addresses, x.HTTP.URL)
		}
	}
	for _, m := range e.Probes.Numbers() {
		addresses = append(addresses, m.Scrape)
	}
	if a := e.Probes.Alerts; a != nil {
		addresses = append(addresses, a.URL)
	}
	for i := range e.BlockedBy {
		b := &e.BlockedBy[i]
		if addresses = append(addresses, b.URL); b.PromQL != nil {
			addresses = append(addresses, b.PromQL.URL)
		}
	}
	for i := range e.AbortWhen {
		if q := e.AbortWhen[i].PromQL; q != nil {
			addresses = append(addresses, q.URL)
		}
	}
	o.Reach(addresses...)
	return o, nil
}

// Reach lets the pods reach the ports of these URLs; "" = nothing.
func (o *NetworkOptions) Reach(urls ...string) {
	for _, address := range urls {
		if p := urlPort(address); p != 0 {
			o.reach(p)
		}
	}
}

// urlPort is the port of a URL; 0 = it is none, such as the path of a socket.
func urlPort(address string) int {
	scheme, _, _ := strings.Cut(address, "://")
	usual, known := map[string]int{"http": 80, "https": 443, "redis": redisPort, "rediss": redisPort}[scheme]
	if !known {
		return 0
	}
	return portOf(hostPort(address), usual)
}

func (o *NetworkOptions) reach(port int) {
	if at, there := slices.BinarySearch(o.Ports, port); !there {
		o.Ports = slices.Insert(o.Ports, at, port)
	}
}

// Ports where a URL says none.
const (
	redisPort    = 6379
	sentinelPort = 26379
)

// portOf is the port of host:port, or the usual one where none is said.
func portOf(at string, usual int) int {
	port := at[strings.LastIndexByte(at, ':')+1:]
	if n, err := strconv.Atoi(port); err == nil && !strings.HasSuffix(at, "]") {
		return n
	}
	return usual
}

// Network is a NetworkPolicy for the egress of workers and runner, as one YAML document.
func Network(o NetworkOptions) ([][]byte, error) {
	return manifests("network", struct {
		NetworkOptions
		Meta meta
	}{o, meta{ObjectName(o.Experiment), o.Namespace, map[string]string{NameLabel: runnerName}}})
}
