package analysis

import (
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// unknown lists what this run cannot say that there was none of, or no more than was seen: of the measures of which a report says how
// often they were seen, whether a promise asks for them or not. A row lacks the same where a promise asks.
func (j *judging) unknown() []verdict.Unknown {
	counted := []struct {
		measure, part string
		ofJobs        bool
		told          bool // a figure, which is not shown at all where nothing tells it
	}{
		{"lock_debt", "total", false, false}, {"overlap", verdict.LevelEffect, false, false}, {"abandonments", "", false, false},
		{"duplicate_terminal_states", "", true, false}, {"re_executed", "", true, false}, {"stranded", "", true, false},
		{"not_owned", "renew", false, true}, {"held", "", false, true}, {"wait", "", true, true},
	}
	var all []verdict.Unknown
	ofRun := slices.DeleteFunc(slices.Clone(j.runMissing()), func(l verdict.Missing) bool { return !l.Code.OfRecord() })
	for _, lock := range j.lockNames() {
		l, slo := j.ix.Exp.Lock(lock), &experiments.SLO{Lock: lock}
		for _, c := range counted {
			if l != nil && (c.ofJobs && l.Loop() || !c.ofJobs && l.Keyless()) {
				continue
			}
			lacks := ofRun
			of := experiments.Limit{SLO: slo, Lock: lock, Measure: c.measure, Part: c.part}
			why, _ := j.ix.Exp.Untold(lock, of.Figure())
			switch {
			case why != "" && c.told:
				continue
			case why != "":
				lacks = []verdict.Missing{verdict.Lacking(verdict.MissingTeller, capital(why))}
			case len(lacks) == 0:
				lacks = j.unwitnessed(&of)
			}
			if len(lacks) > 0 {
				all = append(all, verdict.Unknown{Lock: lock, Measure: c.measure, Missing: lacks[0]})
			}
		}
	}
	if sys := &j.ix.Exp.System; len(sys.Locks) == 0 && len(sys.Effects) > 0 { // nobody can be late to give up what nobody holds
		for _, c := range counted {
			if !c.ofJobs && !c.told {
				all = append(all, verdict.Unknown{Measure: c.measure, Missing: verdict.Lacking(verdict.MissingTeller, "The experiment has no lock.")})
			}
		}
	}
	return all
}

// lockNames lists the locks that were declared, the effects without one, then those that only the history knows.
func (j *judging) lockNames() []string {
	if j.ix.Only != nil {
		return []string{j.ix.Only.Lock}
	}
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for i := range j.ix.Exp.System.Locks {
		add(j.ix.Exp.System.Locks[i].Name)
	}
	for i := range j.ix.Exp.System.Effects {
		add(j.ix.Exp.System.Effects[i].Under())
	}
	for _, k := range j.ix.KeyOrder {
		add(k.Lock)
	}
	return names
}

// unwitnessed is why there may have been more of what l is about than was seen.
func (j *judging) unwitnessed(l *experiments.Limit) []verdict.Missing {
	m := j.measureOf(l)
	lacks := j.unmet(l, m.needs&needWatched)
	if m.needs&needSighted != 0 { // a signal knows by itself whether it said everything
		seen := m.sees(j, l)
		lacks = append(lacks, slices.DeleteFunc(slices.Clone(seen.lacks), func(l verdict.Missing) bool { return !l.Code.OfWatching() })...)
	}
	return lacks
}

// capital makes a sentence of what begins and ends inside one.
func capital(clause string) string {
	return verdict.Sentences(strings.ToUpper(clause[:1]) + clause[1:])
}
