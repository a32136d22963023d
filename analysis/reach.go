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
	if lock != "" && len(j.ix.keysOf(lock)) == 0 {
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
		if s.applied != nil && s.over.To == open {
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
	if f.Repeat.Answered { // how many it took is said by the percentiles
		want = 1
	}
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
		for _, v := range voids {
			if v.Code == verdict.VoidNotReturned { // the last one that was restarted
				return verdict.Lacking(verdict.MissingReturn, v.Detail, nextForVoid(f, voids, open)), true
			}
		}
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
	if !j.steady() { // no shot is fired before it
		next = j.nextUnsteady()
	} else if len(voids) == 0 || voids[len(voids)-1].Code == verdict.VoidNoTime { // it was not that shots failed: there was no time for them
		next = j.moreTime(next)
	}
	shots := fmt.Sprintf("%d of %s", got, figures.Plural(want, "shot"))
	switch {
	case want == 1:
		shots = "no shot"
	case got == 0:
		shots = "none of the " + figures.Plural(want, "shot")
	}
	return verdict.Lacking(code, f.ID, shots, whys, next), true
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
	case any(verdict.VoidNotReturned):
		return "Find out why the replica did not come back, from its supervisor or from the owner of its pods. Or raise within."
	case any(verdict.VoidBudget):
		return "The PodDisruptionBudget let no pod go: that is its answer to a drain. Let more pods be ready, raise what it allows, or say form: graceful, which goes around it."
	case any(verdict.VoidNoTarget) && f.Aim().Pods != "":
		return "Give labels that ready pods of the drill have: see kill.pods, and lockdrill plan."
	case any(verdict.VoidJobsEnded):
		return "Start the fault before " + figures.Clock(ended) + ", when the last job ended, or offer more jobs."
	case any(verdict.VoidDisputed):
		return "Find out which source of system.holder is wrong, and remove it. lockdrill plan shows what each of them says."
	case any(verdict.VoidUnnamed):
		return "Give system.holder a source that knows the holder. lockdrill plan shows what each of them says now."
	case any(verdict.VoidNoTarget):
		return "Aim the fault at a lock that is held: check holder_of, and that the lock is in use when the fault fires."
	case any(verdict.VoidNoDemand):
		return "Let at least two replicas want the lock."
	case f.Traits().Fails != "" && any(verdict.VoidMoved): // it has no moment to choose
		return "Keep kills apart from the burst: give another `at`, or no allow_overlap."
	case !f.Traits().Kills && any(verdict.VoidMoved):
		return "Aim the fault at a lock that is held most of the time, and keep other faults apart: give another `at`, or no allow_overlap."
	case any(verdict.VoidMoved, verdict.VoidNothingOwed):
		return "Fire while the lock is surely held: phase: after_grant, or on: acquired."
	case any(verdict.VoidUnconfirmed, verdict.VoidNoTime):
		return "Find out why the fault had no effect: see the events of the fault."
	}
	return "Give the run more time (max_run), or more shots (max_kills, max_targets)."
}

// whyEnded says what ended the run early, and what to do about it.
func (j *judging) whyEnded() (why, next string) {
	next = "Run the drill again, to its end."
	if len(j.ix.aborts) == 0 {
		return j.status, next
	}
	note := j.ix.aborts[0].Note
	switch note.What {
	case history.AbortReplicasLost:
		next = j.seeStderr()
	case history.AbortLimit:
		next = "Give the run more time (max_run)."
	case history.AbortKillSwitch:
		next = "Remove the kill switch, and run the drill again."
	case history.AbortWindow:
		next = "Run the drill within its windows, early enough for max_run."
	case history.AbortTargetLost:
		next = "Run the drill again when the other run is over: one at a time in a namespace."
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
		what = p.Phase.Lacks
	}
	unowned := 0
	for _, f := range j.fencings {
		unowned += f.unowned
	}
	lost := slices.ContainsFunc(j.ix.aborts, func(a *history.Event) bool { return a.Note.What == history.AbortReplicasLost })
	switch {
	case lost || what == history.NotReady:
		return j.seeStderr()
	case what == history.NoKnownHolder && unowned > 0:
		return figures.Plural(unowned, "effect") + " came from replicas that did not own their lock. Check that the service renews it, and that it stops when the lock is lost."
	case what == history.NoKnownHolder && j.ix.exp.Kubernetes == nil:
		return "Check the lock's key, and how the name in it leads to a process. lockdrill plan lists the processes and their names."
	case what == history.NoKnownHolder:
		return "Check the lock's lease or key, and kubernetes.holder. lockdrill plan says who holds a lease, and which pod that is."
	}
	return "Check that the replicas start, hold and finish jobs, or give steady_state a longer timeout."
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
		return "Check that the pods' image can be pulled and that they reach both stores (kubernetes.redis, kubernetes.ledger). " +
			"While the run waits, kubectl describe and kubectl logs say more. A pod must be ready within 6 min."
	}
	return fmt.Sprintf("See %s.stderr in the run's folder. A worker must say replica.ready within 20 s.", cmp.Or(last, "<incarnation>"))
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
	return []verdict.Missing{j.unwatched(probe, g)}
}

