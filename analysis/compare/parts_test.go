package compare

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// made are takeovers of so many parts, one a kill: left of the lease, pickup and warm-up, which the last kill does not show.
func made(kills int, residual, pickup float64) verdict.Sample {
	whole, parts := []verdict.Range{}, make([][]verdict.Range, 3)
	around := func(v float64) verdict.Range { hi := v + 0.01; return verdict.Range{Lo: v - 0.01, Hi: &hi} }
	for k := range kills {
		by := float64(k) / 1000
		whole = append(whole, around(residual+pickup+by))
		for i, v := range []float64{residual, pickup, 0.02} {
			if i < 2 || k < kills-1 {
				parts[i] = append(parts[i], around(v+by))
			}
		}
	}
	s := takeovers(whole...)
	s.Parts = parts
	return s
}

// A change is said of the part that made it, whichever way the others went; what is not significant names none.
func TestTheChangeOfATakeoverNamesItsPart(t *testing.T) {
	for _, c := range []struct {
		residual, pickup float64
		word             Word
		says             string
	}{
		{6, 3, Worse, "; pickup grew most, by at least 1.98s"},
		{9, 1, Worse, "; left of the lease grew most, by at least 2.98s"},
		{2, 2, Better, "; left of the lease shrank most, by at least 3.98s"},
		{6, 1.02, Unchanged, ""},
	} {
		base := side("b", 2, func(int) []verdict.Sample { return []verdict.Sample{made(6, 6, 1)} })
		head := side("h", 2, func(int) []verdict.Sample { return []verdict.Sample{made(6, c.residual, c.pickup)} })
		r := compared(t, base, head, usual).Rows[0]
		if _, part, _ := strings.Cut(r.Why, "significant"); r.Word != c.word || part != c.says && c.word != Unchanged || c.says == "" && strings.Contains(r.Why, "most") {
			t.Errorf("left of the lease %g, pickup %g: %s %q, want %s %q", c.residual, c.pickup, r.Word, r.Why, c.word, c.says)
		}
		if len(r.Parts) != 3 || *r.Parts[1].Shift.Lo > c.pickup-1 || *r.Parts[1].Shift.Hi < c.pickup-1 {
			t.Errorf("parts %+v", r.Parts)
		}
		for i, v := range ArchiveOf(head, usual).Experiments[0].Rows[0].Values {
			if len(v.Parts) != 3 || v.Parts[1].Name != verdict.PartPickup || *v.Parts[1].Median.Lo > c.pickup+0.005 || *v.Parts[1].Median.Hi < c.pickup {
				t.Errorf("run %d of the history: %+v", i, v.Parts)
			}
		}
	}
	if r := compared(t, side("b", 1, func(int) []verdict.Sample { return []verdict.Sample{counted("busy", 1)} }), side("h", 1, func(int) []verdict.Sample { return []verdict.Sample{counted("busy", 1)} }), usual).Rows[0]; r.Parts != nil {
		t.Errorf("busy has parts: %+v", r.Parts)
	}
}

// The parts of a run are those of the worst key of each kill.
func TestObserveHasThePartsOfKills(t *testing.T) {
	s := observedCase(t, "replica-dies").row(t, "job", "takeover")
	if len(s.Parts) != 3 || len(s.Parts[0]) != len(s.Values) || len(s.Parts[1]) != len(s.Values) {
		t.Errorf("%d values, parts %v", len(s.Values), s.Parts)
	}
	if s := observedCase(t, "good-drill").row(t, "leader", "tick_gap"); s.Parts != nil {
		t.Errorf("the parts of ticks: %v", s.Parts)
	}
}
