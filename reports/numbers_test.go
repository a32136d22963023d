package reports

import (
	"math/rand/v2"
	"regexp"
	"strconv"
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
		{66.04, at(78.36), "s", "[66.0, 78.4]s"},
		{0.0711, at(0.0724), "s", "[71.1, 72.4]ms"},
		{0.00012, at(0.00031), "s", "[120.0, 310.0]us"},
		{4.75, at(4.75), "s", "4.75s"},
		{95 * 0.05, at(95 * 0.05), "s", "4.75s"},
		{0, at(0), "s", "0s"},
		{0, nil, "s", "[0s, open]"},
		{30.0001, nil, "s", "[30.000s, open]"},
		{-0.25, at(0.5), "s", "[-250.0, 500.0]ms"},
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

// A printed range contains the measured one: rounding must never make a figure look better known than it is.
func TestSpanRoundsOutwards(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	form := regexp.MustCompile(`^\[(-?[0-9.]+), (-?[0-9.]+)\](us|ms|s)$`)
	per := map[string]float64{"us": 1e6, "ms": 1e3, "s": 1}
	for range 10_000 {
		lo := float64(rnd.Int64N(100e9)-5e9) / 1e9
		hi := lo + float64(1+rnd.Int64N(1<<rnd.Int64N(34)))/1e9
		text := span(lo, &hi, unitSeconds)
		m := form.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("span(%v, %v) = %q", lo, hi, text)
		}
		a, _ := strconv.ParseFloat(m[1], 64)
		b, _ := strconv.ParseFloat(m[2], 64)
		if a > lo*per[m[3]]+noise || b < hi*per[m[3]]-noise {
			t.Fatalf("span(%.9f, %.9f) = %q does not contain it", lo, hi, text)
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

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	for want, got := range map[string]string{
		"1 stretch": plural(1, "stretch"), "2 stretches": plural(2, "stretch"), "3 jeopardies": plural(3, "jeopardy"), "1,000 epochs": plural(1000, "epoch"), "2 keys": plural(2, "key"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
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
