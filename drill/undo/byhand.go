package undo

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// ByHand is the commands with which a person undoes a record, one a line; none where there is nothing but to look.
func ByHand(r Record) []string {
	var lines []string
	if p := r.Process; p != nil {
		started := ""
		if p.Started != "" {
			started = fmt.Sprintf("   # only if field 22 of /proc/%d/stat is %s", p.PID, p.Started)
		}
		signal := "-CONT"
		if r.Kind == StandReplica || r.Kind == StandServer {
			signal = "-KILL"
		}
		whom := fmt.Sprintf("-- -%d", p.PID) // its group
		if p.Alone {
			whom = strconv.Itoa(p.PID)
		}
		lines = append(lines, fmt.Sprintf("kill %s %s%s", signal, whom, started))
	}
	if r.Cgroup != "" {
		lines = append(lines, `echo 1 > "$(findmnt -nt cgroup2 -o TARGET | head -n 1)"`+Quote(r.Cgroup+"/cgroup.kill"))
	}
	if r.Folder != "" {
		lines = append(lines, "rm -r "+Quote(r.Folder))
	}
	if w := r.Route; w != nil {
		lines = append(lines, w.byHand(r.Kind == StandRoute)...)
	}
	for _, w := range r.Routes {
		lines = append(lines, w.byHand(false)...)
	}
	if r.Store != nil {
		lines = append(lines, r.Store.byHand(r)...)
	}
	if r.Tap != nil {
		lines = append(lines, r.Tap.byHand())
	}
	if r.Cluster != nil {
		lines = append(lines, r.Cluster.byHand(r)...)
	}
	if r.Hook != nil && len(r.Hook.Undo) > 0 {
		lines = append(lines, r.Hook.byHand(r))
	}
	return lines
}

// byHand is the command as it is run.
func (h *Hook) byHand(r Record) string {
	words := []string{"cd", Quote(h.Dir), "&&", "env"}
	for _, v := range append(h.Env(r.Shot, "undo"), h.Undo...) {
		words = append(words, Quote(v))
	}
	return strings.Join(words, " ")
}

