package rehearsal

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// comparison holds one judgement against the truth.
type comparison struct {
	e      *experiments.Experiment
	t      *sim.Truth
	j      *verdict.Judgement
	final  int64 // the beginning of the final phase
	faults int64 // and of that of the faults
	blink  int64 // a grant that nobody learnt of may go unseen if it lasts less than this: max_gap and two looks
	byID   map[string]int
	works  map[int][]sim.Work
	shots  map[string]*strike // by operation, "kill#1"
	sight  int64              // from one look at a key to the next, at most
	tried  tried
	seen   *outsider // what is known of holders is what looks and effects show; nil = they claim

	looks    map[string][]history.Span     // by key, those that show something new
	read     []history.Span                // by the truth's writes, the read that first showed each
	renewals map[string][]history.Span     // answered ok, by epoch
	regrants map[string][]history.Span     // what looks show as renewals of it, and was the same replica's next grant
	ready    map[string]int64              // by when each incarnation was
	truths   map[string]map[string]float64 // by lock and measure
	back     map[string]bool               // locks of which a standby brought a key back
	took     map[string]map[string]took    // by lock and series
	wrong    []string
}

func (c *comparison) index() {
	c.byID, c.works, c.truths = map[string]int{}, map[int][]sim.Work{}, map[string]map[string]float64{}
	c.took, c.back = map[string]map[string]took{}, map[string]bool{}
	for i := range c.t.Epochs {
		e := &c.t.Epochs[i]
		if c.byID[e.ID] = i; e.Back {
			c.back[e.Lock] = true
		}
	}
	for _, w := range c.t.Works {
		c.works[w.Epoch] = append(c.works[w.Epoch], w)
	}
}

// note keeps a truth in the unit of its row.
func (c *comparison) note(lock, measure string, truth float64) {
	if c.truths[lock] == nil {
		c.truths[lock] = map[string]float64{}
	}
	c.truths[lock][measure] = truth
}

// rounding of seconds.
const rounding = 5e-9

// in holds a truth in ns against a measured range in seconds.
func (c *comparison) in(truth int64, lo float64, hi *float64, format string, args ...any) {
	s := float64(truth) / 1e9
	if s < lo-rounding || hi != nil && s > *hi+rounding {
		top := math.Inf(1)
		if hi != nil {
			top = *hi
		}
		c.wrong = append(c.wrong, fmt.Sprintf("%s: %.9f is not in [%.9f, %.9f]", fmt.Sprintf(format, args...), s, lo, top))
	}
}

func (c *comparison) policy(lock string) *lockcore.Policy { return policyOf(c.e, lock) }

type stretch struct{ from, to int64 }

// less takes out of a stretch what its process stood still.
func (c *comparison) less(s stretch, replica string) []stretch {
	out := []stretch{s}
	for _, p := range c.t.Stops {
		if p.Replica != replica {
			continue
		}
		var cut []stretch
		for _, o := range out {
			if o.from < p.From {
				cut = append(cut, stretch{o.from, min(o.to, p.From)})
			}
			if o.to > p.To {
				cut = append(cut, stretch{max(o.from, p.To), o.to})
			}
		}
		out = cut
	}
	return out
}

// excess integrates max(0, count-1).
func excess(ss []stretch) (sum int64) {
	type edge struct {
		at int64
		by int
	}
	var edges []edge
	for _, s := range ss {
		if s.from < s.to {
			edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if a.at != b.at {
			return int(min(1, max(-1, a.at-b.at)))
		}
		return a.by - b.by
	})
	n, at := 0, int64(0)
	for _, e := range edges {
		sum += int64(max(0, n-1)) * (e.at - at)
		n, at = n+e.by, e.at
	}
	return sum
}

