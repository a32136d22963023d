package analysis

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// noJobs is code of the lock, where the jobs are lockdrill's own; else that the source of the effects told of none, or of no end.
func (j *judging) noJobs(code verdict.MissingCode, lock string) verdict.Missing {
	x := j.ix.Exp.EffectsOf(lock)
	switch {
	case !j.ix.Exp.Observed() || x == nil:
		return verdict.Lacking(code, lock)
	case j.ix.Probes[x.Probe()].NeverLooked():
		return j.unwatched(x.Probe(), j.window())
	case j.at[lock].dups.Jobs == 0:
		return verdict.Lacking(verdict.MissingForeignJobs, lock, x.Source())
	}
	return verdict.Lacking(verdict.MissingForeignEnds, lock, strings.Join(x.Map.Terminal, ", "))
}

// duplicated counts terminal writes that were applied beyond the first of each job.
func duplicated(j *judging, l *experiments.Limit) figure {
	d := j.at[l.Lock].dups
	f := figure{Value: facts.Tally{Lo: d.Extra, Hi: d.Extra + d.Maybe}.Value(), n: d.Finished}
	f.saw = fmt.Sprintf("%s too many in %s that finished", figures.Count(d.Extra), figures.Plural(d.Finished, "job"))
	if d.Maybe > 0 {
		f.saw += fmt.Sprintf("; %d more may be retries", d.Maybe)
		f.unsure = []verdict.Missing{verdict.Lacking(verdict.MissingOperations, l.Lock)}
	}
	if _, final := j.ix.FinalAt(); !final && d.Open > 0 {
		f.saw += fmt.Sprintf("; the outcome of %s is unknown", figures.Plural(d.Open, "terminal write"))
	}
	if d.Prevented > 0 {
		f.saw += fmt.Sprintf("; the ledger prevented %d more", d.Prevented)
	}
	f.unlessRead(j.ix)
	for _, x := range d.List {
		f.evidence = append(f.evidence, x.Evidence...)
	}
	if len(d.List) > 0 {
		f.why, f.next = d.List[0].Sentence(), j.ix.DuplicateAdvice(&d.List[0])
	}
	return f
}

// executedAgain counts work that was done again.
func executedAgain(j *judging, l *experiments.Limit) figure {
	t, evidence := j.ix.ReExecuted(l.Lock)
	d := j.at[l.Lock].dups
	f := figure{Value: t.Value(), n: d.Finished, evidence: evidence, hints: hints{
		saw:    fmt.Sprintf("%s executed again, and %s more that had been cut off, of %s", figures.Count(t.Lo), figures.Count(t.Hi-t.Lo), figures.Plural(d.Jobs, "job")),
		why:    "Work that a killed holder had done and not yet written is done again",
		closer: "Raise the limit, or use smaller steps: work that was cut off cannot be told from work that was done again.",
	}}
	if t.Hi > t.Lo && j.ix.Unwritten(l.Lock) {
		f.unsure = []verdict.Missing{verdict.Lacking(verdict.MissingWriters, l.Lock)}
	}
	return f
}

// stranded counts work that was still open at the horizon.
func stranded(j *judging, l *experiments.Limit) figure {
	t, evidence, known := j.ix.StrandedOf(l.Lock)
	d := j.at[l.Lock].dups
	f := figure{Value: t.Value(), n: d.Jobs - int(j.ix.NotDue(l.Lock)), evidence: evidence}
	if !known {
		f.Hi = facts.Open
	}
	if j.ix.Exp.Observed() {
		f.closer = "Give such jobs the time to end: after its last fault a run looks for as long as the longest takeover that is promised. Promise one that is longer than a job takes."
	}
	switch of := j.ix.Exp.Lock(l.Lock); {
	case of != nil && of.Loop():
		f.saw = fmt.Sprintf("Nobody took the loop over, %d times", t.Lo)
	case d.Jobs == 0:
		f.lacks = []verdict.Missing{j.noJobs(verdict.MissingOffers, l.Lock)}
	case of != nil && of.Keyless() && !j.ix.TellsOpen(l.Lock):
		f.lacks = []verdict.Missing{verdict.Lacking(verdict.MissingOpenJobs, l.Lock)}
	}
	return f
}

// regressed counts fences that did not grow.
func regressed(j *judging, l *experiments.Limit) figure {
	var f figure
	for _, k := range j.ix.KeysOf(l.Lock) {
		f.Lo += int64(len(k.Regressions))
		for _, r := range k.Regressions {
			f.evidence = append(f.evidence, r.Late.N, r.Early.N)
			if f.why == "" {
				f.why = fmt.Sprintf("Key %s: epoch %s was granted fence %d after epoch %s had %d", k.Name, r.Late.ID, r.Late.Fence, r.Early.ID, r.Early.Fence)
			}
		}
		for _, e := range k.Epochs {
			if e.Fence != 0 {
				f.n++
			}
		}
	}
	f.saw = fmt.Sprintf("%s in %s", figures.Plural(f.Lo, "fence regression"), figures.Plural(f.n, "grant"))
	if f.Hi = f.Lo; f.n < 2 {
		f.Hi = facts.Open
		f.lacks = []verdict.Missing{verdict.Lacking(verdict.MissingFences, l.Lock)}
	}
	f.refusedOwner(j.at[l.Lock].fencing)
	return f
}

