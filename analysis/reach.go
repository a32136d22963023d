package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// missing lists why no question about the lock was reached in this run: the clauses that hold for every measure.
func (j *judging) missingOf(lock string) []verdict.Missing {
	ls := j.runMissing()
	if len(j.ix.keysOf(lock)) == 0 {
		ls = append(ls, verdict.Lacking(verdict.MissingEvents, lock))
	}
	return ls
}

// runMissing are those of them that hold for every lock.
func (j *judging) runMissing() []verdict.Missing {
	var ls []verdict.Missing
	add := func(code verdict.MissingCode, parameters ...any) {
		ls = append(ls, verdict.Lacking(code, parameters...))
	}
	ix := j.ix
	switch j.status {
	case verdict.StatusCompleted:
	case verdict.StatusCutOff:
		add(verdict.MissingEnd)
	default:
		why, next := j.whyEnded()
		add(verdict.MissingCompletion, why, next)
	}
	if !j.steady() {
		add(verdict.MissingSteadyState, j.whyUnsteady(), j.nextUnsteady())
	}
	for i := range ix.exp.Faults {
		if l, short := j.shotsMissing(&ix.exp.Faults[i]); short {
			ls = append(ls, l)
		}
	}
	for _, s := range ix.shots {
		if s.does.Unknown {
			add(verdict.MissingKind, s.op, s.kind)
		}
		if s.applied != nil && s.ended().To == open {
			add(verdict.MissingFaultEnd, s.op)
		}
	}
	for _, why := range ix.lostLedger {
		add(verdict.MissingLedger, why)
	}
	for _, what := range ix.damage.text() {
		add(verdict.MissingRecord, what)
	}
	if ix.header.Mode == history.Rehearsal {
		add(verdict.MissingLiveSystem)
	}
	return ls
}

// shotsMissing says what a declared fault missing of its declared number of confirmed shots: each with a trial, where it is aimed at the
// holder of a lock and may cost it the lease.
func (j *judging) shotsMissing(f *experiments.Fault) (verdict.Missing, bool) {
	want, got := max(1, f.Repeat.Count), 0
	var voids []verdict.Void
	for _, s := range j.ix.shots {
		if s.id != f.ID {
			continue
		}
		if s.valid() {
			got++
			continue
		}
		if v := s.reasonVoid(); len(voids) == 0 || voids[len(voids)-1] != v {
			voids = append(voids, v)
		}
	}
	if got >= want {
		return verdict.Missing{}, false
	}
	code, whys := verdict.MissingTrials, ""
	if f.Lock() == "" || f.Traits().Class == "" {
		code = verdict.MissingConfirmations
	}
	for i, v := range voids[:min(3, len(voids))] {
		whys += []string{" (", "; "}[min(i, 1)] + v.String()
	}
	if whys != "" {
		whys += ")"
	}
	end, _ := j.ix.jobsEnd(f.Lock())
	next := nextForVoid(f, voids, end)
	if len(voids) == 0 || voids[len(voids)-1].Code == verdict.VoidNoTime { // it was not that shots failed: there was no time for them
		next = j.moreTime(next)
	}
	return verdict.Lacking(code, f.ID, got, want, whys, next), true
}

// moreTime is the advice to what there was no time for: longer, but where the run was ended by something else than its limit.
func (j *judging) moreTime(longer string) string {
	if len(j.ix.aborts) == 0 {
		return longer
	}
	_, next := j.whyEnded()
	return next
}

