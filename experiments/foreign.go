package experiments

import (
	"net/url"
	"strings"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// Foreign names the targets that the run does not start itself, without secrets. Where there is one, a run needs consent: --confirm NAME.
func (e *Experiment) Foreign() []string {
	var all []string
	add := func(what, address string) {
		if path, _, socket := Socket(address); socket {
			all = append(all, what+" unix:"+path)
		} else if u, err := url.Parse(address); err == nil {
			all = append(all, what+" "+u.Scheme+"://"+u.Host)
		}
	}
	if e.Redis.Mode == RedisExternal {
		if e.Redis.Sentinel != nil {
			all = append(all, "redis "+e.Redis.Target())
		} else {
			for _, server := range e.Redis.Servers() {
				add("redis", server)
			}
		}
	}
	if s := e.Store; s != nil && s.URL != "" {
		all = append(all, s.Target())
	}
	if e.Proxy.Mode == ProxyExternal {
		add("toxiproxy", e.Proxy.URL)
	}
	if e.Ledger.URL != "" {
		add("ledger", e.Ledger.URL)
	}
	if k := e.InCluster(); k != nil {
		all = append(all, k.Target())
	}
	for i := range e.Faults {
		if _, ok := e.Faults[i].Spec.(fault.Commanding); ok {
			all = append(all, "what the commands of fault "+e.Faults[i].ID+" strike")
		}
	}
	if e.System.Processes != nil {
		all = append(all, e.System.Processes.Target())
	}
	return all
}

// Target names the namespaces of a cluster that pods are in, for people.
func (k *Kubernetes) Target() string {
	context := k.Context
	if context == "" {
		context = "in-cluster"
	}
	return "kubernetes " + context + "/" + strings.Join(append([]string{k.Namespace}, k.Namespaces...), ", ")
}

// Target names the processes of this host that a run may strike, for journals and guards.
func (p *Processes) Target() string { return "processes: " + p.Where() }