// overlapped is for how long more than one believed to hold the lock, or worked under it.
func overlapped(j *judging, l *experiments.Limit) figure {
	o := j.ix.TimeOverlap(l.Lock, l.Part)
	f := figure{Value: facts.Value{Dur: o.Dur}, n: o.N, evidence: o.Evidence, hints: hints{why: o.Who}}
	if who := j.ix.UnseenEnd(l.Lock); who != "" {
		f.closer = "Follow the pods' logs from before the kill, or use form: crash. Nobody saw the process of " + who + " end, so it may have gone on."
	}
	kept := j.ix.Exp.Observed() && l.Side == experiments.SideMost && l.Share == 0 && f.Hi <= l.At // with what was said before the pause counted
	if l.Part == verdict.LevelBelief && !kept && j.paused(l.Lock) {
		f.unfit = "A holder was paused. No lock can keep a paused process from believing that it holds the lock, so overlap of belief is not judged."
		f.next = "Under a pause, judge overlap at level " + map[bool]string{true: "lease", false: "work"}[j.ix.Exp.Observed()] + " or effect."
	}
	return f
}

// paused reports a pause that struck somebody who believed to hold the lock.
func (j *judging) paused(lock string) bool {
	if j.ix.Exp.Observed() {
		return j.ix.BelievedWhileStanding(lock)
	}
	for _, s := range j.ix.Shots {
		struck := s.Struck()
		if s.Does.Stands == 0 || struck == nil {
			continue
		}
		for _, e := range s.MayHit(j.ix) {
			if b := e.Belief; e.Lock == lock && b != nil && b.Start.From <= s.Over.To && b.End.To >= struck.From {
				return true
			}
		}
	}
	return false
}

// fenced counts stale and unowned effects.
func fenced(j *judging, l *experiments.Limit) figure {
	x := j.at[l.Lock].fencing
	f := j.written(l, x, x.Dur, x.Evidence)
	f.saw = fmt.Sprintf("%s stale and %s unowned of %s", figures.Count(x.Stale), figures.Count(x.Unowned), figures.Plural(x.N, "effect"))
	if x.Refused > 0 {
		f.saw += fmt.Sprintf("; the fence refused %d stale ones", x.Refused)
	}
	if x.Stale == 0 && x.Unowned > 0 {
		f.next = "Let the resource compare the lock's value in the same step that writes: a write may be on its way when the lease ends, and no fence refuses a holder that is not yet superseded. Renew more often, so that a lost lease is noticed sooner."
	}
	f.refusedOwner(x)
	return f
}

// stale counts the writes that took effect although a later holder had written before them.
func stale(j *judging, l *experiments.Limit) figure {
	x := j.at[l.Lock].fencing
	f := j.written(l, x, facts.Tally{Lo: x.Stale, Hi: x.MayBeStale}.Value().Dur, x.StaleEvidence)
	f.saw = fmt.Sprintf("%s of %s came after one of a later holder", figures.Count(x.Stale), figures.Plural(x.N, "effect"))
	return f
}

// authorless says what would tell whose n effects are.
func (j *judging) authorless(lock string, n int) verdict.Missing {
	next := "Let the effects carry the token of the lock (map.token), and look at its keys more often (probes.lock_keys: {every: ...})."
	if x := j.ix.Exp.EffectsOf(lock); x != nil && x.Map.Token != "" {
		next = "Look at its keys more often (probes.lock_keys: {every: ...}), or on a less busy machine."
		if len(x.Map.Begin) == 0 && x.Map.State != "" {
			next = "Say in map.begin which states show a holder at work, where others are written under no lock, such as that a job waits. Else l" + next[1:]
		}
	}
	return verdict.Lacking(verdict.MissingAuthors, lock, figures.Plural(n, "effect"), next)
}

// written is a count of writes that came too late, and what keeps it from being one.
func (j *judging) written(l *experiments.Limit, x facts.Fencing, count facts.Dur, evidence []int64) figure {
	f := figure{Value: facts.Value{Dur: count}, n: x.N, evidence: evidence}
	if f.unlessRead(j.ix); x.N == 0 {
		f.Hi = facts.Open
	}
	for _, k := range j.ix.KeysOf(l.Lock) {
		if k.Broken {
			f.lacks = append(f.lacks, verdict.Lacking(verdict.MissingOrder, k.Name))
			break
		}
	}
	if j.ix.Exp.Observed() {
		f.next = "Let the resource compare fences, or the lock's value, in the same step that writes; and let the holder stop before its lease ends."
	}
	if x.Undecided > 0 {
		f.unsure = []verdict.Missing{j.authorless(l.Lock, x.Undecided)}
	}
	f.lacks = append(f.lacks, j.unsucceeded(l.Lock)...)
	return f
}

