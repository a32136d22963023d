package analysis

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Operations whose "not yours" is counted.
const (
	opRenew   = "renew"
	opRelease = "release"
)

// notOwned is what one operation of a lock was answered.
type notOwned struct {
	answered, absent, other int
	own                     int // "not yours" after a release of one's own: not counted
	evidence                []int64
}

// ratio of "not yours" among the answers, in billionths.
func (o notOwned) ratio() int64 {
	if o.answered == 0 {
		return 0
	}
	return int64(o.absent+o.other) * 1e9 / int64(o.answered)
}

// notOwnedOf counts the answers to renewals or releases. Calls that nobody answered say nothing, and an undo is no release: it
// asks whether there was a grant at all.
func (ix *Facts) notOwnedOf(lock, op string) notOwned {
	var o notOwned
	for _, e := range ix.epochsOf(lock) {
		calls := e.renewals
		if op == opRelease {
			calls = e.releases
		}
		if e.belief == nil {
			continue
		}
		for _, c := range calls {
			if !ix.takenDown(c.sent.From) {
				o.count(e, c)
			}
		}
	}
	return o
}

func (o *notOwned) count(e *epoch, c *call) {
	switch {
	case c.outcome == history.OK:
		o.answered++
		return
	case !gone(c):
		return
	}
	for _, r := range e.releases {
		after := r.sent.From <= c.sent.From && r.outcome != history.Fail
		met := r.sent.From <= c.span.To && r.outcome == history.OK // the release overtook a call that was on its way
		if r != c && (after || met) {
			o.own++
			return
		}
	}
	o.answered++
	if c.result == history.ResultAbsent {
		o.absent++
	} else {
		o.other++
	}
	o.evidence = append(o.evidence, c.n)
}

// failedReleases is what became of the release calls of a lock, and of the leases that they were to end.
type failedReleases struct {
	calls, leases tally // that failed, surely and perhaps
	sent, ended   int   // calls, and leases with such calls
	evidence      []int64
}

// failedReleasesOf counts release calls that came back without an answer of the store's. An answer of "not yours" is none: there was
// nothing left to release. A call that is still out at the end, or whose success a look refutes, has perhaps failed; one whose caller died
// has not.
func (ix *Facts) failedReleasesOf(lock string) failedReleases {
	var f failedReleases
	for _, e := range ix.epochsOf(lock) {
		if e.belief != nil {
			f.add(ix, e)
		}
	}
	return f
}

func (f *failedReleases) add(ix *Facts, e *epoch) {
	var lease tally
	sent, freed := 0, false
	for _, c := range e.releases {
		_, dead := ix.deaths[e.replica]
		switch {
		case ix.takenDown(c.sent.From), !c.exited && dead:
			continue
		case gone(c), c.outcome == history.OK && !c.refuted:
			freed = true
		case c.exited && c.said != history.OK:
			f.calls.lo++
			lease.lo = 1
			fallthrough
		default:
			f.calls.hi++
			lease.hi = 1
			f.evidence = append(f.evidence, c.n)
		}
		sent++
	}
	if f.sent += sent; sent == 0 {
		return
	}
	if f.ended++; !freed {
		f.leases.lo += lease.lo
		f.leases.hi += lease.hi
	}
}

// share of n that a tally is, in billionths.
func (t tally) share(n int) dur {
	if n == 0 {
		return dur{0, open}
	}
	return dur{int64(t.lo) * 1e9 / int64(n), int64(t.hi) * 1e9 / int64(n)}
}

// foreign is what was answered ok to somebody whose key had gone to another epoch: a store that compares tokens answers so to nobody.
type foreign struct {
	count    tally
	answered int // ok, in all
	evidence []int64
	first    string
}

// foreignOf looks for calls of one verb among those of the lock that were answered ok. What a worker only says counts: either the store
// did it, or the worker lies. A fail-over may bring back a holder whose key had gone to another.
func (ix *Facts) foreignOf(lock, did string, calls func(*epoch) []*call) foreign {
	var f foreign
	for _, k := range ix.keysOf(lock) {
		for _, e := range k.all {
			for _, c := range calls(e) {
				if c.said != history.OK {
					continue
				}
				f.answered++
				by, surely := ix.tookOver(k, e, c)
				if by == nil {
					continue
				}
				f.count.count(surely, true)
				f.evidence = append(f.evidence, c.n, by.n)
				if f.first == "" {
					f.first = fmt.Sprintf("Key %s: epoch %s %s it with success after it had been granted to epoch %s", k.name, e.id, did, by.id)
				}
			}
		}
	}
	return f
}