// byHand selects by the label: what is another's stays.
func (c *Cluster) byHand(r Record) []string {
	kubectl := "kubectl"
	for _, f := range [][2]string{{"--kubeconfig", c.Kubeconfig}, {"--context", c.Context}, {"--namespace", c.Namespace}} {
		if f[1] != "" {
			kubectl += " " + f[0] + " " + Quote(f[1])
		}
	}
	if n := r.Node; n != nil {
		return []string{kubectl + " uncordon " + Quote(n.Name), kubectl + " annotate node " + Quote(n.Name) + " lockdrill.dev/cordoned-by-"}
	}
	if cut := r.Cut; cut != nil {
		return []string{kubectl + " delete networkpolicy " + Quote(cut.Policy), kubectl + " label pod " + Quote(cut.Pod) + " lockdrill.dev/cut-"}
	}
	if m := r.Made; m != nil {
		return []string{kubectl + " delete " + Quote(m.resource()) + " --field-selector " + Quote("metadata.name="+m.Name) + " -l " + Quote("lockdrill.dev/run="+c.Run) + "   # its controller lets go of it: wait until it is gone"}
	}
	var kinds []string
	for _, o := range slices.Backward(c.Objects) {
		if kind := strings.ToLower(o.Kind); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return []string{kubectl + " delete " + strings.Join(append(kinds, "pod"), ",") + " -l " + Quote("lockdrill.dev/run="+c.Run)}
}

// resource names the kind as kubectl takes it, which finds out how the API server serves it.
func (o Object) resource() string {
	group, version, named := strings.Cut(o.APIVersion, "/")
	if !named {
		group, version = "", group
	}
	return strings.ToLower(o.Kind) + "." + version + "." + group
}

func (w *ProxyRoute) byHand(whole bool) []string {
	proxy := Quote(w.API + "/proxies/" + w.Proxy)
	if whole {
		return []string{"curl -X DELETE " + proxy}
	}
	var lines []string
	for _, t := range w.Toxics {
		lines = append(lines, "curl -X DELETE "+Quote(w.API+"/proxies/"+w.Proxy+"/toxics/"+t))
	}
	if w.Down {
		lines = append(lines, `curl -X POST -d '{"enabled":true}' `+proxy)
	}
	return lines
}

func (t *Tap) byHand() string {
	if path, ok := strings.CutPrefix(t.API, "unix:"); ok {
		return "curl --unix-socket " + Quote(path) + " -X DELETE " + Quote("http://localhost/faults/"+t.ID)
	}
	return "curl -X DELETE " + Quote(t.API+"/faults/"+t.ID)
}

// byHand never shows a password: it names the variable that holds it.
func (s *Store) byHand(r Record) []string {
	host, port, err := net.SplitHostPort(s.Addr)
	socket := strings.HasPrefix(s.Addr, "/")
	if err != nil && !socket {
		return nil
	}
	if s.Kind == "etcd" && r.Kind == StandKeys && r.Key != nil {
		cli := "etcdctl --endpoints " + Quote(strings.Join(s.Addrs, ","))
		return []string{cli + " del --prefix " + Quote(r.Key.Name), cli + " get --prefix lockdrill:   # delete lockdrill:open and lockdrill:run if they name this run"}
	}
	cli := "redis-cli -h " + Quote(host) + " -p " + Quote(port)
	if socket {
		cli = "redis-cli -s " + Quote(s.Addr)
	}
	if s.PasswordEnv != "" {
		cli = `REDISCLI_AUTH="$` + s.PasswordEnv + `" ` + cli
	}
	if s.UsernameEnv != "" {
		cli += ` --user "$` + s.UsernameEnv + `"`
	}
	if s.TLS {
		cli += " --tls"
	}
	if s.CA != "" {
		cli += " --cacert " + Quote(s.CA)
	}
	if s.Cert != "" {
		cli += " --cert " + Quote(s.Cert) + " --key " + Quote(s.Key)
	}
	cli += fmt.Sprintf(" -n %d", s.DB)
	switch {
	case r.Kind == StandKeys && r.Key != nil:
		return []string{
			cli + " --scan --pattern " + Quote(r.Key.Name+"*") + " | while read -r key; do " + cli + ` unlink "$key"; done`,
			cli + " --scan --pattern " + Quote("{"+r.Key.Name+"*") + " | while read -r key; do " + cli + ` unlink "$key"; done`,
			cli + " mget lockdrill:open lockdrill:run   # delete each that names this run",
		}
	case r.Key != nil && r.Key.Token != "":
		return []string{cli + " get " + Quote(r.Key.Name) + "   # delete it if it is " + r.Key.Token}
	case r.Shot.Fault != nil && r.Shot.Fault.Victim == history.VictimStore && r.Shot.Fault.Form == string(fault.StorePause):
		return []string{cli + " client unpause"}
	case s.Memory != nil:
		return []string{cli + " config set maxmemory " + Quote(s.Memory.Max), cli + " config set maxmemory-policy " + Quote(s.Memory.Policy)}
	}
	return nil
}

// Quote makes one word for a shell.
func Quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$`*?[]{}()<>|&;#~!") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// String names a record for a person.
func (r Record) String() string {
	var parts []string
	if b := r.Shot.Fault; b != nil {
		parts = append(parts, strings.TrimSpace(r.Kind+" "+b.Form), r.Shot.Op)
		if b.Victim != "" {
			parts = append(parts, "at "+b.Victim)
		}
	} else {
		parts = append(parts, r.Kind)
	}
	if r.Process != nil {
		parts = append(parts, fmt.Sprintf("(process %d)", r.Process.PID))
	}
	if r.Route != nil {
		parts = append(parts, "(proxy "+r.Route.Proxy+" at "+r.Route.API+")")
	}
	for _, w := range r.Routes {
		parts = append(parts, "(proxy "+w.Proxy+" at "+w.API+")")
	}
	if r.Store != nil {
		parts = append(parts, "("+r.Store.Addr+")")
	}
	if r.Cluster != nil {
		parts = append(parts, "(namespace "+r.Cluster.Namespace+")")
	}
	if r.Made != nil {
		parts = append(parts, "("+r.Made.Kind+" "+r.Made.Name+")")
	}
	return strings.Join(parts, " ")
}
