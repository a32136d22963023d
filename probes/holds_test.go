package probes

import (
	"math"
	"strings"
	"testing"
)

const heldTwice = `# TYPE held_seconds histogram
held_seconds_bucket{class="small",pod="a",le="1"} 90
held_seconds_bucket{class="small",pod="a",le="5"} 99
held_seconds_bucket{class="small",pod="a",le="20"} 100
held_seconds_bucket{class="small",pod="a",le="+Inf"} 100
held_seconds_sum{class="small",pod="a"} 130
held_seconds_count{class="small",pod="a"} 100
held_seconds_bucket{class="small",pod="b",le="1"} 80
held_seconds_bucket{class="small",pod="b",le="5"} 98
held_seconds_bucket{class="small",pod="b",le="20"} 100
held_seconds_bucket{class="small",pod="b",le="+Inf"} 100
held_seconds_sum{class="small",pod="b"} 200
held_seconds_count{class="small",pod="b"} 100
held_seconds_bucket{class="big",pod="b",le="1"} 0
held_seconds_bucket{class="big",pod="b",le="5"} 0
held_seconds_bucket{class="big",pod="b",le="20"} 3
held_seconds_bucket{class="big",pod="b",le="+Inf"} 4
held_seconds_sum{class="big",pod="b"} 99
held_seconds_count{class="big",pod="b"} 4
# TYPE jobs_total counter
jobs_total 5
`

// A quantile of a histogram is known to its bucket, and no better; classes are kept apart, and replicas are added up.
func TestReadHistograms(t *testing.T) {
	all, err := ReadHistograms([]byte(heldTwice), "held_seconds", nil)
	if err != nil || len(all) != 2 || all[0].Class != "big" || all[1].Class != "small" || all[1].Count != 200 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, c := range []struct{ p, lo, hi float64 }{{0.5, 0, 1}, {0.85, 0, 1}, {0.851, 1, 5}, {0.985, 1, 5}, {0.99, 5, 20}, {1, 5, 20}} {
		if lo, hi := all[1].Quantile(c.p); lo != c.lo || hi != c.hi {
			t.Errorf("p%g: (%g, %g], want (%g, %g]", 100*c.p, lo, hi, c.lo, c.hi)
		}
	}
	if lo, hi := all[0].Quantile(0.99); lo != 20 || !math.IsInf(hi, 1) {
		t.Errorf("above all buckets: (%g, %g]", lo, hi)
	}
	one, err := ReadHistograms([]byte(heldTwice), "held_seconds", map[string]string{"pod": "a"})
	if err != nil || len(one) != 1 || one[0].Count != 100 {
		t.Errorf("of pod a: %+v, %v", one, err)
	}
}

func TestReadHistogramsRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, series, want string }{
		"another name":      {heldTwice, "wait_seconds", "no histogram wait_seconds in it; histograms there: held_seconds"},
		"a counter":         {heldTwice, "jobs_total", "no histogram jobs_total"},
		"no exposition":     {"{\"a\": 1}\n", "held_seconds", "read exposition"},
		"buckets that fall": {strings.Replace(heldTwice, `le="5"} 99`, `le="5"} 9`, 1), "held_seconds", "its buckets do not grow"},
		"more than counted": {strings.Replace(heldTwice, `le="5"} 99`, `le="5"} 990`, 1), "held_seconds", "its buckets do not grow"},
		"other buckets":     {strings.Replace(heldTwice, `pod="b",le="5"} 98`, `pod="b",le="6"} 98`, 1), "held_seconds", "cannot be added up"},
		"no buckets":        {"# TYPE held_seconds histogram\nheld_seconds_sum 5\nheld_seconds_count 2\n", "held_seconds", "it has no buckets"},
	} {
		if got, err := ReadHistograms([]byte(c.text), c.series, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, c.want)
		}
	}
	if _, err := ReadHistograms([]byte(heldTwice), "held_seconds", map[string]string{"pod": "c"}); err == nil || !strings.Contains(err.Error(), "no series with the labels") {
		t.Errorf("labels that nobody has: %v", err)
	}
}