func (c *comparison) overlaps() {
	belief, work := map[string]map[string][]stretch{}, map[string]map[string][]stretch{}
	put := func(m map[string]map[string][]stretch, e *sim.Epoch, s stretch) {
		if m[e.Lock] == nil {
			m[e.Lock] = map[string][]stretch{}
		}
		m[e.Lock][e.Key] = append(m[e.Lock][e.Key], s)
	}
	for i := range c.t.Epochs {
		e := &c.t.Epochs[i]
		if e.Believed[0] != sim.Never {
			put(belief, e, stretch{e.Believed[0], e.Believed[1]})
		}
		for _, w := range c.works[i] {
			for _, s := range c.less(stretch{w.From, w.To}, e.Replica) {
				put(work, e, s)
			}
		}
	}
	for _, o := range c.j.Overlap {
		m := belief
		switch o.Level {
		case "work":
			m = work
		case "effect":
			continue
		}
		var sum int64
		for _, ss := range m[o.Lock] {
			sum += excess(ss)
		}
		if sum > 0 {
			c.tried.count(countOverlaps, 1)
		}
		c.in(sum, o.Lo, o.Hi, "overlap of %s at level %s", o.Lock, o.Level)
		c.note(o.Lock, "overlap."+o.Level, seconds(sum))
		c.tried.width("overlap."+o.Level, o.Lo, o.Hi)
	}
}

// done is when nobody needed the key of an epoch any more.
func (c *comparison) done(i int) int64 {
	e := &c.t.Epochs[i]
	if e.Believed[0] == sim.Never {
		if !e.Orphan {
			return sim.Never
		}
		return max(e.Stopped, e.Granted)
	}
	done := e.Believed[1]
	if ws := c.works[i]; len(ws) > 0 {
		stop := int64(0)
		for _, w := range ws {
			if w.Died {
				return sim.Never
			}
			stop = max(stop, w.To)
		}
		if p := c.policy(e.Lock); p.Loop != nil && p.Loop.Mode == lockcore.LoopRenewed {
			stop = max(stop, done)
		}
		done = stop
	}
	return done
}

// owes is the true debt of an epoch.
func (c *comparison) owes(i int) int64 {
	e := &c.t.Epochs[i]
	p := c.policy(e.Lock)
	done := c.done(i)
	planned := e.Planned || p.Release.Mode == lockcore.ReleaseNone || p.Loop != nil && p.Loop.Mode == lockcore.LoopTTLHold
	timeout := int64(p.OpTimeout)
	if timeout == 0 {
		timeout = int64(p.Release.Timeout)
	}
	died, dead := c.t.Deaths[e.Replica]
	switch {
	case e.Stranger, e.Granted == sim.Never, done == sim.Never, planned && e.Believed[0] != sim.Never, e.Freed <= done, done >= c.final:
		return 0
	case dead && !e.Settled && died-done <= timeout:
		return 0
	case e.Reached != sim.Never && e.Freed-done <= timeout:
		return 0
	}
	return e.Freed - done
}

func (c *comparison) debts() {
	listed := map[int]bool{}
	for _, d := range c.j.Debts {
		i, known := c.byID[d.Epoch]
		if !known {
			c.wrong = append(c.wrong, "a debt of an epoch that there never was: "+d.Epoch)
			continue
		}
		listed[i] = true
		if e := &c.t.Epochs[i]; e.Back || d.Cause == "renew_after_exit" || e.Freed == sim.Never && c.owes(i) != 0 {
			continue
		}
		if c.owes(i) > 0 {
			c.tried.count(countDebts, 1)
		}
		c.in(c.owes(i), d.Debt.Lo, d.Debt.Hi, "debt (%s) of epoch %s of %s", d.Cause, d.Epoch, d.Key)
		c.tried.width("debt", d.Debt.Lo, d.Debt.Hi)
	}
	for i := range c.t.Epochs {
		e := &c.t.Epochs[i]
		if e.Back {
			continue
		}
		least := int64(time.Millisecond)
		if e.Orphan {
			least = c.blink
		}
		if owed := c.owes(i); !listed[i] && owed > least && c.done(i) < c.final-int64(time.Second) {
			c.wrong = append(c.wrong, fmt.Sprintf("debt of epoch %s of %s: %s are not listed", e.ID, e.Key, time.Duration(owed)))
		}
	}
}

// row is the first row of a measure of a lock.
func (c *comparison) row(lock, measure string) *verdict.SLOResult {
	for i := range c.j.SLOs {
		if r := &c.j.SLOs[i]; r.Lock == lock && r.Measure == measure {
			return r
		}
	}
	return nil
}

// locks are those of which no key was free and then brought back by a standby: when such a key was lost is not one instant.
func (c *comparison) locks() []experiments.Lock {
	return slices.DeleteFunc(slices.Clone(c.e.System.Locks), func(l experiments.Lock) bool { return c.back[l.Name] })
}