// unsucceeded says that a fault struck an observed lock, and nobody else was granted it afterwards: who might have collided is not known.
func (j *judging) unsucceeded(lock string) []verdict.Missing {
	exposed, _ := j.exposures(lock)
	if exposed == 0 || !j.ix.Exp.Observed() || j.ix.Succeeded(lock) {
		return nil
	}
	next := "Let at least two replicas want the lock."
	if l := j.ix.Exp.Lock(lock); l != nil && !l.Loop() {
		next = "Let another replica take the jobs of one that is gone: nobody was granted such a job's key after the fault."
	}
	if j.allEnded(lock, verdict.ClassRecovery) {
		next = j.moreTime(j.advice().outlast(lock, func(f *experiments.Fault) bool { return f.Traits().Class == verdict.ClassPause }))
	}
	return []verdict.Missing{verdict.Lacking(verdict.MissingContenders, lock, next)}
}

// refusedOwner breaks the promise where the resource refused the one who rightfully held the lock: there the fence did not work.
func (f *figure) refusedOwner(x facts.Fencing) {
	if len(x.OwnerRejected) == 0 {
		return
	}
	first := x.OwnerRejected[0]
	f.broken = fmt.Sprintf("The ledger refused %s of the rightful owner, first of epoch %s with fence %d", figures.Plural(len(x.OwnerRejected), "write"), first.Epoch.ID, first.Fence)
	f.next = adviceOnFences
	for _, w := range x.OwnerRejected {
		f.evidence = append(f.evidence, w.N)
	}
}

// lagged is the worst lag of all stretches of work.
func lagged(j *judging, l *experiments.Limit) figure {
	var f figure
	for _, e := range j.ix.EpochsOf(l.Lock) {
		x, ok := j.ix.FenceLag(e)
		if !ok {
			continue
		}
		if f.n++; f.n == 1 {
			f.Dur = x.Dur
		}
		if x.Hi >= f.Hi {
			f.evidence = append([]int64{x.N}, f.evidence...)
		}
		f.Dur = f.Dur.Worst(x.Dur)
	}
	if f.n > 0 && f.Lo <= 0 {
		f.saw = fmt.Sprintf("Work stopped at least %[2]s before the validity end, in %[1]s", figures.Plural(f.n, "epoch"), figures.Floor(-f.Hi))
	}
	return f
}

// unownedWork is how long holders worked past the end of their lease, in all.
func unownedWork(j *judging, l *experiments.Limit) figure {
	f, longest := figure{hints: hints{next: j.advice().stop(l.Lock)}}, int64(0)
	for _, e := range j.ix.EpochsOf(l.Lock) {
		last := e.LastWork()
		if last == 0 {
			continue
		}
		f.n++
		u := j.ix.UnownedWork(e)
		if u.Hi > 0 {
			f.evidence = append(f.evidence, last)
		}
		if u.Lo > longest && j.ix.Exp.Observed() {
			longest, f.why = u.Lo, fmt.Sprintf("%s wrote under key %s when its lease had been over for %s", j.ix.Writer(e.Replica), e.Key, u)
		}
		f.Dur = f.Dur.Add(u)
	}
	if strays := j.ix.Strays(l.Lock); len(strays) > 0 {
		f.Hi, f.evidence = facts.Open, append(f.evidence, strays...)
		f.unsure = []verdict.Missing{j.authorless(l.Lock, len(strays))}
	}
	return f
}

// impossible holds the takeovers of loops after kills against what the sum allows at most. Longer than that and than the machine was late is a
// finding: nothing in the lock's timings explains it. Jobs are left out: an offer to a replica that still works on the job, or has died,
// is lost, and no sum knows how often.
func (j *judging) impossible() (fs []verdict.Finding) {
	for _, s := range j.ix.Shots {
		for _, t := range s.Trials {
			v, plain := j.ix.TimeOf("takeover", t)
			lock := j.ix.Exp.Lock(t.E.Lock)
			if t.Void.IsVoid() || !plain || lock == nil || !lock.Loop() || !s.Does.Kills || j.ix.Disturbed(t) {
				continue
			}
			b := j.told(lock, &experiments.Limit{Measure: "takeover", Trials: true}, t.Class)
			if b.Hi > 0 && b.Untold == "" && v.InTime().Lo > int64(b.Hi)+j.ix.Noise() {
				late := ""
				if v.Late > 0 {
					late = ", and " + figures.Ceil(v.Late) + " of a late machine"
				}
				fs = append(fs, facts.Finding("", fmt.Sprintf("lock %s: the takeover after %s took %s, longer than the lock's timings allow: %s%s",
					t.E.Lock, s.Op, v.Dur, b.Sum, late), t.Evidence...))
			}
		}
	}
	return fs
}
