package history

import "testing"

func TestALookShowsAnExtension(t *testing.T) {
	const ms = 1e6
	ends := Ends{}
	for i, step := range []struct {
		key            string
		from, to, pttl int64
		want           bool
	}{
		{"a", 0, 2 * ms, 1000 * ms, false}, // it may have been extended long ago
		{"a", 100 * ms, 102 * ms, 900 * ms, false},
		{"a", 200 * ms, 400 * ms, 700 * ms, false}, // a slow look
		{"a", 500 * ms, 502 * ms, 1000 * ms, true},
		{"b", 500 * ms, 502 * ms, 5000 * ms, false},
		{"a", 600 * ms, 602 * ms, -2, false}, // not there
		{"a", 700 * ms, 702 * ms, 1000 * ms, true},
		{"b", 700 * ms, 702 * ms, -1, false}, // without an end
		{"b", 800 * ms, 802 * ms, 9000 * ms, false},
		{"a", 2000 * ms, 2002 * ms, 0, false}, // it has run out, and names its holder still
	} {
		e := Event{Key: step.key, Span: Span{From: step.from, To: step.to}, Look: &Look{Present: step.pttl != -2, PTTL: step.pttl}}
		if got := ends.Extended(e); got != step.want {
			t.Errorf("step %d: %t, want %t", i, got, step.want)
		}
	}
}
