package experiments

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Processes says which processes of this host are the replicas of an observed system. Exactly one of Match, PIDFiles, Unit, Cgroup and
// Command is set. What its pattern names in braces, or as a group, is known of each replica: {name} is what its owner calls it.
type Processes struct {
	_        struct{}      `rule:"one=match|pid_files|unit|cgroup|command"`
	Match    string        `rule:"pattern,format=regexp"`                 // RE2 of the command line, arguments joined by one space
	PIDFiles string        `file:"pid_files" rule:"path,format=template"` // path of the pid files: /run/sched/{name}.pid
	Unit     string        `rule:"format=template"`                       // systemd unit: scheduler@{name}.service
	Cgroup   string        `rule:"format=template"`                       // end of the cgroup's path: sched/{name}
	Command  []string      // prints a line "pid name" for each replica
	Log      string        `rule:"path,format=template:processes"`  // template of a replica's log file: /var/log/sched/{name}.log
	Metrics  string        `rule:"format=exposition"`               // template of a replica's exposition: http://127.0.0.1:{port}/metrics
	Grace    time.Duration `rule:"positive,default=10s" scale:"no"` // from SIGTERM to SIGKILL
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
	re, err := regexp.Compile(p.Match)
	if c.Invalid(at) || len(p.given()) != 1 || err != nil {
		return
	}
	one := func(text string) bool {
		return text != "" && !strings.ContainsAny(text, "{*") && c.e.System.Replicas > 1
	}
	several := fmt.Sprintf("is one, and system.replicas is %d: say with {name} what differs", c.e.System.Replicas)
	c.Refuse(p.Match != "" && re.MatchString(""), at+".match", "matches every command line")
	c.Refuse(one(p.PIDFiles), at+".pid_files", "%s", several)
	c.Refuse(one(p.Unit), at+".unit", "%s", several)
	c.Refuse(one(p.Cgroup), at+".cgroup", "%s", several)
	c.Refuse(p.Unit != "" && (strings.Contains(p.Unit, "/") || path.Ext(p.Unit) == ""), at+".unit", "is no name of a unit: write it like scheduler@{name}.service")
	c.Refuse(!c.lockless() && len(c.e.System.Holder) == 0 && !slices.Contains(p.Known(), KnownName), at, "nothing leads from a key to the process that holds it: say {name} (match: a group called name) where the values of keys begin with that name, else how to find out, under system.holder")
}

// given are the ways in which the section says how processes are found: one, where it is right.
func (p *Processes) given() []string {
	return slices.DeleteFunc([]string{p.Match, p.PIDFiles, p.Unit, p.Cgroup, strings.Join(p.Command, " ")}, func(s string) bool { return s == "" })
}
