package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// lacks lists why no question about the lock was reached in this run: the clauses that hold for every measure.
func (j *judging) lacks(lock string) []lack {
	ls := j.runLacks()
	if len(j.ix.keysOf(lock)) == 0 {
		ls = append(ls, lack{"lock " + lock + " has no events at all", "check that somebody uses the lock: its loop's key, or jobs under `work`"})
	}
	return ls
}

// runLacks are those of them that hold for every lock.
func (j *judging) runLacks() []lack {
	var ls []lack
	add := func(why, next string) { ls = append(ls, lack{why, next}) }
	ix := j.ix
	switch j.status {
	case verdict.StatusCompleted:
	case verdict.StatusCutOff:
		add("the history has no end: the run was killed, or its record was cut off", "run it again")
	default:
		why, next := j.whyEnded()
		add("the run did not come to its end ("+why+")", next)
	}
	if !j.steady() {
		add("the steady state was not reached before the first fault"+j.whyUnsteady(), j.nextUnsteady())
	}
	for i := range ix.exp.Faults {
		if l, short := j.faultLack(&ix.exp.Faults[i]); short {
			ls = append(ls, l)
		}
	}
	for _, s := range ix.shots {
		if s.applied != nil && s.ended().To == open {
			add("fault "+s.op+" was not seen to end before the final reads", "check the clean-up of the run")
		}
	}
	for _, why := range ix.lostLedger {
		add(why+": a ledger that lost entries proves nothing", "keep the ledger in a store of its own, and run again")
	}
	if ix.header.Mode == history.Rehearsal {
		add("this is a rehearsal in virtual time", "run it live")
	}
	return ls
}

// faultLack says what a declared fault lacks of its declared number of confirmed shots: each with a trial, where it is aimed at the
// holder of a lock and may cost it the lease.
func (j *judging) faultLack(f *experiments.Fault) (lack, bool) {
	want, got := max(1, f.Repeat.Count), 0
	var whys []string
	for _, s := range j.ix.shots {
		if s.id != f.ID {
			continue
		}
		if s.valid() {
			got++
			continue
		}
		if w := s.reasonVoid(); len(whys) == 0 || whys[len(whys)-1] != w {
			whys = append(whys, w)
		}
	}
	if got >= want {
		return lack{}, false
	}
	why := fmt.Sprintf("fault %s: %d of %d shots were confirmed and gave a trial", f.ID, got, want)
	if f.Lock() == "" || forecast.ClassOf(f.Kind(), f.Form()) == "" {
		why = fmt.Sprintf("fault %s: %d of %d shots were confirmed", f.ID, got, want)
	}
	if len(whys) > 0 {
		why += " (" + strings.Join(whys[:min(3, len(whys))], "; ") + ")"
	}
	next := nextForVoid(f, strings.Join(whys, " "))
	if len(whys) == 0 || strings.Contains(whys[len(whys)-1], "the run ended before") { // it was not that shots failed: there was no time for them
		next = j.moreTime(next)
	}
	return lack{why, next}, true
}

// moreTime is the advice to what there was no time for: longer, but where the run was ended by something else than its limit.
func (j *judging) moreTime(longer string) string {
	if len(j.ix.aborts) == 0 {
		return longer
	}
	_, next := j.whyEnded()
	return next
}

