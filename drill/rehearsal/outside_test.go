package rehearsal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// What an outsider measures beyond takeovers, held against what happened: each row's range contains the truth, a Pass is one by it, and so
// is a Fail.

// asks are promises of what an outsider can measure of a lock, with limits that may hold or not.
func asks(l *experiments.Lock, believed bool, r *rand.Rand) []experiments.SLO {
	most := func() *experiments.Bound[time.Duration] { return experiments.AtMost(between(r, 0, 2*l.Policy.TTL)) }
	all := []experiments.SLO{
		{LockDebt: &experiments.DebtLimits{Max: most(), Total: most()}},
		{Held: &experiments.ClassLimits{DurationLimits: *experiments.Within(between(r, 0, 6*l.Policy.TTL))}},
		{UnownedWork: most()},
		{Vanished: &experiments.CountLimit{Bound: *experiments.AtMost(0)}},
		{Overlap: &experiments.OverlapLimit{Level: "lease", Time: *most()}},
		{Overlap: &experiments.OverlapLimit{Level: "effect", Count: *experiments.AtMost(r.IntN(3))}},
	}
	if believed {
		all = append(all, experiments.SLO{Overlap: &experiments.OverlapLimit{Level: "belief", Time: *most()}}, experiments.SLO{LossToFence: most()})
	}
	if l.Loop() {
		all = append(all, experiments.SLO{Leaderless: experiments.AtMost(between(r, 0, 10*l.Policy.TTL))})
	}
	for i := range all {
		all[i].Lock = l.Name
	}
	return all
}

// window is the truth of one row: any value in it, in the row's unit. Where nobody can tell by what is seen, least is 0 or most infinite.
type window struct{ least, most float64 }

func exactly(ns int64) window { return window{seconds(ns), seconds(ns)} }

// outside holds each row of the outsider against the truth.
func (c *comparison) outside() {
	for i := range c.j.SLOs {
		r := &c.j.SLOs[i]
		w, known := c.truthOf(r)
		hidden := r.Measure == "overlap.belief" && c.seen.says[r.Lock] == experiments.HolderByMetric && c.seen.ask.unanswered > 0 // a gap that the file tolerates may hide a change
		if !known || hidden || c.back[r.Lock] {
			continue
		}
		hi := math.Inf(1)
		if r.Hi != nil {
			hi = *r.Hi
		}
		what := fmt.Sprintf("row %s of %s, [%.9f, %.9f] and limit %g: it was from %.9f to %.9f", r.Measure, r.Lock, r.Lo, hi, r.Limit, w.least, w.most) + " (" + string(r.Verdict) + ")"
		unsure := slices.ContainsFunc(r.Missing, func(m verdict.Missing) bool { // the range is no answer then, and the verdict says so
			return m.Code == verdict.MissingUnread || m.Code == verdict.MissingLogLines || m.Code == verdict.MissingBelief
		})
		lo := r.Lo
		if c.untold(r) {
			hi = math.Inf(1)
		}
		if c.seen.names && r.Measure == "unowned_work" { // its later grants hide behind one name
			lo = 0
		}
		if r.Measure == "held.max" && r.Verdict != verdict.Pass { // of a hold that was not seen whole only the least is told
			hi = math.Inf(1)
		}
		if unsure {
			if hi = math.Inf(1); r.Verdict == verdict.Inconclusive {
				lo = 0
			}
		}
		switch {
		case byBelief(r.Measure):
		case lo > w.most+rounding || hi < w.least-counted:
			c.wrong = append(c.wrong, what)
		case r.Verdict == verdict.Pass && w.least > r.Limit+rounding && !c.untold(r):
			c.wrong = append(c.wrong, what+", and it passes")
		}
		switch {
		case r.Verdict == verdict.Fail && w.most <= r.Limit-rounding:
			c.wrong = append(c.wrong, what+", and it fails")
		}
		c.tried.count("outside, "+r.Measure, 1)
		if w.least > 0 {
			c.tried.count("outside, "+r.Measure+" above 0", 1)
		}
		c.tried.width("outside, "+r.Measure, r.Lo, r.Hi)
	}
}

// byBelief reports a row of which the verdict alone is held: nobody is accused by what replicas say of themselves.
func byBelief(measure string) bool { return measure == "overlap.belief" || measure == "loss_to_fence" }

