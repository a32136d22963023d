package analysis

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// measure is one figure that can be promised. What a pass of it must rest on is a column, so that no measure can forget it.
type measure struct {
	unit   string
	of     string // what it counts, in the singular
	needs  need
	none   verdict.MissingCode // what is missing where there was nothing to count
	kills  bool                // its trials are faults, and not what the lock does anyway
	blank  bool                // where there was nothing to count, its upper end was not seen
	ends   bool                // its lower end stands until something is seen to end: what could not be read may have been that
	sees   func(*judging, *experiments.Limit) figure
	facing func(*judging, *experiments.Limit, *figure) // adds what depends on the limit; nil = nothing does
	phrase
}

// figure is what one measure of one lock came to: a range that contains the truth, and what it rests on.
type figure struct {
	facts.Value                   // of all of it
	each        []facts.Value     // one by one, where each is a trial of its own: what quantiles count
	least       *facts.Value      // of several: what a lower bound is held against; nil = the value itself
	n           int               // of how many
	of          string            // what n counts; "" = as the measure says
	unit        string            // "" = the measure's
	faults      int               // independent ones that could have brought a breach about: the n of "0 of n"; 0 = no such bound
	kills       []facts.Kill      // of takeovers: whose parts there are
	growing     bool              // the number of trials was decided while it was looked at
	evidence    []int64           // events, the most telling first
	lacks       []verdict.Missing // why a pass would be none, beside what the measure needs
	unsure      []verdict.Missing // why the range is no closer
	broken      string            // a breach that no limit allows, in words; "" = none
	unfit       string            // why this run cannot answer, whatever was measured; "" = it can
	shown       int64             // how late the machine was, where nothing is taken off
	hints
}

// hints are words that fit a figure better than those of its measure; "" = the measure's.
type hints struct {
	saw     string // what was seen
	why     string // the cause, where one is known
	next    string // what to do about it
	few     string // what to do where there was less than a lower bound asks for
	closer  string // what to do where the limit lies within the range
	unseen  string // what was not seen where there is no upper end
	unended string // what to do about that
}