// nextForVoid advises by the reasons for which shots were void. ended is when the last job of the fault's lock had ended, if all had.
func nextForVoid(f *experiments.Fault, voids []verdict.Void, ended int64) string {
	any := func(codes ...verdict.VoidCode) bool {
		return slices.ContainsFunc(voids, func(v verdict.Void) bool { return slices.Contains(codes, v.Code) })
	}
	switch {
	case any(verdict.VoidNoTarget) && f.Aim().Pods != "":
		return "say labels that living, ready pods of the drill have: see kill.pods, and what lockdrill plan says of it"
	case any(verdict.VoidJobsEnded):
		return "the jobs had ended: start the fault while they run (the last one ended at " + figures.Clock(ended) + "), or offer more jobs"
	case any(verdict.VoidDisputed):
		return "find out which source of system.holder is wrong (lockdrill plan shows what each of them says), and take it out"
	case any(verdict.VoidUnnamed):
		return "give system.holder a source that can tell: lockdrill plan shows what each of them says of this moment"
	case any(verdict.VoidNoTarget):
		return "aim the fault at a lock that is held: check holder_of, and that the lock is in use when the fault fires"
	case any(verdict.VoidNoDemand):
		return "let at least two replicas want the lock"
	case f.Traits().Fails != "" && any(verdict.VoidMoved): // it has no moment to choose
		return "keep kills apart from the burst: another `at`, or no allow_overlap"
	case !f.Traits().Kills && any(verdict.VoidMoved):
		return "aim it at a lock that is held most of the time, and keep other faults apart: another `at`, or no allow_overlap"
	case any(verdict.VoidMoved, verdict.VoidNothingOwed):
		return "fire while the lock is surely held: phase: after_grant, or on: acquired"
	case any(verdict.VoidUnconfirmed, verdict.VoidNoTime):
		return "find out why the fault had no effect: see the fault's events"
	}
	return "give the run more time (max_run), or more shots (max_kills, max_targets)"
}

// whyEnded says what ended the run early, and what to do about it.
func (j *judging) whyEnded() (why, next string) {
	next = "run it again, to its end"
	if len(j.ix.aborts) == 0 {
		return j.status, next
	}
	note := j.ix.aborts[0].Note
	switch note.What {
	case history.AbortReplicasLost:
		next = j.seeStderr()
	case history.AbortLimit:
		next = "give the run more time (max_run)"
	case history.AbortKillSwitch:
		next = "take the kill switch away, and run it again"
	case history.AbortWindow:
		next = "run it within its windows, early enough for max_run"
	case history.AbortTargetLost:
		next = "run it again when the other run is over: one at a time in a namespace"
	}
	return abortText(note), next
}

// abortText is the word of an abort and its sentence, where the sentence does not begin with the word.
func abortText(n *history.Note) string {
	if n.Why == "" || strings.HasPrefix(n.Why, n.What) {
		return cmp.Or(n.Why, n.What)
	}
	return strings.ReplaceAll(n.What, "_", " ") + ": " + n.Why
}

// steady reports whether the steady state held before the first fault.
func (j *judging) steady() bool {
	p := j.ix.phases[history.PhaseFaults]
	return p != nil && p.Phase.Holds != nil && *p.Phase.Holds
}

func (j *judging) whyUnsteady() string {
	if p := j.ix.phases[history.PhaseFaults]; p != nil && p.Phase.Why != "" {
		return ": " + p.Phase.Why
	}
	return ""
}

func (j *judging) nextUnsteady() string {
	var what history.Unsteady
	if p := j.ix.phases[history.PhaseFaults]; p != nil {
		what = p.Phase.Unsteady()
	}
	lost := slices.ContainsFunc(j.ix.aborts, func(a *history.Event) bool { return a.Note.What == history.AbortReplicasLost })
	switch {
	case lost || what == history.NotReady:
		return j.seeStderr()
	case what == history.NoKnownHolder && j.ix.exp.Kubernetes == nil:
		return "check the lock's key, and how the name in it leads to a process: lockdrill plan says which processes there are, and what each is called"
	case what == history.NoKnownHolder:
		return "check the lock's lease or key, and kubernetes.holder: lockdrill plan says who holds a lease, and which pod that is"
	}
	return "check that the replicas start, hold and finish jobs; or give steady_state a longer timeout"
}

// seeStderr points at what the last replica that never became ready had to say.
func (j *judging) seeStderr() string {
	last := ""
	for _, ev := range j.ix.starts {
		who := ev.Replica.Incarnation
		if _, ready := j.ix.ready[who]; !ready {
			last = who
		}
	}
	if j.ix.exp.Kubernetes != nil {
		return "can the pods' image be pulled, and do they reach both stores (kubernetes.redis, kubernetes.ledger)? " +
			"While the run waits, kubectl describe and kubectl logs say more; a pod must be ready within 6 min"
	}
	return fmt.Sprintf("see %s.stderr in the run's folder; a worker must say replica.ready within 20 s", cmp.Or(last, "<incarnation>"))
}

