package reports

import (
	"testing"
)

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		lo   float64
		hi   *float64
		unit string
		want string
	}{
		{8.9121, at(8.9209), "s", "[8.912, 8.921]s"},
		{95 * 0.05, at(95 * 0.05), "s", "4.75s"},
		{0, nil, "s", "[0s, open]"},
		{0, at(0), "count", "0"},
		{2914, at(2914), "count", "2,914"},
		{1, at(1200), "count", "[1, 1,200]"},
		{2, nil, "count", "[2, open]"},
		{1999.99951, at(2000.0001), "value", "[1999.999, 2000.001]"},
		{0.5, nil, "value", "[0.5, open]"},
	} {
		if got := span(c.lo, c.hi, c.unit); got != c.want {
			t.Errorf("span(%v, %v, %s) = %q, want %q", c.lo, c.hi, c.unit, got, c.want)
		}
	}
}

func TestPercent(t *testing.T) {
	for rate, want := range map[float64]string{0: "0%", 0.00103: "0.11%", 0.2209: "23%", 0.05: "5.0%", 1: "100%"} {
		if got := percent(rate); got != want {
			t.Errorf("percent(%v) = %q, want %q", rate, got, want)
		}
	}
}

// What only may have happened is printed, too.
func TestUpTo(t *testing.T) {
	if got := upTo(0, 19); got != "0 to 19" {
		t.Errorf("a range of counts is written %q", got)
	}
	if got := upTo(3, 3); got != "3" {
		t.Errorf("a known count is written %q", got)
	}
}