// tookOver is the first epoch that was granted the key after e and before c was sent, surely or perhaps; nil where there is none.
func (ix *Facts) tookOver(k *keyIndex, e *epoch, c *call) (by *epoch, surely bool) {
	if !e.sure || ix.failsOver() {
		return nil, false
	}
	for _, o := range k.epochs {
		if o == e || o.ghost || o.granted.From <= e.granted.To || !ix.sameStore(o.granted.From, c.span.To) {
			continue
		}
		if o.granted.To < c.sent.From {
			return o, true
		}
		if by == nil && o.granted.From < c.sent.From {
			by = o
		}
	}
	return by, false
}

// grantOf is what tells one grant of an epoch from another.
type grantOf struct {
	key   string
	fence int64 // where none is known, which of the grants of this key it was
	n     int64
}

// grantsOf are the grants of a token under a key: as their holder claims them, or, where nobody claims, as looks show that it came, and
// came again after it was gone, or as effects do under a key that no look saw.
func (ix *Facts) grantsOf(k *keyIndex, e *epoch) (all []grantOf) {
	for _, c := range e.acquires {
		if c.said == history.OK {
			all = append(all, grantOf{k.name, c.fence, c.n})
		}
	}
	if !ix.exp.Observed() || e.stranger {
		return all
	}
	if len(e.looks) > 0 {
		all = append(all, grantOf{k.name, int64(e.nth), e.looks[0].n})
	}
	if len(all) == 0 && len(e.effects) > 0 {
		all = append(all, grantOf{k.name, 0, e.effects[0].n})
	}
	return all
}

// notYours is the share of "not yours" among the answers of one operation.
func notYours(j *judging, l *experiments.Limit) figure {
	o := j.ix.notOwnedOf(l.Lock, l.Part)
	f := figure{value: value{dur: dur{o.ratio(), o.ratio()}}, n: o.answered, evidence: o.evidence}
	if f.n == 0 {
		f.hi = open
	}
	thing := map[string]string{opRenew: "renewal", opRelease: "release"}[l.Part]
	f.saw = fmt.Sprintf("%s of %s were answered \"not yours\" (%s absent, %s other)", figures.Count(o.absent+o.other), figures.Plural(o.answered, thing), figures.Count(o.absent), figures.Count(o.other))
	if o.own > 0 {
		f.saw += fmt.Sprintf("; %d more followed a release of the holder's own", o.own)
	}
	return f
}

// failedCalls is the share of release calls that failed, or of leases that no release call ended.
func failedCalls(j *judging, l *experiments.Limit) figure {
	r := j.ix.failedReleasesOf(l.Lock)
	t, n, saw := r.calls, r.sent, fmt.Sprintf("%s of %s failed", figures.Count(r.calls.lo), figures.Plural(r.sent, "release call"))
	if l.Part == "given_up" {
		t, n = r.leases, r.ended
		saw = fmt.Sprintf("%s of %s were left to their TTL after failed releases", figures.Count(t.lo), figures.Plural(n, "lease"))
	}
	return figure{value: value{dur: t.share(n)}, n: n, evidence: r.evidence, hints: hints{saw: saw}}
}

// foreigners counts calls that succeeded after the key had gone to another.
func foreigners(did string, calls func(*epoch) []*call) func(*judging, *experiments.Limit) figure {
	return func(j *judging, l *experiments.Limit) figure {
		x := j.ix.foreignOf(l.Lock, did, calls)
		return figure{value: x.count.value(), n: x.answered, evidence: x.evidence, hints: hints{why: x.first}}
	}
}

// grantedAgain counts grants beyond the first of one token: nothing then tells a hold from the one before it, and either's release frees
// the other's key.
func grantedAgain(j *judging, l *experiments.Limit) figure {
	var f figure
	grants := map[string][]grantOf{}
	for _, k := range j.ix.keysOf(l.Lock) {
		for _, e := range k.all {
			for _, g := range j.ix.grantsOf(k, e) {
				same := func(o grantOf) bool { return o.key == g.key && o.fence == g.fence }
				if slices.ContainsFunc(grants[e.id], same) { // one that is asked for again, because its answer was lost
					continue
				}
				f.n++
				if grants[e.id] = append(grants[e.id], g); len(grants[e.id]) == 1 {
					continue
				}
				f.lo++
				first := grants[e.id][0]
				f.evidence = append(f.evidence, first.n, g.n)
				if f.why == "" {
					f.why = fmt.Sprintf("Epoch %s was granted key %s, and before that key %s", e.id, k.name, first.key)
				}
			}
		}
	}
	f.hi = f.lo
	if x := j.ix.exp.EffectsOf(l.Lock); j.ix.exp.Observed() && (x == nil || x.Map.Token == "") {
		f.hi = open // grants hide between looks, and nothing else tells their tokens
	}
	if !j.ix.exp.FreshTokens(l.Lock) { // a stored run may ask what is refused since
		why, next := j.ix.exp.Untold(l.Lock, l.Measure)
		f.unfit, f.next = capital(why), capital(next)
	}
	return f
}