// window is the stretch that measures of the whole run are judged in: from the first fault to the final reads.
func (j *judging) window() history.Span {
	w := history.Span{To: j.ix.last}
	if p := j.ix.phases[history.PhaseFaults]; p != nil {
		w.From = p.From
	}
	if at, ok := j.ix.finalAt(); ok {
		w.To = at
	}
	return w
}

// blind says that the probe did not watch all of w. The ledger keeps what it was told, in order: a late look at it misses
// nothing and only widens the brackets of what it finds, which the ranges carry already. So it counts as watched where its final
// read was complete (docs/decisions/0006); a key's state that nobody looked at is gone.
func (j *judging) blind(probe string, w history.Span) []verdict.Missing {
	if c := j.ix.probes[probe]; isLedger(probe) && c != nil && c.final != nil {
		return nil
	}
	g, blind := j.ix.probes[probe].blind(w, j.ix.maxGap(probe))
	if !blind {
		return nil
	}
	return []verdict.Missing{verdict.Lacking(verdict.MissingLooks, probe, figures.Exact(g.Width()), figures.Clock(g.From), figures.Exact(j.ix.maxGap(probe)))}
}

// keysBlind says that nobody looked at the keys of the lock while something may have happened to them. A fault of the store blinds the
// looks for as long as it lasts: that is a gap like any other.
func (j *judging) keysBlind(lock string) []verdict.Missing {
	ix, probe := j.ix, j.ix.looker(lock)
	for _, g := range ix.probes[probe].blinds(j.window(), ix.maxGap(probe)) {
		if !ix.inUse(lock, g) {
			continue
		}
		long, at, most := figures.Exact(g.Width()), figures.Clock(g.From), figures.Exact(ix.maxGap(probe))
		for _, s := range ix.shots {
			if s.does.AtStore && s.applied != nil && s.applied.From <= g.To && s.ended().To >= g.From {
				return []verdict.Missing{verdict.Lacking(verdict.MissingStoreLooks, probe, long, at, most, s.op)}
			}
		}
		return []verdict.Missing{verdict.Lacking(verdict.MissingLooks, probe, long, at, most)}
	}
	return nil
}

// inUse reports that during g a key of the lock may have been held, worked under, or asked for.
func (ix *Facts) inUse(lock string, g history.Span) bool {
	if !ix.claimed[lock] {
		return true
	}
	touches := func(from, to int64) bool { return from <= g.To && to >= g.From }
	flight := int64(max(ix.policy(lock).OpTimeout, ix.policy(lock).Acquire.Timeout))
	for _, k := range ix.keysOf(lock) {
		for _, e := range k.epochs {
			if touches(e.granted.From, max(e.life.end.To, e.stop().To)) {
				return true
			}
		}
		for _, c := range k.attempts {
			if touches(c.sent.From, c.applied(flight).To) {
				return true
			}
		}
	}
	return false
}

// unseen says that the run ended before a breach of this lock would have shown.
func (j *judging) unseen(lock string) []verdict.Missing {
	at, ok := j.ix.finalAt()
	if !ok {
		if j.ix.exp.Observed() {
			return []verdict.Missing{verdict.Lacking(verdict.MissingLockRead)}
		}
		return []verdict.Missing{verdict.Lacking(verdict.MissingLedgerRead)}
	}
	if horizon, faulted := j.ix.horizon(lock); faulted && at < horizon {
		return []verdict.Missing{verdict.Lacking(verdict.MissingHorizon, figures.Short(horizon-at), j.moreTime("give the run more time (max_run)"))}
	}
	return nil
}

// ledgerMissing are the clauses for measures of the whole run that lean on the ledger.
func (j *judging) ledgerMissing(lock string) []verdict.Missing {
	return append(j.blind(j.ix.ledgerOf(lock), j.window()), j.unseen(lock)...)
}

// claimsMissing are the clauses for measures of the whole run that lean on claims and key looks.
func (j *judging) claimsMissing(lock string) []verdict.Missing {
	return slices.Concat(j.keysBlind(lock), j.unseen(lock), j.garbled(), j.doubted(lock))
}

