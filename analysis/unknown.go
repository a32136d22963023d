package analysis

import (
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// counted are the measures of which a report says how often they were seen, whether a promise asks for them or not, and what watches each.
var counted = []struct {
	measure string
	ofJobs  bool
	watch   func(j *judging, lock string) []verdict.Missing
}{
	{"lock_debt", false, (*judging).claimsUnsure},
	{"overlap", false, (*judging).effectsUnsure},
	{"abandonments", false, (*judging).givingUpUnsure},
	{"duplicate_terminal_states", true, (*judging).effectsUnsure},
	{"re_executed", true, (*judging).effectsUnsure},
	{"stranded", true, (*judging).effectsUnsure},
}

// unknown lists what this run cannot say that there was none of, or no more than was seen. A row lacks the same where a promise asks.
func (j *judging) unknown() []verdict.Unknown {
	var all []verdict.Unknown
	ofRun := slices.DeleteFunc(j.runMissing(), func(l verdict.Missing) bool { return !l.Code.OfRecord() })
	for _, lock := range j.lockNames() {
		l := j.ix.exp.Lock(lock)
		for _, m := range counted {
			if m.ofJobs && l != nil && l.Loop() {
				continue
			}
			if why, _ := j.ix.exp.Untold(lock, m.measure); why != "" {
				all = append(all, verdict.Unknown{Lock: lock, Measure: m.measure, Missing: verdict.Lacking(verdict.MissingTeller, capital(why))})
				continue
			}
			if lacks := slices.Concat(ofRun, m.watch(j, lock)); len(lacks) > 0 {
				all = append(all, verdict.Unknown{Lock: lock, Measure: m.measure, Missing: lacks[0]})
			}
		}
	}
	return all
}

// claimsUnsure is why debts of the lock may have been missed.
func (j *judging) claimsUnsure(lock string) []verdict.Missing {
	return slices.Concat(j.keysBlind(lock), j.garbled(), j.doubted(lock))
}

// effectsUnsure is why effects under the lock may have been missed.
func (j *judging) effectsUnsure(lock string) []verdict.Missing {
	if probe := j.ix.ledgerOf(lock); probe != "" {
		return j.blind(probe, j.window())
	}
	return nil
}

// givingUpUnsure is why it may have been missed that the lock was given up.
func (j *judging) givingUpUnsure(lock string) []verdict.Missing {
	if l := j.ix.exp.Lock(lock); l == nil || l.AbandonedBy == nil {
		return j.garbled()
	}
	return slices.DeleteFunc(j.abandonments(lock).missing, func(l verdict.Missing) bool { return !l.Code.OfWatching() })
}

// capital makes a sentence of what begins and ends inside one.
func capital(clause string) string {
	return verdict.Sentences(strings.ToUpper(clause[:1]) + clause[1:])
}
