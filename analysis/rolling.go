package analysis

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// rolling is one rolling restart: the shots of one fault that took each of the replicas that lived when it began.
type rolling struct {
	fault  string
	window history.Span // from the first replica that was asked to end until the last one's end was seen
	struck []string     // incarnations that it restarted
	left   []string     // that it did not
}

// cost is what a rolling restart cost at one lock.
type cost struct {
	moves   dur // times that a key went to another replica
	without dur // nobody held the key, in all
	longest dur
	late    int64 // how late the machine was in these
	open    int   // keys that nobody took any more
	n       int
	seen    []int64
}

// rollings are the rolling restarts of the run. A shot at a life that began after the restart did is of the next one.
func (ix *Facts) rollings() []*rolling {
	var all []*rolling
	for _, s := range ix.shots {
		if !s.does.Rolls || !s.effective() {
			continue
		}
		end := max(s.applied.To, s.confirmed.To)
		if n := len(all); n > 0 && all[n-1].fault == s.id && slices.Contains(all[n-1].left, s.victim) {
			r := all[n-1]
			r.window.To = end
			r.struck = append(r.struck, s.victim)
			r.left = slices.DeleteFunc(r.left, func(inc string) bool { return inc == s.victim })
			continue
		}
		all = append(all, &rolling{fault: s.id, window: history.Span{From: s.applied.From, To: end}, struck: slices.Clone(s.victims),
			left: slices.DeleteFunc(ix.livedAt(s.applied.From), func(inc string) bool { return slices.Contains(s.victims, inc) })})
	}
	return all
}

// livedAt are the incarnations that lived at an instant.
func (ix *Facts) livedAt(at int64) []string {
	var lives []string
	for _, ev := range ix.starts {
		inc := ev.Replica.Incarnation
		if d, dead := ix.deaths[inc]; ev.To <= at && !(dead && d.From < at) {
			lives = append(lives, inc)
		}
	}
	return lives
}

// letGo is when the holder of e stopped to rely on it: it said so, or died, or the lease that nobody tells of ended.
func (ix *Facts) letGo(e *epoch) history.Span {
	if e.belief != nil {
		return e.belief.end
	}
	end := e.life.end
	if d, dead := ix.deaths[e.replica]; dead {
		end = first(end, d.Span)
	}
	return end
}

// costOf is what r cost at a lock: each epoch of a loop that came to its end within it, and each of a job that a restart cut short, until
// the next one of its key.
func (ix *Facts) costOf(r *rolling, lock string) cost {
	var c cost
	for k, e := range ix.epochsOf(lock) {
		end := ix.letGo(e)
		if e.ghost || e.stranger || end.To < r.window.From || end.From > r.window.To || !k.loop && !cutShort(k, e, end, r) {
			continue
		}
		c.add(ix, k, e, end, r.window)
	}
	return c
}

// cutShort reports that a replica was restarted while it had a job of k that nobody had finished when it let go of it at end.
func cutShort(k *keyIndex, e *epoch, end history.Span, r *rolling) bool {
	by := func(f *effect) bool { return f.epoch == e || f.span.To <= end.To }
	return slices.Contains(r.struck, e.replica) && len(k.jobs) > 0 &&
		slices.ContainsFunc(k.jobs, func(j *job) bool { return !slices.ContainsFunc(j.terminals, by) })
}

// add counts one key that was let go.
func (c *cost) add(ix *Facts, k *keyIndex, e *epoch, end, window history.Span) {
	next := k.next(e)
	surely := end.From >= window.From && end.To <= window.To
	c.n++
	if next == nil {
		until := max(end.To, ix.watched(ix.looker(k.lock), end.From))
		if end.To == open {
			until = end.From
		}
		c.open++
		c.gap(dur{max(0, until-end.To), open}, surely, e.n)
		return
	}
	if next.replica != e.replica {
		c.moves.hi++
		if surely && next.replica != "" && e.replica != "" {
			c.moves.lo++
		}
	}
	c.gap(between(end, next.granted), surely, e.n, next.n)
	c.late += ix.lateness(end.From, next.granted.To, ix.wayOf(k.loop, next.replica)...)
}

// gap adds a stretch in which nobody held the key.
func (c *cost) gap(d dur, surely bool, evidence ...int64) {
	if !surely {
		d.lo = 0
	}
	c.without, c.longest = c.without.add(d), c.longest.worst(d)
	c.seen = append(c.seen, evidence...)
}

// rolled is what rolling restarts cost at a leader loop: the worst of them, and the least where something had to happen.
func rolled(j *judging, l *experiments.Limit) figure {
	var f figure
	for _, r := range j.ix.rollings() {
		c := j.ix.costOf(r, l.Lock)
		f.each = append(f.each, map[string]value{
			"handovers": {dur: c.moves}, "without_leader": j.ix.valued(c.without, c.late), "longest": j.ix.valued(c.longest, c.late),
		}[l.Part])
		f.evidence = append(f.evidence, c.seen...)
		if len(r.left) > 0 {
			f.lacks = append(f.lacks, verdict.Lacking(verdict.MissingRolled, r.fault, len(r.struck), len(r.struck)+len(r.left), r.left[0]))
		}
	}
	f.value, f.least, f.n = quantile(f.each, 0), least(f.each), len(f.each)
	if l.Part == "handovers" && f.n > 0 {
		f.saw = fmt.Sprintf("%s, at worst %s", figures.Plural(f.n, "rolling restart"), handovers(f.dur))
	}
	return f
}

// handovers are so many of them.
func handovers(n dur) string {
	if n.lo == n.hi {
		return figures.Plural(int(n.hi), "hand-over")
	}
	return fmt.Sprintf("%d to %s", n.lo, figures.Plural(int(n.hi), "hand-over"))
}

// rolledOut lists the rolling restarts, and what each cost at each lock.
func (j *judging) rolledOut() []verdict.RollingRestart {
	var out []verdict.RollingRestart
	for _, r := range j.ix.rollings() {
		v := verdict.RollingRestart{Fault: r.fault, From: seconds(r.window.From), To: seconds(r.window.To), Restarted: r.struck, Left: r.left, Locks: []verdict.RollingCost{}}
		for _, lock := range j.lockNames() {
			c := j.ix.costOf(r, lock)
			l := j.ix.exp.Lock(lock)
			if l == nil || c.n == 0 && !l.Loop() {
				continue
			}
			held := verdict.RollingCost{Lock: lock, Loop: l.Loop(), N: c.n, Stranded: c.open, Without: c.without.Range(), Longest: c.longest.Range(),
				Evidence: cite(c.seen...)}
			most := float64(c.moves.hi)
			held.Handovers = verdict.Range{Lo: float64(c.moves.lo), Hi: &most}
			held.Overlap = j.ix.within(lock, r.window).timeOverlap(lock, verdict.LevelBelief).Range()
			v.Locks = append(v.Locks, held)
		}
		out = append(out, v)
	}
	return out
}

// within are the facts of one lock in a stretch of time.
func (ix *Facts) within(lock string, w history.Span) *Facts {
	part := *ix
	part.byLock = map[string][]*keyIndex{}
	for _, k := range ix.keysOf(lock) {
		part.byLock[lock] = append(part.byLock[lock], k.during(w))
	}
	return &part
}
