package explore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Two states with one key have one future: whatever one step makes of the one, a step makes of the other, the same promises broken. As
// that holds for those that follow too, it holds for ever.
func TestWhatIsMergedHasOneFuture(t *testing.T) {
	for name, c := range map[string]struct {
		depth int
		w     World
	}{
		"late":     {9, World{Policy: policy(lockcore.Critical), Pauses: true}},
		"twice":    {8, World{Policy: policy(lockcore.Standard), Twice: true, Refused: true}},
		"waiting":  {8, World{Policy: waiting(), Flush: true, Delete: true}},
		"left":     {9, World{Policy: left(), Pauses: true}},
		"drifting": {7, World{Policy: policy(lockcore.Critical), Drift: true, GiveUps: true, Deaths: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c.w.Contenders = 2
			merged, different := 0, 0
			q := c.w.Search(c.depth)
			future := func(s *state) (all []string) {
				q.Next(s, func(to *state, broken string) { all = append(all, string(q.Key(to, nil))+broken) })
				slices.Sort(all)
				return slices.Compact(all) // what is alike in one state may be two steps in the other
			}
			q.Merged = func(known, dropped *state) {
				merged++
				if a, b := future(known), future(dropped); !slices.Equal(a, b) {
					different++
					if different == 1 {
						t.Errorf("after a merge, %d ways on against %d\n%s\n%s", len(a), len(b), dump(known), dump(dropped))
					}
				}
			}
			f := q.Run()
			t.Logf("%d states, %d merged, %d of them wrongly", f.States, merged, different)
			if merged < 1000 {
				t.Error("too little was merged to say anything")
			}
		})
	}
}

func dump(s *state) string {
	text := fmt.Sprintf("now %d holder %d epoch %d ends %d top %d accepted %d messages %+v", s.now, s.holder, s.epoch, s.ends, s.top, s.accepted, s.messages)
	for _, c := range s.who {
		text += fmt.Sprintf("\n  %+v\n    %+v", *c, c.m)
	}
	return text
}
