package analysis

import (
	"github.com/lockdrill/lockdrill/history"
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
	for _, k := range ix.keysOf(lock) {
		for _, e := range k.epochs {
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
