package experiments

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// MaxFile bounds an experiment file: a bigger one is some other file.
const MaxFile = vocab.MaxFile

// file is the document as it is spelled: two lines that say what it is, and the experiment.
type file struct {
	APIVersion string `file:"apiVersion" rule:"required,words=lockdrill/v1"` // version of this file format
	Kind       string `rule:"required,words=Experiment"`                     // what the file is
	Experiment
}

// otherKinds is what is said of files of lockdrill/v1 that are no experiments: Schedule is not read any more.
var otherKinds = map[string]string{
	"GameDay": "this is the sheet of a game day: lockdrill run leads it, and other commands read its experiments, each by its own file",
	"Schedule": "lockdrill runs nothing by a schedule any more: lockdrill export cronjob FILE --schedule CRON does in a cluster, " +
		"lockdrill export ci SYSTEM FILE --schedule CRON --approve ENV elsewhere; windows, blackouts and blocked_by stand in the experiment (docs/schedules.md)",
}

// openFile reads a document of a kind. One of another has no other problem.
func openFile(kind, name string, data []byte) *vocab.File {
	f := vocabulary.Open(name, data, false)
	if f.Root == nil || f.Root.Kind != yaml.MappingNode {
		return f
	}
	for i := 0; i < len(f.Root.Content); i += 2 {
		value, kinds := f.Root.Content[i+1], []string{KindExperiment, KindGameDay}
		if f.Root.Content[i].Value != "kind" || value.Tag != "!!str" || value.Value == kind || vocab.Nearest(value.Value, kinds) == kind {
			continue
		}
		f.Add("kind", value, "%s", cmp.Or(otherKinds[value.Value], "unknown word "+vocab.UnknownWord(value.Value, kinds)))
		f.Root = nil
		break
	}
	return f
}

// Load reads and checks an experiment file. A file that is not right gives Problems; one that cannot be read, another error.
func Load(path string) (*Experiment, error) {
	data, err := regular.ReadMost(path, MaxFile)
	if err != nil {
		return nil, fmt.Errorf("read experiment: %s: %w", path, err)
	}
	return Parse(path, data)
}

// Parse is Load for a file that is already in memory; name is what its problems are called by, and a policy sheet is sought
// beside it.
// The error is always of type Problems.
func Parse(name string, data []byte) (*Experiment, error) { return parse(name, data, nil, false) }

// ParseWith is Parse for a file of which a command line overrides values, each given as PATH=VALUE: system.locks.leader.poll=2s. Problems
// with these are those of a file --set, in which each has a line.
func ParseWith(name string, data []byte, values []string) (*Experiment, error) {
	return parse(name, data, values, false)
}

// ParseRun is Parse of the file of a recorded run. Promises that cannot be answered are read as they are: the judge says why of each, also
// where the file is from before they were refused.
func ParseRun(name string, data []byte) (*Experiment, error) { return parse(name, data, nil, true) }

func parse(name string, data []byte, values []string, recorded bool) (*Experiment, error) {
	doc := file{}
	f := openFile("Experiment", name, data)
	f.Stored = recorded
	f.Override("--set", values)
	if f.Root != nil {
		for _, n := range unsaidBelow(f.Root) {
			f.Add("", n, "still to be said: put in what is true of your service")
		}
	}
	if f.Root != nil && f.Problems() == 0 {
		f.Decode(&doc)
		e := &doc.Experiment
		s := readSheet(f, e)
		rolls(f, e)
		(&checker{File: f, e: e, sheet: s}).all()
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	fill(&doc.Experiment)
	return &doc.Experiment, nil
}

// Digest names a file's bytes: "sha256:" and 64 hex digits.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// fill derives the defaults that depend on other values.
func fill(e *Experiment) {
	if e.Limits.MaxKills == 0 {
		e.Limits.MaxKills = 2 * e.declaredKills(false)
	}
	if e.Kubernetes != nil || e.Observed() {
		e.System.Restart = 0
	}
	if e.Observed() { // what they write to compares fences, or does not: a profile does not know
		for i := range e.System.Locks {
			e.System.Locks[i].Unfenced = false
		}
	}
	if e.Kubernetes != nil && e.Observed() {
		e.Kubernetes.Workers, e.Kubernetes.Grace = "", 0
	}
	if !slices.ContainsFunc(e.System.Locks, func(l Lock) bool { return l.Lease != "" }) {
		e.Probes.Leases = ProbeSettings{}
	}
	if looks := &e.Probes.LockKeys; e.InObjects() && *looks == keyLooks {
		*looks = leaseLooks
	}
	for i := range e.Expect {
		if x := &e.Expect[i]; x.Fault == "" && len(e.Faults) > 0 {
			x.Fault = e.Faults[0].ID
		}
	}
	for _, s := range e.AlertRows() {
		if s.Fault == "" && !s.Silent && len(e.Faults) > 0 {
			s.Fault = e.Faults[0].ID
		}
		if s.ResolvesWithin == 0 && !s.Silent {
			s.ResolvesWithin = s.Within
		}
	}
	for i := range e.Faults {
		if f := &e.Faults[i]; f.Net() && f.everybody() {
			f.Spec.(fault.Aimed).AimAt().All = true
		}
	}
}

// declaredKills is how many replicas the faults may end: all on one node where that is drained. The least is without what limits may take
// off a share.
func (e *Experiment) declaredKills(least bool) int {
	n := 0
	for i := range e.Faults {
		f := &e.Faults[i]
		switch t := f.Traits(); {
		case t.Kills && least && f.Aim().Some.Percent > 0, f.eachInTurn():
			n += f.Repeat.Count
		case t.Kills, t.WholeNode:
			n += f.Repeat.Count * f.Struck(e.System.Replicas)
		}
	}
	return n
}
