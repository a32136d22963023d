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
	Ports      []int // of the stores, as pods reach them, and of the metrics that the runner scrapes
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
		for _, at := range []string{hostPort(of[0]), hostPort(reached(of[0], of[1]))} {
			if p := portOf(at, redisPort); !slices.Contains(o.Ports, p) {
				o.Ports = append(o.Ports, p)
			}
		}
	}
	var addresses []string
	for _, m := range e.Probes.Numbers() {
		addresses = append(addresses, m.Scrape)
	}
	if a := e.Probes.Alerts; a != nil {
		addresses = append(addresses, a.URL)
	}
	o.Reach(addresses...)
	return o, nil
}

// Reach lets the pods reach the ports of these URLs; "" = nothing.
func (o *NetworkOptions) Reach(urls ...string) {
	for _, address := range urls {
		if p := scrapePort(address); p != 0 && !slices.Contains(o.Ports, p) {
			o.Ports = append(o.Ports, p)
		}
	}
	slices.Sort(o.Ports)
}

// scrapePort is the port of an exposition's URL; 0 = it is none.
func scrapePort(address string) int {
	scheme, _, ok := strings.Cut(address, "://")
	switch {
	case !ok:
		return 0
	case scheme == "https":
		return portOf(hostPort(address), 443)
	}
	return portOf(hostPort(address), 80)
}

const redisPort = 6379

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