// measures is the table of what can be promised, by its name in the file: a measure's parts have a row together, but those that differ in it.
func measures() map[string]*measure {
	const (
		sec, num, part = verdict.UnitSeconds, verdict.UnitCount, verdict.UnitRatio
		run            = needStruck | needLate // of the whole run
		said           = needHeard | needTrusted
		jobs           = run | needLedger | needLegible | needFinished
	)
	table := map[string]*measure{
		"takeover":                         {unit: sec, of: "kill", needs: needLegible, kills: true, ends: true, sees: trialsOf, facing: facingTrials},
		"tick_gap":                         {unit: sec, of: "kill", needs: needLegible, kills: true, ends: true, sees: trialsOf, facing: facingTrials},
		"tick_gap" + ofWatch:               {unit: sec, of: "stretch", needs: run | needLedger | needLegible, sees: tickless, facing: facingTickless},
		"duplicate_terminal_states":        {unit: num, of: "job", needs: jobs, sees: duplicated},
		"re_executed":                      {unit: num, of: "job", needs: jobs | needHeard, sees: executedAgain},
		"stranded":                         {unit: num, of: "job", needs: run | needLedger | needLegible, ends: true, sees: stranded},
		"abandonments":                     {unit: num, of: "epoch", needs: run | needHeard, none: verdict.MissingWork, sees: abandoned},
		"abandonments" + bySignal:          {unit: num, needs: needStruck | needSighted, sees: toldCount},
		"busy.count" + bySignal:            {unit: num, needs: needStruck | needSighted, sees: toldCount},
		"not_owned.renew" + bySignal:       {unit: part, of: "renewal", needs: needStruck | needSighted, sees: toldShare},
		"not_owned.release" + bySignal:     {unit: part, of: "release", needs: needStruck | needSighted, sees: toldShare},
		"failed_releases.calls" + bySignal: {unit: part, of: "release call", needs: needStruck | needSighted, sees: toldShare},
		"wait" + bySignal:                  {unit: sec, of: "wait", needs: needSighted, none: verdict.MissingRequests, sees: toldWait},
		"abandonment":                      {unit: num, of: "jeopardy", needs: needLate | needKeys | said, none: verdict.MissingJeopardy, sees: gaveUp},
		"overlap.belief":                   {unit: sec, of: "epoch", needs: run | needContended | needKeys | said, none: verdict.MissingHolders, blank: true, sees: overlapped},
		"overlap.work":                     {unit: sec, of: "epoch", needs: run | needContended | needKeys | said, none: verdict.MissingHolders, blank: true, sees: overlapped},
		"overlap.effect":                   {unit: num, of: "effect", needs: run | needContended | needLedger | needLegible | needTrusted, none: verdict.MissingEffects, sees: fenced},
		"fence_lag":                        {unit: sec, of: "epoch", needs: run | said, none: verdict.MissingWorkEnds, blank: true, sees: lagged},
		"unowned_work":                     {unit: sec, of: "epoch", needs: run | needKeys | said, none: verdict.MissingWork, blank: true, sees: unownedWork},
		"loss_to_fence":                    {unit: sec, of: "loss", needs: run | needKeys | said, none: verdict.MissingLosses, blank: true, sees: noticed},
		"blocked":                          {unit: sec, of: "release", needs: run | needHeard, none: verdict.MissingDoneHolders, blank: true, sees: longest((*facts.Facts).Blocked)},
		"busy.count":                       {unit: num, of: "acquire", needs: run | needHeard, none: verdict.MissingRequests, sees: refused},
		"busy.time":                        {unit: sec, of: "acquire", needs: run | needHeard, none: verdict.MissingRequests, sees: refused},
		"busy.each":                        {unit: sec, of: "acquire", needs: run | needHeard, none: verdict.MissingRequests, sees: refused},
		"lock_debt":                        {unit: sec, of: "epoch", needs: run | needKeys | said, none: verdict.MissingDoneHolders, sees: owed},
		"orphan_acquires":                  {unit: num, of: "acquire", needs: run | needKeys | said, none: verdict.MissingRequests, sees: orphans},
		"not_owned.renew":                  {unit: part, of: "renewal", needs: run | needHeard, none: verdict.MissingAnswers, blank: true, sees: notYours},
		"not_owned.release":                {unit: part, of: "release", needs: run | needHeard, none: verdict.MissingAnswers, blank: true, sees: notYours},
		"failed_releases.calls":            {unit: part, of: "release call", needs: run | needKeys | said, none: verdict.MissingAnswers, sees: failedCalls},
		"failed_releases.given_up":         {unit: part, of: "lease", needs: run | needKeys | said, none: verdict.MissingAnswers, sees: failedCalls},
		"foreign_releases":                 {unit: num, of: "release", needs: run | needKeys | said, none: verdict.MissingAnswers, sees: foreigners("released", func(e *facts.Epoch) []*facts.Call { return e.Releases })},
		"foreign_renewals":                 {unit: num, of: "renewal", needs: run | needKeys | said, none: verdict.MissingAnswers, sees: foreigners("renewed", func(e *facts.Epoch) []*facts.Call { return e.Renewals })},
		"stale_writes":                     {unit: num, of: "effect", needs: run | needContended | needLedger | needLegible | needTrusted, none: verdict.MissingEffects, sees: stale},
		"duplicate_epochs":                 {unit: num, of: "grant", needs: run | said, none: verdict.MissingHolders, sees: grantedAgain},
		"vanished":                         {unit: num, of: "grant", needs: needLate | needKeys | said, none: verdict.MissingHolders, sees: keysVanished},
		"fence_regressions":                {unit: num, of: "grant", needs: run, sees: regressed},
		"held":                             {unit: sec, of: "hold", needs: needLate | needHeard, sees: spread, facing: facingSpread},
		"wait":                             {unit: sec, of: "wait", needs: needLate | needHeard, sees: spread, facing: facingSpread},
		"rolling.handovers":                {unit: num, of: "rolling restart", needs: run | needKeys | said, none: verdict.MissingRolls, sees: rolled},
		"rolling.without_leader":           {unit: sec, of: "rolling restart", needs: run | needKeys | said, none: verdict.MissingRolls, sees: rolled},
		"rolling.longest":                  {unit: sec, of: "rolling restart", needs: run | needKeys | said, none: verdict.MissingRolls, sees: rolled},
		"metric":                           {unit: num, needs: needStruck | needSighted, sees: metricOf},
		"logs":                             {unit: num, of: "line", needs: needStruck | needSighted, sees: logMatches},
		"alert.fires":                      {unit: sec, of: "alert", sees: alarm},
		"alert.goes_away":                  {unit: sec, of: "alert", sees: alarm},
		"alert.fired":                      {unit: num, of: "rule", sees: silence},
		"leaderless":                       {unit: sec, of: "leader", needs: needLate | needKeys | said, none: verdict.MissingBelievers, blank: true, sees: leaderless},
		"overlap.lease":                    {unit: sec, of: "grant", needs: run | needKeys | said, none: verdict.MissingHolders, blank: true, sees: leasesOverlapped},
	}
	for name, words := range phrases() {
		table[name].phrase = words
	}
	return table
}