// nextForVoid advises by the reason for which shots were void.
func nextForVoid(f *experiments.Fault, whys string) string {
	switch {
	case strings.Contains(whys, "no_target") && f.Kill != nil && len(f.Kill.Pods) > 0:
		return "say labels that living, ready pods of the drill have: see kill.pods, and what lockdrill plan says of it"
	case strings.Contains(whys, "no_target"):
		return "aim the fault at a lock that is held: check holder_of, and that the lock is in use when the fault fires"
	case strings.Contains(whys, "no demand"):
		return "let at least two replicas want the lock"
	case f.Failures() != nil && strings.Contains(whys, "moved"): // it has no moment to choose
		return "keep kills apart from the burst: another `at`, or no allow_overlap"
	case f.Kill == nil && strings.Contains(whys, "moved"):
		return "aim it at a lock that is held most of the time, and keep other faults apart: another `at`, or no allow_overlap"
	case strings.Contains(whys, "moved"), strings.Contains(whys, "nothing owed"):
		return "fire while the lock is surely held: phase: after_grant, or on: acquired"
	case strings.Contains(whys, "unconfirmed"):
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
	case "replicas_lost":
		next = j.seeStderr()
	case "limit":
		next = "give the run more time (max_run)"
	case "kill_switch":
		next = "take the kill switch away, and run it again"
	case "window":
		next = "run it within its windows, early enough for max_run"
	case "target_lost":
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
	lost := slices.ContainsFunc(j.ix.aborts, func(a *history.Event) bool { return a.Note.What == "replicas_lost" })
	if lost || strings.Contains(j.whyUnsteady(), "not ready") {
		return j.seeStderr()
	}
	if strings.Contains(j.whyUnsteady(), "no pod that is known holds") {
		return "check the lock's lease or key, and kubernetes.holder: lockdrill plan says who holds a lease, and which pod that is"
	}
	return "check that the replicas start, hold and finish jobs; or give steady_state a longer timeout"
}

// seeStderr points at what the last replica that never became ready had to say.
func (j *judging) seeStderr() string {
	last := ""
	for _, ev := range j.ix.starts {
		if who := ev.Replica.Incarnation; !j.ix.ready[who] {
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
func (j *judging) blind(probe string, w history.Span) []lack {
	if c := j.ix.probes[probe]; probe == probeLedger && c != nil && c.final != nil {
		return nil
	}
	g, blind := j.ix.probes[probe].blind(w, j.ix.maxGap(probe))
	if !blind {
		return nil
	}
	return []lack{{
		fmt.Sprintf("probe %s was blind for %s at %s, max_gap is %s", probe, figures.Exact(g.Width()), figures.Clock(g.From), figures.Exact(j.ix.maxGap(probe))),
		"keep the machine less busy, probe less often, or allow a larger max_gap",
	}}
}

// keysBlind says that nobody looked at the keys of the lock while something may have happened to them. A fault of the store blinds the
// looks for as long as it lasts: that is a gap like any other.
func (j *judging) keysBlind(lock string) []lack {
	ix, probe := j.ix, j.ix.looker(lock)
	for _, g := range ix.probes[probe].blinds(j.window(), ix.maxGap(probe)) {
		if !ix.inUse(lock, g) {
			continue
		}
		l := lack{
			fmt.Sprintf("probe %s was blind for %s at %s, max_gap is %s", probe, figures.Exact(g.Width()), figures.Clock(g.From), figures.Exact(ix.maxGap(probe))),
			"keep the machine less busy, probe less often, or allow a larger max_gap",
		}
		for _, s := range ix.shots {
			if s.kind == experiments.KindStore && s.applied != nil && s.applied.From <= g.To && s.ended().To >= g.From {
				l.why += ": fault " + s.op + " had the locks' store"
				l.next = "under a fault of the store ask what the ledger shows (takeover, duplicates, overlap at level effect), or keep it within max_gap"
				break
			}
		}
		return []lack{l}
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
func (j *judging) unseen(lock string) []lack {
	at, ok := j.ix.finalAt()
	if !ok {
		what := "the ledger was not read to its end"
		if j.ix.exp.Observed() {
			what = "the locks were not looked at a last time"
		}
		return []lack{{what + " after the last fault", "let the run go on to its final reads"}}
	}
	if horizon, faulted := j.ix.horizon(lock); faulted && at < horizon {
		return []lack{{
			fmt.Sprintf("the final reads came %s before the horizon: a late breach would not have been seen", figures.Short(horizon-at)),
			j.moreTime("give the run more time (max_run)"),
		}}
	}
	return nil
}

// ledgerLacks are the clauses for measures of the whole run that lean on the ledger.
func (j *judging) ledgerLacks(lock string) []lack {
	return append(j.blind(probeLedger, j.window()), j.unseen(lock)...)
}

// claimLacks are the clauses for measures of the whole run that lean on claims and key looks.
func (j *judging) claimLacks(lock string) []lack {
	return slices.Concat(j.keysBlind(lock), j.unseen(lock), j.garbled())
}

// garbled says that claims were lost: a line that could not be read may have been the one that matters.
func (j *judging) garbled() []lack {
	for _, ev := range j.ix.exits {
		if r := ev.Replica; r.Bad > 0 {
			return []lack{{
				fmt.Sprintf("%s wrote %s that could not be read as events: what it claimed is not whole", r.Incarnation, figures.Plural(r.Bad, "line")),
				"repair the worker; the first such line is in its replica.exit event",
			}}
		}
		if n := ev.Replica.Unheard; n > 0 {
			return []lack{{
				fmt.Sprintf("%s wrote %s to its log that never came through the stream: what it claimed is not whole", ev.Replica.Incarnation, figures.Plural(n, "line")),
				"see what stands between the pods and the ledger's store",
			}}
		}
	}
	return nil
}

// exposures counts the independent faults that struck the lock, and those of them during which somebody else asked for the key while
// the victim still owned it.
func (j *judging) exposures(lock string) (exposed, contended int) {
	for _, s := range j.ix.shots {
		if !s.effective() || !s.locks[lock] {
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

// notExposed is the lack of a fault that hit a holder of the lock. Where one was aimed at it and missed, the advice is that fault's.
func (j *judging) notExposed(lock string) lack {
	next := "aim a fault at it: kill: {holder_of: " + lock + "}"
	for i := range j.ix.exp.Faults {
		if l, lacks := j.faultLack(&j.ix.exp.Faults[i]); lacks && j.ix.exp.Faults[i].Lock() == lock {
			next = l.next
			break
		}
	}
	return lack{"no confirmed fault hit a holder of lock " + lock, next}
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

// takeoverLacks are the clauses for takeover and tick_gap: something was measured, and the ledger was watched while it was.
func (j *judging) takeoverLacks(s series) []lack {
	var ls []lack
	if len(s.kills) == 0 {
		if exposed, _ := j.exposures(s.lock); exposed == 0 {
			return []lack{j.notExposed(s.lock)}
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
		return []lack{{"no trial of lock " + s.lock + " is a " + what + " that others took over", next}}
	}
	probe := j.ix.witness(s.lock)
	for _, k := range s.kills {
		w := history.Span{From: k.shot.applied.From, To: k.shot.applied.To}
		for _, t := range k.trials {
			if t.value.hi != open {
				w.To = max(w.To, k.shot.applied.From+t.value.hi)
			}
		}
		if l := j.blind(probe, w); l != nil {
			ls = append(ls, l...)
			break
		}
	}
	return ls
}
