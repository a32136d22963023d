package facts

import (
	"fmt"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// Operations whose "not yours" is counted.
const (
	OpRenew   = "renew"
	OpRelease = "release"
)

// NotOwnedOf counts the answers to renewals or releases. Calls that nobody answered say nothing, and an undo is no release: it
// asks whether there was a grant at all.
func (ix *Facts) NotOwnedOf(lock, op string) verdict.NotOwned {
	o := verdict.NotOwned{Lock: lock, Op: op}
	for _, e := range ix.EpochsOf(lock) {
		calls := e.Renewals
		if op == OpRelease {
			calls = e.Releases
		}
		if e.Belief == nil {
			continue
		}
		for _, c := range calls {
			if !ix.takenDown(c.Sent.From) {
				answer(&o, e, c)
			}
		}
	}
	if o.Answered > 0 {
		o.Ratio = float64(int64(o.Absent+o.Other)*1e9/int64(o.Answered)) / 1e9
	}
	o.Evidence = Cite(o.Evidence...)
	return o
}

// answer counts what c of e was answered. "Not yours" after a release of one's own is told apart.
func answer(o *verdict.NotOwned, e *Epoch, c *Call) {
	switch {
	case c.Outcome == history.OK:
		o.Answered++
		return
	case !gone(c):
		return
	}
	for _, r := range e.Releases {
		after := r.Sent.From <= c.Sent.From && r.Outcome != history.Fail
		met := r.Sent.From <= c.Span.To && r.Outcome == history.OK // the release overtook a call that was on its way
		if r != c && (after || met) {
			o.Own++
			return
		}
	}
	o.Answered++
	if c.Result == history.ResultAbsent {
		o.Absent++
	} else {
		o.Other++
	}
	o.Evidence = append(o.Evidence, c.n)
}

// failedReleases is what became of the release calls of a lock, and of the leases that they were to end.
type failedReleases struct {
	Calls, Leases Tally // that failed, surely and perhaps
	Sent, Ended   int   // calls, and leases with such calls
	Evidence      []int64
}

// FailedReleasesOf counts release calls that came back without an answer of the store's. An answer of "not yours" is none: there was
// nothing left to release. A call that is still out at the end, or whose success a look refutes, has perhaps failed; one whose caller died
// has not.
func (ix *Facts) FailedReleasesOf(lock string) failedReleases {
	var f failedReleases
	for _, e := range ix.EpochsOf(lock) {
		if e.Belief != nil {
			f.add(ix, e)
		}
	}
	return f
}

func (f *failedReleases) add(ix *Facts, e *Epoch) {
	var lease Tally
	sent, freed := 0, false
	for _, c := range e.Releases {
		_, dead := ix.Deaths[e.Replica]
		switch {
		case ix.takenDown(c.Sent.From), !c.Returned && dead:
			continue
		case gone(c), c.Outcome == history.OK && !c.Refuted:
			freed = true
		case c.Returned && !c.saidOK():
			f.Calls.Lo++
			lease.Lo = 1
			fallthrough
		default:
			f.Calls.Hi++
			lease.Hi = 1
			f.Evidence = append(f.Evidence, c.n)
		}
		sent++
	}
	if f.Sent += sent; sent == 0 {
		return
	}
	if f.Ended++; !freed {
		f.Leases.Lo += lease.Lo
		f.Leases.Hi += lease.Hi
	}
}

// Share of n that a tally is, in billionths.
func (t Tally) Share(n int) Dur {
	if n == 0 {
		return Dur{0, Open}
	}
	return Dur{int64(t.Lo) * 1e9 / int64(n), int64(t.Hi) * 1e9 / int64(n)}
}

// foreign is what was answered ok to somebody whose key had gone to another epoch: a store that compares tokens answers so to nobody.
type foreign struct {
	Count    Tally
	Answered int // ok, in all
	Evidence []int64
	First    string
}

// ForeignOf looks for calls of one verb among those of the lock that were answered ok. What a worker only says counts: either the store
// did it, or the worker lies. A fail-over may bring back a holder whose key had gone to another.
func (ix *Facts) ForeignOf(lock, did string, calls func(*Epoch) []*Call) foreign {
	var f foreign
	for _, k := range ix.KeysOf(lock) {
		for _, e := range k.All {
			for _, c := range calls(e) {
				if !c.saidOK() {
					continue
				}
				f.Answered++
				by, surely := ix.tookOver(k, e, c)
				if by == nil {
					continue
				}
				f.Count.count(surely, true)
				f.Evidence = append(f.Evidence, c.n, by.N)
				if f.First == "" {
					f.First = fmt.Sprintf("Key %s: epoch %s %s it with success after it had been granted to epoch %s", k.Name, e.ID, did, by.ID)
				}
			}
		}
	}
	return f
}

// tookOver is the first epoch that was granted the key after e and before c was sent, surely or perhaps; nil where there is none.
func (ix *Facts) tookOver(k *Key, e *Epoch, c *Call) (by *Epoch, surely bool) {
	if !e.sure || ix.FailsOver() {
		return nil, false
	}
	for _, o := range k.Epochs {
		if o == e || o.Ghost || o.Granted.From <= e.Granted.To || !ix.sameStore(o.Granted.From, c.Span.To) {
			continue
		}
		if o.Granted.To < c.Sent.From {
			return o, true
		}
		if by == nil && o.Granted.From < c.Sent.From {
			by = o
		}
	}
	return by, false
}

// GrantOf is what tells one grant of an epoch from another.
type GrantOf struct {
	Key   string
	Fence int64 // where none is known, which of the grants of this key it was
	N     int64
}

// GrantsOf are the grants of a token under a key: as their holder claims them, or, where nobody claims, as looks show that it came, and
// came again after it was gone, or as effects do under a key that no look saw.
func (ix *Facts) GrantsOf(k *Key, e *Epoch) (all []GrantOf) {
	for _, c := range e.Acquires {
		if c.saidOK() {
			all = append(all, GrantOf{k.Name, c.fence, c.n})
		}
	}
	if !ix.Exp.Observed() || e.Stranger {
		return all
	}
	if len(e.Looks) > 0 {
		all = append(all, GrantOf{k.Name, int64(e.nth), e.Looks[0].n})
	}
	if len(all) == 0 && len(e.Effects) > 0 {
		all = append(all, GrantOf{k.Name, 0, e.Effects[0].N})
	}
	return all
}
