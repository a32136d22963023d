package analysis

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// need is what a pass of a measure must rest on.
type need uint

const (
	needStruck    need = 1 << iota // a confirmed fault struck the lock
	needContended                  // and somebody else asked for it meanwhile
	needKeys                       // its keys were looked at for as long as they were in use
	needLedger                     // the ledger's final read, or looks at it all the time
	needLegible                    // and every record of it could be read
	needLate                       // the final reads came after the horizon
	needHeard                      // no line of a replica was lost
	needTrusted                    // no evidence contradicts what is claimed of its keys
	needFinished                   // jobs came to their end, as many as the row asks for
	needSighted                    // the signal was read all the time that the row speaks of
	needAsked                      // each replica could be asked, as long as it lived, whether it holds the lock
)

// needWatched are the needs without which there may be more of a thing than was seen.
const needWatched = needKeys | needLedger | needLegible | needHeard | needTrusted | needSighted | needAsked

// condition says what is missing of a need.
type condition struct {
	need  need
	lacks func(j *judging, l *experiments.Limit) []verdict.Missing
}

// conditions are those of all needs, the first thing to mend first.
func conditions() []condition {
	return []condition{
		{needFinished, func(j *judging, l *experiments.Limit) []verdict.Missing {
			if j.at[l.Lock].dups.Finished > 0 {
				return nil
			}
			return []verdict.Missing{j.noJobs(verdict.MissingFinishedJobs, l.Lock)}
		}},
		{needStruck, func(j *judging, l *experiments.Limit) []verdict.Missing {
			if exposed, _ := j.exposures(l.Lock); exposed > 0 || len(j.ix.Exp.Faults) == 0 || j.rolledOver(l) { // nothing was to strike it
				return nil
			}
			return j.notExposed(l.Lock)
		}},
		{needContended, func(j *judging, l *experiments.Limit) []verdict.Missing {
			if exposed, wanted := j.exposures(l.Lock); exposed == 0 || wanted > 0 {
				return nil
			}
			next := "Let at least two replicas want the lock."
			if !j.ix.Exp.Leases() {
				next = "A kill frees a lock that has no lease at once. Add a fault that its holder survives: terminate: {holder_of: " + l.Lock + "}."
			}
			return []verdict.Missing{verdict.Lacking(verdict.MissingContenders, l.Lock, next)}
		}},
		{needLedger, func(j *judging, l *experiments.Limit) []verdict.Missing {
			return j.blind(j.ix.LedgerOf(l.Lock), j.window())
		}},
		{needLegible, func(j *judging, l *experiments.Limit) []verdict.Missing { return j.illegible(j.ix.LedgerOf(l.Lock)) }},
		{needKeys, func(j *judging, l *experiments.Limit) []verdict.Missing { return j.keysBlind(l.Lock) }},
		{needLate, func(j *judging, l *experiments.Limit) []verdict.Missing { return j.unseen(l.Lock) }},
		{needHeard, func(j *judging, l *experiments.Limit) []verdict.Missing { return j.lostLines() }},
		{needTrusted, func(j *judging, l *experiments.Limit) []verdict.Missing { return j.doubted(l.Lock) }},
		{needSighted, (*judging).unsighted},
		{needAsked, func(j *judging, l *experiments.Limit) []verdict.Missing { return j.unasked(l.Lock) }},
	}
}

// needsOf lists what keeps a pass of l from being one, beside what holds for every measure.
func (j *judging) needsOf(l *experiments.Limit, m *measure, f *figure) []verdict.Missing {
	lacks := slices.Clip(f.lacks)
	if n := j.at[l.Lock].dups.Finished; n < l.MinJobs && (n > 0 || len(lacks) == 0 && m.needs&needFinished == 0) { // that there is none is told already
		lacks = append(lacks, verdict.Lacking(verdict.MissingMinJobs, figures.Count(n), figures.Plural(l.MinJobs, "job")))
	}
	return append(lacks, j.unmet(l, m.needs)...)
}

// unmet lists what is missing of some needs.
func (j *judging) unmet(l *experiments.Limit, needs need) (ls []verdict.Missing) {
	for _, c := range j.conditions {
		if needs&c.need != 0 {
			ls = append(ls, c.lacks(j, l)...)
		}
	}
	return ls
}
