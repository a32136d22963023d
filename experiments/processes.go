package experiments

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Processes says which processes of this host are the replicas of an observed system. Exactly one of Match, PIDFiles, Unit, Cgroup and
// Command is set. What its pattern names in braces, or as a group, is known of each replica: {name} is what its owner calls it.
type Processes struct {
	Match    string        `rule:"pattern"`   // regular expression that the command line matches, its arguments joined by one space
	PIDFiles string        `file:"pid_files"` // path of the files that hold the pids: /run/sched/{name}.pid
	Unit     string        // name of the systemd unit: scheduler@{name}.service
	Cgroup   string        // path of the cgroup, as it ends: sched/{name}
	Command  []string      // that prints a line "pid name" for each replica
	Log      string        // path of a replica's log file, as a template: /var/log/sched/{name}.log
	Metrics  string        // address of a replica's exposition, as a template: http://127.0.0.1:{port}/metrics
	Grace    time.Duration `rule:"positive,default=10s" scale:"no"` // from SIGTERM to SIGKILL, as the supervisor grants it
}

// Words of Processes.Known that are known of every process.
const (
	KnownName = "name"
	KnownPID  = "pid"
	KnownHost = "host"
)

// Known are the words that templates about a replica may use.
func (p *Processes) Known() []string {
	var words []string
	switch {
	case p.Match != "":
		if re, err := regexp.Compile(p.Match); err == nil {
			words = slices.DeleteFunc(re.SubexpNames(), func(name string) bool { return name == "" })
		}
	case len(p.Command) > 0:
		words = []string{KnownName}
	default:
		words = Placeholders(p.PIDFiles + p.Unit + p.Cgroup)
	}
	slices.Sort(words)
	return append(slices.Compact(words), KnownPID, KnownHost)
}

// Where says in words how the processes are found.
func (p *Processes) Where() string {
	switch {
	case p.Match != "":
		return "command line matches " + p.Match
	case p.PIDFiles != "":
		return "pid files " + p.PIDFiles
	case p.Unit != "":
		return "unit " + p.Unit
	case p.Cgroup != "":
		return "cgroup " + p.Cgroup
	}
	return "listed by " + strings.Join(p.Command, " ")
}

// processes checks how the replicas are found.
func (c *checker) processes(p *Processes) {
	const at = "system.processes"
	var given []string
	for _, s := range []struct {
		word string
		set  bool
	}{{"match", p.Match != ""}, {"pid_files", p.PIDFiles != ""}, {"unit", p.Unit != ""}, {"cgroup", p.Cgroup != ""}, {"command", len(p.Command) > 0}} {
		if s.set {
			given = append(given, s.word)
		}
	}
	switch {
	case c.Invalid(at):
		return
	case len(given) == 0:
		c.Check(at, "does not say how the processes are found: match, pid_files, unit, cgroup or command")
		return
	case len(given) > 1:
		c.Check(at, "has %s: exactly one says how the processes are found", strings.Join(given, " and "))
		return
	}
	if !c.match(at+".match", p.Match) {
		return
	}
	for _, t := range []struct{ word, text string }{{"pid_files", p.PIDFiles}, {"unit", p.Unit}, {"cgroup", p.Cgroup}} {
		if t.text == "" {
			continue
		}
		c.template(at+"."+t.word, t.text, nil)
		if !strings.ContainsAny(t.text, "{*") && c.e.System.Replicas > 1 {
			c.Check(at+"."+t.word, "%q is one, and system.replicas is %d: say with {name} what differs", t.text, c.e.System.Replicas)
		}
	}
	if p.Unit != "" && (strings.Contains(p.Unit, "/") || path.Ext(p.Unit) == "") {
		c.Check(at+".unit", "%q is no name of a unit: write it like scheduler@{name}.service", p.Unit)
	}
	if slices.Contains(p.Command, "") {
		c.Check(at+".command", "has an empty word")
	}
	c.template(at+".log", p.Log, p.Known())
	c.template(at+".metrics", p.Metrics, p.Known())
	if u, err := url.Parse(placeholder.ReplaceAllString(p.Metrics, "1")); p.Metrics != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		c.Check(at+".metrics", "%q is no address of an exposition: write it like http://127.0.0.1:{port}/metrics", p.Metrics)
	}
	c.openAddress(at+".metrics", p.Metrics)
	c.nameless(p)
}

// match checks a pattern of command lines; false = it can match nothing.
func (c *checker) match(at, pattern string) bool {
	re, err := regexp.Compile(pattern)
	if err != nil {
		c.Check(at, "no regular expression: %v", err)
	} else if pattern != "" && re.MatchString("") {
		c.Check(at, "%q matches every command line", pattern)
	}
	return err == nil
}