// untold reports a row whose upper end nobody can tell: what lies between two holds of one name, effects of nobody where they do not say
// their writer, and what stood in records that could not be read.
func (c *comparison) untold(r *verdict.SLOResult) bool {
	effects := r.Measure == "unowned_work" || strings.HasPrefix(r.Measure, "lock_debt")
	switch {
	case effects:
		return c.seen.names || c.seen.unread > 0 || !c.seen.token && !c.seen.writer
	case r.Measure == "leaderless" && c.seen.says[r.Lock] == experiments.HolderByMetric: // who leads anew between two readings leads on, by them
		return c.seen.names
	case byBelief(r.Measure), r.Measure == "leaderless" && c.seen.says[r.Lock] != "":
		return c.seen.ask.lost > 0 && c.seen.says[r.Lock] == experiments.HolderByLog
	}
	return c.seen.names
}

// counted is the unit in which keys tell what is left of their leases.
const counted = 1e-3

// truthOf is what a row of an outsider measures.
func (c *comparison) truthOf(r *verdict.SLOResult) (w window, known bool) {
	switch r.Measure {
	case "lock_debt.max", "lock_debt.total":
		longest, all := c.effectDebts(r.Lock)
		if r.Measure == "lock_debt.max" {
			return exactly(longest), true
		}
		return exactly(all), true
	case "held.max":
		return c.longestHeld(r.Lock), true
	case "unowned_work":
		return exactly(c.lateEffects(r.Lock)), true
	case "vanished":
		return window{}, true // nobody here takes a key away but the faults and the store
	case "overlap.lease":
		return exactly(c.leasesAtOnce(r.Lock)), true
	case "overlap.belief":
		return exactly(c.beliefsAtOnce(r.Lock)), true
	case "loss_to_fence":
		return c.lossToBelief(r.Lock), true
	case "leaderless":
		return exactly(c.leaderless(r.Lock)), c.final < sim.Never
	}
	return w, false
}

// effectDebts are, of all grants of the lock, the longest and the sum of the times from the last end of a job to when the key was free: none
// where it was free in time, or its holder died before it could give it back.
func (c *comparison) effectDebts(lock string) (longest, all int64) {
	ended := map[int]int64{}
	for i := range c.t.Writes {
		if w := &c.t.Writes[i]; w.Terminal && w.Accepted {
			ended[w.Epoch] = w.At
		}
	}
	p := c.policy(lock)
	timeout := int64(p.OpTimeout)
	if timeout == 0 {
		timeout = int64(p.Release.Timeout)
	}
	for i, at := range ended {
		e := &c.t.Epochs[i]
		if e.Lock != lock || at >= c.final || e.Freed-at <= timeout {
			continue
		}
		if died, dead := c.t.Deaths[e.Replica]; dead && died-at <= timeout {
			continue
		}
		longest, all = max(longest, e.Freed-at), all+e.Freed-at
	}
	return longest, all
}

// longestHeld is the longest time for which a key was one epoch's, of those that were seen to begin and to end, and whose holder did not die.
// Of a name that comes back between two looks nobody can tell.
func (c *comparison) longestHeld(lock string) (w window) {
	for i := range c.t.Epochs {
		e := &c.t.Epochs[i]
		if e.Lock != lock || e.Granted == sim.Never || e.Stranger {
			continue
		}
		held := seconds(min(e.Freed, c.final+int64(time.Hour)) - e.Granted)
		w.most = max(w.most, held)
		died, dead := c.t.Deaths[e.Replica]
		if whole := c.shown(e); whole && e.Freed < c.final-int64(time.Second) && !(dead && died <= e.Freed+c.sight) {
			w.least = max(w.least, held)
		}
	}
	if c.seen.names {
		w.most = math.Inf(1)
	}
	return w
}

// shown reports that a look showed the epoch, and one before showed another state of its key.
func (c *comparison) shown(e *sim.Epoch) bool {
	return slices.ContainsFunc(c.looks[e.Key], func(at history.Span) bool { return at.To <= e.Granted }) &&
		slices.ContainsFunc(c.looks[e.Key], func(at history.Span) bool { return at.From >= e.Granted && at.To <= e.Freed })
}

// lateEffects is how long holders went on to write when their keys were not theirs any more, pauses taken off.
func (c *comparison) lateEffects(lock string) (sum int64) {
	last := map[int]int64{}
	for i := range c.t.Writes {
		w := &c.t.Writes[i]
		if e := &c.t.Epochs[w.Epoch]; e.Lock == lock && w.Accepted && w.At > e.Freed && !c.besideRelease(i) {
			last[w.Epoch] = w.At
		}
	}
	for i, at := range last {
		e := &c.t.Epochs[i]
		for _, s := range c.less(stretch{e.Freed, at}, e.Replica) {
			sum += s.to - s.from
		}
	}
	return sum
}