// garbled says that claims were lost: a line that could not be read may have been the one that matters.
func (j *judging) garbled() []verdict.Missing {
	for _, ev := range j.ix.exits {
		if r := ev.Replica; r.Bad > 0 {
			return []verdict.Missing{verdict.Lacking(verdict.MissingLines, r.Incarnation, figures.Plural(r.Bad, "line"))}
		}
		if n := ev.Replica.Unheard; n > 0 {
			return []verdict.Missing{verdict.Lacking(verdict.MissingStreamLines, ev.Replica.Incarnation, figures.Plural(n, "line"))}
		}
	}
	return nil
}

// exposures counts the independent faults that struck the lock, and those of them during which somebody else asked for the key while
// the victim still owned it.
func (j *judging) exposures(lock string) (exposed, contended int) {
	for _, s := range j.ix.shots {
		if !s.effective() || !s.locks[lock] || j.ix.leavesOut(s) {
			continue
		}
		exposed++
		if s.contended[lock] {
			contended++
		}
	}
	return exposed, contended
}

// wanted reports that another incarnation asked for the key after the fault, while e still owned it, or its holder still relied on it.
func (ix *Facts) wanted(s *shot, e *epoch) bool {
	until := e.life.end.To
	if e.belief != nil {
		until = max(until, e.belief.end.To)
	}
	return slices.ContainsFunc(ix.keys[e.key].attempts, func(c *call) bool {
		return c.source != e.replica && c.source != s.victim && c.span.To >= max(s.applied.From, e.granted.From) && c.sent.From <= until
	})
}

// notExposed is the missing evidence of a fault that hit a holder of the lock. Where one was aimed at it and missed, the advice is that fault's.
func (j *judging) notExposed(lock string) verdict.Missing {
	next := "aim a fault at it: kill: {holder_of: " + lock + "}"
	for i := range j.ix.exp.Faults {
		if l, missing := j.shotsMissing(&j.ix.exp.Faults[i]); missing && j.ix.exp.Faults[i].Lock() == lock {
			next = l.Next
			break
		}
	}
	return verdict.Lacking(verdict.MissingHits, lock, next)
}

// onlyRecovered reports trials of the lock, all of which ended with the victim itself.
func (j *judging) onlyRecovered(lock string) bool {
	n := 0
	for _, s := range j.ix.shots {
		for _, t := range s.trials {
			if t.e.lock != lock {
				continue
			}
			if n++; t.class != verdict.ClassRecovery {
				return false
			}
		}
	}
	return n > 0
}

// takeoverMissing are the clauses for takeover and tick_gap: something was measured, and the ledger was watched while it was.
func (j *judging) takeoverMissing(s series) []verdict.Missing {
	var ls []verdict.Missing
	if len(s.kills) == 0 {
		if exposed, _ := j.exposures(s.lock); exposed == 0 {
			return []verdict.Missing{j.notExposed(s.lock)}
		}
		next := "see the faults' why"
		what := s.class
		switch {
		case s.class == verdict.ClassStore:
			what = "store fault"
		case s.class == verdict.ClassCrash && j.handsOver(s.lock):
			next = "the victims gave the lock back when they were asked to stop: a delete is no SIGKILL. Use form: crash, or form: graceful and promise what that takes"
		case s.class == verdict.ClassPause && j.onlyRecovered(s.lock):
			next = "every holder went on after the fault: let it outlast the lease (`for` above the ttl), or promise no takeover"
		}
		return []verdict.Missing{verdict.Lacking(verdict.MissingTakeovers, s.lock, what, next)}
	}
	probes := []string{j.ix.witness(s.lock)}
	if j.ix.exp.Observed() && isLedger(probes[0]) { // who holds, and until when, is seen in the keys alone
		probes = append(probes, j.ix.looker(s.lock))
	}
	for _, k := range s.kills {
		w := history.Span{From: k.shot.applied.From, To: k.shot.applied.To}
		for _, t := range k.trials {
			if t.value.hi != open {
				w.To = max(w.To, k.shot.applied.From+t.value.hi)
			}
		}
		for _, probe := range probes {
			ls = append(ls, j.blind(probe, w)...)
		}
		if len(ls) > 0 {
			break
		}
	}
	return ls
}