// unwatched says that a probe did not see g, and why: it looked and got an error, or it came late.
func (j *judging) unwatched(probe string, g history.Span) verdict.Missing {
	long, at, most := figures.Exact(g.Width()), figures.Clock(g.From), figures.Exact(j.ix.maxGap(probe))
	if why := j.ix.probes[probe].failure(g); why != "" {
		return verdict.Lacking(verdict.MissingFailedLooks, probe, long, at, most, why)
	}
	return verdict.Lacking(verdict.MissingLooks, probe, long, at, most)
}

// keysBlind says that nobody looked at the keys of the lock while something may have happened to them. A fault of the store blinds the
// looks for as long as it lasts: that is a gap like any other.
func (j *judging) keysBlind(lock string) []verdict.Missing {
	ix, probe := j.ix, j.ix.looker(lock)
	for _, g := range ix.probes[probe].blinds(j.window(), ix.maxGap(probe)) {
		if !ix.inUse(lock, g) {
			continue
		}
		for _, s := range ix.shots {
			if s.does.AtStore && s.applied != nil && s.applied.From <= g.To && s.over.To >= g.From {
				long, at, most := figures.Exact(g.Width()), figures.Clock(g.From), figures.Exact(ix.maxGap(probe))
				return []verdict.Missing{verdict.Lacking(verdict.MissingStoreLooks, probe, long, at, most, s.op)}
			}
		}
		return []verdict.Missing{j.unwatched(probe, g)}
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
		return []verdict.Missing{verdict.Lacking(verdict.MissingHorizon, figures.Short(horizon-at), j.moreTime("Give the run more time (max_run)."))}
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

// notExposed is the missing evidence of a fault that hit a holder of the lock. Where one was aimed at it and missed, the run lacks that
// already.
func (j *judging) notExposed(lock string) []verdict.Missing {
	for i := range j.ix.exp.Faults {
		if _, missing := j.shotsMissing(&j.ix.exp.Faults[i]); missing && j.ix.exp.Faults[i].Lock() == lock {
			return nil
		}
	}
	return []verdict.Missing{verdict.Lacking(verdict.MissingHits, lock, "Aim a fault at the lock: kill: {holder_of: "+lock+"}.")}
}

// allEnded reports trials of the lock, all of which are of one class by their ends.
func (j *judging) allEnded(lock, class string) bool {
	n := 0
	for _, s := range j.ix.shots {
		for _, t := range s.trials {
			if t.e.lock != lock {
				continue
			}
			if n++; t.class != class {
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
			return j.notExposed(s.lock)
		}
		next := "See why under the faults of this run."
		what := s.class
		switch {
		case s.class == verdict.ClassStore:
			what = "store fault"
		case s.class == verdict.ClassCrash && j.allEnded(s.lock, verdict.ClassHandOver):
			next = "Use form: crash, or form: graceful with a limit that fits. The victims gave the lock back when they were asked to stop, because a delete is no SIGKILL."
		case s.class == verdict.ClassPause && j.allEnded(s.lock, verdict.ClassRecovery):
			next = "Let the fault outlast the lease (`for` above the ttl), or promise no takeover: every holder went on after the fault."
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