// leasesAtOnce is for how long keys were another's while the lease of the one before him went on, who had not given it back.
func (c *comparison) leasesAtOnce(lock string) (sum int64) {
	last := map[string]*sim.Epoch{}
	for _, e := range byGrant(c.t) {
		if e.Lock != lock || e.Stranger {
			continue
		}
		if b := last[e.Key]; b != nil && !b.GaveBack {
			sum += max(0, b.Due-e.Granted)
		}
		last[e.Key] = e
	}
	return sum
}

// beliefsAtOnce is for how long more than one replica relied on a key of the lock.
func (c *comparison) beliefsAtOnce(lock string) (sum int64) {
	by := map[string]map[string][]stretch{}
	for i := range c.t.Epochs {
		if e := &c.t.Epochs[i]; e.Lock == lock && e.Believed[0] != sim.Never {
			if by[e.Key] == nil {
				by[e.Key] = map[string][]stretch{}
			}
			by[e.Key][e.Replica] = append(by[e.Key][e.Replica], stretch{e.Believed[0], e.Believed[1]})
		}
	}
	for _, replicas := range by {
		var all []stretch
		for _, ss := range replicas {
			sum -= excess(ss) // one replica is one holder, however often it was granted the key
			all = append(all, ss...)
		}
		sum += excess(all)
	}
	return sum
}

// lossToBelief is the longest time for which a replica relied on a key, under whichever grant, that was its own no more, pauses taken off, up
// to its next grant. What may have been a release counts from above alone.
func (c *comparison) lossToBelief(lock string) (w window) {
	for i := range c.t.Epochs {
		e := &c.t.Epochs[i]
		planned := c.policy(lock).Loop != nil && c.policy(lock).Loop.Mode == lockcore.LoopTTLHold
		died, dead := c.t.Deaths[e.Replica]
		if e.Lock != lock || e.Stranger || e.Granted == sim.Never || e.Freed >= c.final ||
			planned && e.Freed == e.Due || dead && died <= e.Freed+c.sight {
			continue
		}
		until, next := e.Freed, sim.Never
		for _, o := range byGrant(c.t) {
			if o.Key != e.Key || o.Replica != e.Replica {
				continue
			}
			if o.Believed[0] <= until { // whichever grant it relies on
				until = max(until, o.Believed[1])
			}
			if later(o, e) {
				next = min(next, o.Granted)
			}
		}
		until = min(until, next)
		sum := int64(0)
		for _, s := range c.less(stretch{e.Freed, max(e.Freed, until)}, e.Replica) {
			sum += s.to - s.from
		}
		w.most = max(w.most, seconds(sum))
		w.least = max(w.least, seconds(sum))
	}
	return w
}

// leaderless is for how long nobody relied on the key of the loop, or, where nobody is asked, had it and lived, from the first fault to the
// final looks.
func (c *comparison) leaderless(lock string) int64 {
	var led []stretch
	for i := range c.t.Epochs {
		e := &c.t.Epochs[i]
		s := stretch{e.Believed[0], e.Believed[1]}
		if c.seen.says[lock] == "" {
			s = stretch{e.Granted, e.Freed}
			if died, dead := c.t.Deaths[e.Replica]; dead {
				s.to = min(s.to, died)
			}
		}
		if e.Lock == lock && !e.Stranger && s.from != sim.Never {
			led = append(led, stretch{max(s.from, c.faults), min(s.to, c.final)})
		}
	}
	slices.SortFunc(led, func(a, b stretch) int { return int(max(-1, min(1, a.from-b.from))) })
	without, at := int64(0), c.faults
	for _, s := range led {
		if s.from >= s.to {
			continue
		}
		without += max(0, s.from-at)
		at = max(at, s.to)
	}
	return without + max(0, c.final-at)
}