// pastEnd is how long an epoch's work ran past its lease's end.
func (c *comparison) pastEnd(i int) (sum int64) {
	e := &c.t.Epochs[i]
	for _, w := range c.works[i] {
		if w.To <= e.Freed {
			continue
		}
		for _, s := range c.less(stretch{max(w.From, e.Freed), w.To}, e.Replica) {
			sum += max(0, s.to-s.from)
		}
	}
	return sum
}

// allowed is the stop budget that the holder of an epoch had after it was last resumed, as far as it reached past the lease's end.
func (c *comparison) allowed(i int) (most int64) {
	e, stop := &c.t.Epochs[i], int64(0)
	for _, w := range c.works[i] {
		stop = max(stop, w.To)
	}
	budget := int64(c.policy(e.Lock).StopBudget)
	for _, p := range c.t.Stops {
		if p.Replica == e.Replica && p.From < stop {
			most = max(most, min(budget, p.To+budget-e.Freed))
		}
	}
	return most
}

func (c *comparison) unowned() {
	for _, l := range c.locks() {
		sum := int64(0)
		for i := range c.t.Epochs {
			if c.t.Epochs[i].Lock == l.Name {
				sum += c.pastEnd(i)
			}
		}
		if sum > 0 {
			c.tried.count(countUnowned, 1)
		}
		c.note(l.Name, "unowned_work", seconds(sum))
		if r := c.row(l.Name, "unowned_work"); r != nil {
			c.in(sum, r.Lo, r.Hi, "unowned work of %s", l.Name)
			c.tried.width(countUnowned, r.Lo, r.Hi)
		}
	}
}

func (c *comparison) duplicates() {
	n, extra, of := map[string]int{}, 0, map[string]float64{}
	for _, w := range c.t.Writes {
		if w.Terminal && w.Accepted {
			if n[w.Subject]++; n[w.Subject] > 1 {
				extra++
				of[c.t.Epochs[w.Epoch].Lock]++
			}
		}
	}
	for _, l := range c.e.System.Locks {
		c.note(l.Name, "duplicate_terminal_states", of[l.Name])
	}
	c.tried.count(countDuplicates, extra)
	if extra != c.j.Counts.Duplicates {
		c.wrong = append(c.wrong, fmt.Sprintf("%d duplicates, measured %d", extra, c.j.Counts.Duplicates))
	}
}

// endedTwice compares whether a job was ended twice with the verdict on it, also where not all of its ends could be read.
func (c *comparison) endedTwice() {
	n, twice := map[string]int{}, map[string]bool{}
	for _, w := range c.t.Writes {
		if w.Terminal && w.Accepted {
			n[w.Subject]++
			twice[c.t.Epochs[w.Epoch].Lock] = twice[c.t.Epochs[w.Epoch].Lock] || n[w.Subject] > 1
		}
	}
	for i := range c.j.SLOs {
		if r := &c.j.SLOs[i]; r.Measure == "duplicate_terminal_states" && (r.Verdict == verdict.Pass && twice[r.Lock] || r.Verdict == verdict.Fail && !twice[r.Lock]) {
			c.wrong = append(c.wrong, fmt.Sprintf("%s of %s is %s: %s", r.Measure, r.Lock, r.Verdict, r.Why))
		}
	}
}

func (c *comparison) abandonments() {
	all := 0
	for _, l := range c.locks() {
		missed, late, before := 0, 0, all
		for i := range c.t.Epochs {
			e := &c.t.Epochs[i]
			if e.Lock != l.Name || len(c.works[i]) == 0 {
				continue
			}
			given := e.Abandoned < c.final
			switch {
			case c.pastEnd(i) <= c.allowed(i):
			case given:
				late++
			default:
				missed++
			}
			if given {
				all++
			}
		}
		c.note(l.Name, "abandonments", float64(all-before))
		c.tried.count(countMissed, missed)
		c.tried.count(countLate, late)
		for measure, n := range map[string]int{"abandonment.missed": missed, "abandonment.late": late} {
			c.note(l.Name, measure, float64(n))
			if r := c.row(l.Name, measure); r != nil {
				c.counts(measure, n, r.Lo, r.Hi, l.Name)
			}
		}
	}
	c.tried.count(countAbandoned, all)
	if len(c.back) == 0 && all != c.j.Counts.Abandonments {
		c.wrong = append(c.wrong, fmt.Sprintf("%d abandonments, measured %d", all, c.j.Counts.Abandonments))
	}
}