// seenOnly gives the measures that looks at keys answer of an observed system the needs that they have there: nobody says who asked for a
// lock, and what is known of its holders is what looks show, and what replicas say where they are asked.
func seenOnly(table map[string]*measure) map[string]*measure {
	for _, name := range []string{"overlap.effect", "stale_writes", "held", "re_executed", "duplicate_epochs"} {
		table[name].needs = table[name].needs&^needContended | needKeys
	}
	for _, name := range []string{"overlap.belief", "loss_to_fence", "leaderless"} {
		table[name].needs = table[name].needs&^needContended | needAsked
	}
	table["overlap.belief"].needs &^= needKeys
	table["vanished"].needs |= needLegible // effects tell whether a holder was done
	table["overlap.belief"].none, table["overlap.belief"].of = verdict.MissingBelievers, "leader"
	table["unowned_work"].needs |= needLedger | needLegible
	table["lock_debt"].needs |= needLedger | needLegible        // its work is over by its effects
	table["duplicate_epochs"].needs |= needLedger | needLegible // they tell the tokens of grants that no look showed
	return table
}

// measureOf is the row of the table that l is judged by.
func (j *judging) measureOf(l *experiments.Limit) *measure {
	if j.teller(l) != nil {
		return j.measures[rowFor(j.measures, l)+bySignal]
	}
	name := rowFor(j.measures, l)
	if m := j.measures[name+ofWatch]; m != nil && len(j.ix.Exp.Faults) == 0 {
		return m
	}
	return j.measures[name]
}

// rowFor names the row of the table that l is about: that of its part, else of the measure.
func rowFor(table map[string]*measure, l *experiments.Limit) string {
	if name := l.Figure(); table[name] != nil {
		return name
	}
	return l.Measure
}

// figureKey says which limits are about one figure: those of one promise about one part of it. Beside another lock it is measured of both.
type figureKey struct {
	slo        *experiments.SLO
	lock, part string
}

// figureOf measures what l is about, once for all limits on it.
func (j *judging) figureOf(l *experiments.Limit, m *measure) figure {
	of := figureKey{l.SLO, l.Lock, l.Part}
	f, known := j.figures[of]
	if !known {
		f = m.sees(j, l)
		f.complete(j, l, m)
		j.figures[of] = f
	}
	if m.facing != nil {
		m.facing(j, l, &f)
	}
	return f
}

// complete adds what every figure of the measure has: what it counts, and what is missing where there was nothing to count.
func (f *figure) complete(j *judging, l *experiments.Limit, m *measure) {
	if f.of == "" {
		f.of = m.of
	}
	if f.unit == "" {
		f.unit = m.unit
	}
	if m.needs&(needStruck|needKeys) != 0 {
		f.faults, _ = j.exposures(l.Lock)
	}
	if f.n == 0 && m.blank {
		f.Hi = facts.Open
	}
	none := m.none
	if none == verdict.MissingBelievers {
		if none = verdict.MissingHolders; j.asksBelief(l.Lock) {
			none = "" // that nobody said so, or could be asked, is among the needs
		}
	}
	if f.n == 0 && none != "" {
		parameters := []any{l.Lock}
		switch none {
		case verdict.MissingAnswers:
			parameters = []any{m.of, l.Lock}
		case verdict.MissingHolders:
			parameters = append(parameters, j.advice().holders())
		case verdict.MissingJeopardy:
			parameters = append(parameters, j.advice().jeopardy(l.Lock))
		}
		f.lacks = append(f.lacks, verdict.Lacking(none, parameters...))
	}
	f.lacks, f.evidence = slices.Clip(f.lacks), slices.Clip(f.evidence) // limits add to them, each for itself
}

// unlessRead leaves the upper end open where the ledger was not read to its end.
func (f *figure) unlessRead(ix *facts.Facts) {
	if _, final := ix.FinalAt(); !final {
		f.Hi = facts.Open
	}
}