// The same in worlds that leave out half of all features.
func TestSwarmSeedsFromOutsideThatFailed(t *testing.T) {
	for seed, was := range map[uint64]string{
		109:   "a key that was gone when the probe saw again was thought to have been held to its lease's end",
		170:   "two lines that were cut in one read were taken for one event that is there twice",
		221:   "a grant that no look showed was not thought to have come before the next one, though somebody may have written then",
		2262:  "who stood still since it had come to lead was thought not to lead",
		321:   "who had given its key back, by a line that was cut, was thought to lead on",
		546:   "nobody was thought to lead where the line that says so was cut",
		1134:  "the end of a job whose writer nobody names was thought to be of the key's next holder, and a debt of his",
		1849:  "between two readings a replica that led again was thought to have led on when its key was gone",
		1965:  "nobody was thought to lead while nobody looked",
		2371:  "a replica that was not asked any more was thought to lead until its death",
		2610:  "what was written under a stranger's token was thought to be the stranger's, who then was a successor",
		2925:  "whoever a shot found to hold the key was thought to write under its grant before that",
		45:    "a key that its store had lost was thought to have been given back, since its holder had seen it",
		230:   "a holder was thought to say that it held what it had lost, though it had it again between two looks",
		1504:  "a replica that was granted its key again was thought to lead no more when it left the grant before",
		1812:  "a grant that came and was lost with the store's data between two looks was thought not to be",
		863:   "a key that a shot found in nobody's sight was thought to be one that was granted later",
		5727:  "whom a shot found to hold a key that no look showed was thought to write under the grant before that",
		8596:  "an effect under a grant that no look showed was thought to be nobody's late one",
		14911: "who said at each reading that it led was thought to lead on, though looks showed its key to be gone meanwhile",
		9285:  "who ended its job, gave its key back and was granted it again under its name was thought to owe it all the while",
		29458: "a name that was granted its key again at once was thought to have come back with the store's older state",
		29247: "nobody was thought to lead between two looks at a key that its loop gives back after each tick",
		23438: "the same, of a loop of which one replica is left",
		28928: "whose key a stranger had meanwhile was thought to have been granted it before the stranger came",
		12418: "a renewal that looks bracket around a fault was taken for one before it",
		2727:  "the next grant that a look shows was taken for the next one",
		6679:  "a loop that gives its key back after each tick was thought to be struck by what came before the next look",
		15945: "a leader that a shot found, and no look showed, was thought never to have led",
		17450: "the same, and nobody had led before it",
		17720: "a holder was thought to hold on to what it had lost, though a shot found it with its key again",
		17676: "whose name came back after a shot had taken its key was thought to have been struck by it",
		21964: "a holder was thought to hold on to what it had lost, though it may have had it again while nobody looked",
		36165: "who still relied on a grant that its store had lost was thought to rely on the next one, which it had given back",
		22761: "the end of a job that may be of the grant before was thought to begin no debt",
		47970: "what a holder wrote when its lease had run out was thought to be of its next grant, and in time",
		54274: "the same, and the end of a takeover",
		49373: "what may have been written under a grant that no look showed was thought to be of the one before, since its lease had time left",
		46928: "who was never seen at work was thought to have its key still, though it need not have learnt of it",
		65376: "a grant that no look showed, and that was lost with the store's data before the first that one did, was thought not to be",
		78367: "a store that was restarted twice before anybody looked was thought to have lost its data once",
		2301:  "a lease that a standby took over was thought to end when the old store had it end",
		75362: "who stood still, and held a grant that a shot alone found, was thought to have worked on",
		75551: "a name that was granted its key anew in the bracket of a fail-over was thought to have been brought back by it",
		78340: "what a holder wrote when another had long had its key was thought to be of a grant between two looks that showed that other",
		78848: "a reading that could not be made was thought to say what those around it do",
		87690: "a line by which a replica leads, of one that led, was thought to tell of no new grant",
		2411:  "a job that was ended twice, once in a record that nobody could read, was thought to have been ended once",
		2378:  "what the next life wrote in a log that goes on was thought to be the dead one's",
		93591: "a shot that found a holder between two looks was thought to have found it as it came",
		91399: "the end of a job under a grant that nobody looked at was thought to begin no debt",
		69706: "a reading was thought to have been made at the end of its bracket",
		4859:  "a lease that had been renewed more than once while nobody looked was thought to be over",
		92658: "the end of a job that may be of a grant that nobody looked at was thought to be its recovery under the one before",
		15299: "a tick that was seen around a fault was thought to have come after it",
		96855: "who may have said before a fault that it no longer held its key was thought to hold it still",
	} {
		w := drawWorld(seed, false)
		if wrong, _, _ := compareObserved(&w); len(wrong) > 0 {
			t.Errorf("LOCKDRILL_TRUTH_SEED=%d (%s): %s", seed, was, wrong[0])
		}
	}
}
