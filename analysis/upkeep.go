package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// reasons counts abandonments by their reason: "count 3, deadline 1".
func reasons(as []verdict.Abandonment) string {
	n := map[string]int{}
	for _, a := range as {
		n[a.Reason]++
	}
	var parts []string
	for _, r := range []string{"count", "deadline", "not_owned", "context"} {
		if n[r] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", r, n[r]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "By reason: " + strings.Join(parts, ", ")
}

// abandoned is how often a lock was given up, whatever the reason.
func abandoned(j *judging, l *experiments.Limit) figure {
	g := j.at[l.Lock].giveups
	return figure{Value: facts.Tally{Lo: g.Raw, Hi: g.Raw}.Belated(g.Belated), n: g.Worked, evidence: g.Evidence, hints: hints{why: reasons(g.List)}}
}

// gaveUp counts the epochs that were given up too late, without need, or not at all.
func gaveUp(j *judging, l *experiments.Limit) figure {
	g := j.at[l.Lock].giveups
	t := map[string]facts.Tally{verdict.Missed: g.Missed, verdict.Late: g.Late, verdict.Needless: g.Needless}[l.Part]
	saw := fmt.Sprintf("%s; in %s the work outlived its lease or had to be given up", figures.Plural(t.Lo, l.Part+" abandonment"), figures.Plural(g.Jeopardies.Lo, "epoch"))
	late := 0
	if l.Part == verdict.Needless {
		late = g.BelatedNeedless
	}
	return figure{Value: t.Belated(late), n: g.Jeopardies.Lo, evidence: g.Evidence, hints: hints{saw: saw, why: g.FirstOf(l.Part), next: j.advice().giveUp(l.Lock, l.Part)}}
}

// longest is the longest of a time that epochs have.
func longest(of func(*facts.Facts, *facts.Epoch) (facts.Value, bool)) func(*judging, *experiments.Limit) figure {
	return func(j *judging, l *experiments.Limit) figure {
		var f figure
		for _, e := range j.ix.EpochsOf(l.Lock) {
			d, ok := of(j.ix, e)
			if !ok {
				continue
			}
			if f.n++; f.n == 1 || d.Lo > f.Lo || d.Lo == f.Lo && d.Hi > f.Hi {
				f.evidence, f.why = []int64{e.N}, epochTook(e, d.Dur)
			}
			f.Value = f.Value.Worst(d)
		}
		return f
	}
}

// notYours is the share of "not yours" among the answers of one operation.
func notYours(j *judging, l *experiments.Limit) figure {
	o := j.ix.NotOwnedOf(l.Lock, l.Part)
	f := figure{n: o.Answered, evidence: o.Evidence}
	f.Lo = scaled(verdict.UnitRatio, o.Ratio)
	f.Hi = f.Lo
	f.saw = fmt.Sprintf("%s of %s were answered \"not yours\" (%s absent, %s other)", figures.Count(o.Absent+o.Other), figures.Plural(o.Answered, j.measureOf(l).of), figures.Count(o.Absent), figures.Count(o.Other))
	if o.Own > 0 {
		f.saw += fmt.Sprintf("; %d more followed a release of the holder's own", o.Own)
	}
	return f
}

// failedCalls is the share of release calls that failed, or of leases that no release call ended.
func failedCalls(j *judging, l *experiments.Limit) figure {
	r := j.ix.FailedReleasesOf(l.Lock)
	t, n, saw := r.Calls, r.Sent, fmt.Sprintf("%s of %s failed", figures.Count(r.Calls.Lo), figures.Plural(r.Sent, "release call"))
	if l.Part == "given_up" {
		t, n = r.Leases, r.Ended
		saw = fmt.Sprintf("%s of %s were left to their TTL after failed releases", figures.Count(t.Lo), figures.Plural(n, "lease"))
	}
	return figure{Value: facts.Value{Dur: t.Share(n)}, n: n, evidence: r.Evidence, hints: hints{saw: saw}}
}

// foreigners counts calls that succeeded after the key had gone to another.
func foreigners(did string, calls func(*facts.Epoch) []*facts.Call) func(*judging, *experiments.Limit) figure {
	return func(j *judging, l *experiments.Limit) figure {
		x := j.ix.ForeignOf(l.Lock, did, calls)
		return figure{Value: x.Count.Value(), n: x.Answered, evidence: x.Evidence, hints: hints{why: x.First}}
	}
}

// grantedAgain counts grants beyond the first of one token: nothing then tells a hold from the one before it, and either's release frees
// the other's key.
func grantedAgain(j *judging, l *experiments.Limit) figure {
	var f figure
	grants := map[string][]facts.GrantOf{}
	for _, k := range j.ix.KeysOf(l.Lock) {
		for _, e := range k.All {
			for _, g := range j.ix.GrantsOf(k, e) {
				same := func(o facts.GrantOf) bool { return o.Key == g.Key && o.Fence == g.Fence }
				if slices.ContainsFunc(grants[e.ID], same) { // one that is asked for again, because its answer was lost
					continue
				}
				f.n++
				if grants[e.ID] = append(grants[e.ID], g); len(grants[e.ID]) == 1 {
					continue
				}
				f.Lo++
				first := grants[e.ID][0]
				f.evidence = append(f.evidence, first.N, g.N)
				if f.why == "" {
					f.why = fmt.Sprintf("Key %s was granted under a token that key %s had been granted before", k.Name, first.Key)
					if first.Key == k.Name {
						f.why = "Key " + k.Name + " was granted twice under one token"
					}
				}
			}
		}
	}
	f.Hi = f.Lo
	if x := j.ix.Exp.EffectsOf(l.Lock); j.ix.Exp.Observed() && (x == nil || x.Map.Token == "") {
		f.Hi = facts.Open // grants hide between looks, and nothing else tells their tokens
	}
	if !j.ix.Exp.FreshTokens(l.Lock) { // a stored run may ask what is refused since
		why, next := j.ix.Exp.Untold(l.Lock, l.Measure)
		f.unfit, f.next = capital(why), capital(next)
	}
	return f
}

// refused is how many acquires were refused while the holder was dead or done, over how long, or how long each of them waited.
func refused(j *judging, l *experiments.Limit) figure {
	b := j.ix.BusyOf(l.Lock)
	f := figure{Value: facts.Value{Dur: b.Time}, n: b.Asked, evidence: b.Evidence}
	f.saw = fmt.Sprintf("%s of %s were refused while the holder was dead or done, over %s", figures.Count(b.Count.Lo), figures.Plural(b.Asked, "acquire"), b.Time)
	if of := j.ix.Exp.Lock(l.Lock); of != nil && of.Loop() && l.Part != "each" { // it tries and does not wait
		f.next = "Poll less often, or raise the limit."
	}
	switch {
	case l.Part == "count":
		f.Value = b.Count.Value()
	case l.Part == "each" && len(b.Waited) == 0:
		f.Hi = facts.Open
		f.lacks = []verdict.Missing{verdict.Lacking(verdict.MissingValues, "refused acquire", "lock "+l.Lock)}
	case l.Part == "each":
		f.Value, f.least, f.n, f.of = quantile(b.Waited, 0), least(b.Waited), len(b.Waited), "refused acquire"
	}
	return f
}

// owed is for how long keys stayed taken that nobody needed: the longest debt, the longest effective one, or all of them, or all waiting
// for them.
func owed(j *judging, l *experiments.Limit) figure {
	ds := j.at[l.Lock].debts
	f := figure{n: ds.Ended, evidence: ds.Evidence(), hints: hints{saw: ds.Saw()}}
	for i, d := range ds.List {
		if i == 0 {
			f.why, f.next = d.Text(), d.Advice()
			if j.ix.Exp.Observed() {
				f.next = "Let the service give the lock back when its job is done, and try again where that fails. A shorter ttl ends the debt sooner."
			}
		}
		switch l.Part {
		case "max":
			f.Value = f.Value.Worst(j.ix.Valued(d.Time, d.Late.Time))
		case "total":
			f.Value = f.Value.Add(j.ix.Valued(d.Time, d.Late.Time))
		case "effective":
			f.Value = f.Value.Worst(j.ix.Valued(d.Effective, d.Late.Effective))
		default:
			f.Value = f.Value.Add(j.ix.Valued(d.Waiting, d.Late.Waiting))
		}
	}
	return f
}

// orphans counts grants that nobody learnt of and nobody gave back at once.
func orphans(j *judging, l *experiments.Limit) figure {
	ds := j.at[l.Lock].debts
	f := figure{Value: ds.Orphans.Belated(ds.Belated), n: ds.Asked}
	f.saw = fmt.Sprintf("%s in %s", figures.Plural(ds.Orphans.Lo, "orphan"), figures.Plural(ds.Asked, "acquire"))
	for _, d := range ds.List {
		if d.Cause != facts.CauseOrphan {
			continue
		}
		if f.next == "" {
			f.why, f.next = d.Text(), d.Advice()
		}
		f.evidence = append(f.evidence, d.Evidence()...)
	}
	return f
}

// rolled is what rolling restarts cost at a leader loop: the worst of them, and the least where something had to happen.
func rolled(j *judging, l *experiments.Limit) figure {
	var f figure
	for _, r := range j.ix.Rollings() {
		c := j.ix.CostOf(r, l.Lock)
		f.each = append(f.each, map[string]facts.Value{
			"handovers": {Dur: c.Moves}, "without_leader": j.ix.Valued(c.Without, c.Late), "longest": j.ix.Valued(c.Longest, c.Late),
		}[l.Part])
		f.evidence = append(f.evidence, c.Seen...)
		if len(r.Left) > 0 {
			f.lacks = append(f.lacks, verdict.Lacking(verdict.MissingRolled, r.Fault, len(r.Struck), len(r.Struck)+len(r.Left), r.Left[0]))
		}
	}
	f.Value, f.least, f.n = quantile(f.each, 0), least(f.each), len(f.each)
	if l.Part == "handovers" && f.n > 0 {
		f.saw = fmt.Sprintf("%s, at worst %s", figures.Plural(f.n, "rolling restart"), handovers(f.Dur))
	}
	return f
}

// rolledOver reports that l asks what rolling restarts cost, and that a hold of its lock came to its end in one: whether the holder let go
// because it was told to end, or just before, is often not to be seen, and costs the same.
func (j *judging) rolledOver(l *experiments.Limit) bool {
	return l.Measure == "rolling" && slices.ContainsFunc(j.ix.Rollings(), func(r *facts.Rolling) bool { return j.ix.CostOf(r, l.Lock).N > 0 })
}

// handovers are so many of them.
func handovers(n facts.Dur) string {
	if n.Lo == n.Hi {
		return figures.Plural(int(n.Hi), "hand-over")
	}
	return fmt.Sprintf("%d to %s", n.Lo, figures.Plural(int(n.Hi), "hand-over"))
}

// rolledOut lists the rolling restarts, and what each cost at each lock.
func (j *judging) rolledOut() []verdict.RollingRestart {
	var out []verdict.RollingRestart
	for _, r := range j.ix.Rollings() {
		v := verdict.RollingRestart{Fault: r.Fault, From: facts.Seconds(r.Window.From), To: facts.Seconds(r.Window.To), Restarted: r.Struck, Left: r.Left, Locks: []verdict.RollingCost{}}
		for _, lock := range j.lockNames() {
			c := j.ix.CostOf(r, lock)
			l := j.ix.Exp.Lock(lock)
			if l == nil || c.N == 0 && !l.Loop() {
				continue
			}
			held := verdict.RollingCost{Lock: lock, Loop: l.Loop(), N: c.N, Stranded: c.Open, Without: c.Without.Range(), Longest: c.Longest.Range(),
				Evidence: facts.Cite(c.Seen...)}
			most := float64(c.Moves.Hi)
			held.Handovers = verdict.Range{Lo: float64(c.Moves.Lo), Hi: &most}
			held.Overlap = j.ix.Within(lock, r.Window).TimeOverlap(lock, verdict.LevelBelief).Range()
			v.Locks = append(v.Locks, held)
		}
		out = append(out, v)
	}
	return out
}

// keysVanished counts grants whose key ended before its lease, by nobody's release and no fault.
func keysVanished(j *judging, l *experiments.Limit) figure {
	t, evidence := j.ix.VanishedOf(l.Lock)
	f := figure{Value: t.Value(), evidence: evidence}
	for _, e := range j.ix.EpochsOf(l.Lock) {
		if !e.Ghost && !e.Stranger {
			f.n++
		}
	}
	f.saw = t.Of(f.n, "grant", "lost the key before the lease was over", "may have lost the key before the lease was over")
	var unseen []string // of what would tell
	if x := j.ix.Exp.EffectsOf(l.Lock); x == nil || x.Map.Token == "" {
		unseen = append(unseen, "effects with the token (map.token)")
	}
	if lock := j.ix.Exp.Lock(l.Lock); lock != nil && lock.Belief == nil {
		unseen = append(unseen, "belief of the lock")
	}
	f.closer = "A key that its holder gives back early looks the same: where the service does so by design, leave this promise out."
	if len(unseen) > 0 {
		f.closer += " Else let the holder's acts be seen: " + strings.Join(unseen, ", or ") + "."
	}
	if why, next := j.ix.Exp.Untold(l.Lock, l.Measure); why != "" { // a stored run may ask what is refused
		f.unfit, f.next = capital(why), capital(next)
	}
	return f
}
