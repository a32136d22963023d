package analysis

import (
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// In a store that nobody looks at, two may hold at once and both give the lock back: the first one's release does not put off a grant that
// was surely before it.
func TestWhatIsSurelyHeldIsPossiblyHeld(t *testing.T) {
	first := &epoch{belief: &held{start: history.Span{From: 10, To: 11}, end: history.Span{From: 30, To: 31}}}
	first.life.gave = &call{outcome: history.OK, sent: history.Span{From: 30, To: 30}}
	second := &epoch{belief: &held{start: history.Span{From: 15, To: 20}, end: history.Span{From: 30, To: 32}}}
	sure, maybe, _ := (&Facts{}).holds(&keyIndex{epochs: []*epoch{first, second}}, verdict.LevelBelief)
	if lo, hi := excess(sure), excess(maybe); lo != 10 || hi != 16 {
		t.Errorf("more than one holder for [%d, %d]", lo, hi)
	}
}
