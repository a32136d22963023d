package probes

import (
	"bytes"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/lockdrill/lockdrill/internal/testkit"
)

// held is a native histogram of two jobs' locks, as client_golang serves it: 1000 of 1 ms to 1 s, evenly.
func held(t *testing.T) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewRegistry()
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "held_seconds", Help: "h", NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 500,
	}, []string{"pod", "class"})
	r.MustRegister(v)
	for i := range 1000 {
		v.WithLabelValues([]string{"a", "b"}[i%2], "small").Observe(float64(i+1) / 1000)
	}
	return r
}

func TestNativeHistogramsAreRead(t *testing.T) {
	server := httptest.NewServer(promhttp.HandlerFor(held(t), promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	for series, want := range map[string]float64{"held_seconds_count": 500, "held_seconds_sum": 250} {
		p := newMetrics(t, Metric{Name: "held", Series: series, Labels: map[string]string{"pod": "a"}}, func() []Target { return []Target{{Name: "endpoint", URL: server.URL}} })
		got := (&looks{t: t, p: p}).at(false)
		if len(got) != 1 || len(got[0].Values) != 1 || math.Abs(float64(got[0].Values[0].Value)-want) > 1e-6 || got[0].Type != "histogram" {
			t.Errorf("%s: %+v, want %g", series, got, want)
		}
		_ = p.Close()
	}
	families, err := held(t).Gather()
	testkit.Must(t, err)
	var saved bytes.Buffer
	encode := expfmt.NewEncoder(&saved, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for _, f := range families {
		testkit.Must(t, encode.Encode(f))
	}
	all, err := ReadHistograms(saved.Bytes(), "held_seconds", nil)
	if err != nil || len(all) != 1 || all[0].Count != 1000 || all[0].Class != "small" {
		t.Fatalf("%+v, %v", all, err)
	}
	for p, value := range map[float64]float64{0.01: 0.010, 0.5: 0.5, 0.99: 0.990, 1: 1} {
		if lo, hi := all[0].Quantile(p); !(lo < value && value <= hi) || hi/lo > 1.1 {
			t.Errorf("p%g lies in (%g, %g], want %g in it and no wider than a tenth", 100*p, lo, hi, value)
		}
	}
	one, err := ReadHistograms(saved.Bytes(), "held_seconds", map[string]string{"pod": "b"})
	if err != nil || len(one) != 1 || one[0].Count != 500 {
		t.Errorf("one series: %+v, %v", one, err)
	}
}

// Sums of histograms that are not equally fine are as coarse as the coarsest, and count everything.
func TestNativeHistogramsAreAddedUp(t *testing.T) {
	fine := &native{schema: 3, count: 4, zero: 1, around: 1e-9, at: map[int]uint64{-3: 1, 0: 1, 5: 1}}
	fine.add(&native{schema: 1, count: 2, zero: 0, around: 1e-6, at: map[int]uint64{-1: 1, 2: 1}})
	h := Histogram{Count: fine.count, Buckets: fine.buckets()}
	if fine.schema != 1 || h.Count != 6 || h.Buckets[len(h.Buckets)-1] != (Bucket{math.Inf(1), 6}) {
		t.Fatalf("%+v", h)
	}
	before := Bucket{Most: -1}
	for _, b := range h.Buckets {
		if b.Most <= before.Most || b.Count < before.Count {
			t.Errorf("the buckets do not grow: %+v", h.Buckets)
		}
		before = b
	}
	for _, c := range []struct{ p, in float64 }{{0.5, math.Exp2(-3.0 / 8)}, {1, 2}} {
		if lo, hi := h.Quantile(c.p); !(lo < c.in && c.in <= hi) {
			t.Errorf("p%g lies in (%g, %g], want %g in it", 100*c.p, lo, hi, c.in)
		}
	}
}

const openMetrics = `# TYPE gave_up counter
# UNIT gave_up jobs
# HELP gave_up how often # {x="y"}
gave_up_total{namespace="a } \" b"} 3.0 1700000000.123 # {trace="1"} 0.5
gave_up_created{namespace="a } \" b"} 1.7e9
# TYPE held_seconds histogram
held_seconds_bucket{le="1.0"} 1 # {trace="2"} 0.7 1700000000.0
held_seconds_bucket{le="+Inf"} 3
held_seconds_count 3
held_seconds_sum 4.5
# TYPE build info
build_info{version="1"} 1
# TYPE jobs unknown
jobs 7
# EOF
`

func TestOpenMetricsAreRead(t *testing.T) {
	x := expose(t, strings.Replace(openMetrics, "1700000000.123", fmt.Sprintf("%d.123", time.Now().Unix()), 1))
	for series, want := range map[string]struct {
		value float64
		typ   string
	}{"gave_up_total": {3, "counter"}, "held_seconds_sum": {4.5, "histogram"}, "build_info": {1, "gauge"}, "jobs": {7, "untyped"}} {
		p := newMetrics(t, Metric{Name: "m", Series: series}, func() []Target { return []Target{{Name: "endpoint", URL: x.URL}} })
		got := (&looks{t: t, p: p}).at(false)
		if len(got) != 1 || len(got[0].Values) != 1 || float64(got[0].Values[0].Value) != want.value || got[0].Type != want.typ {
			t.Errorf("%s: %+v, want %+v", series, got, want)
		}
		_ = p.Close()
	}
	if all, err := ReadHistograms([]byte(openMetrics), "held_seconds", nil); err != nil || all[0].Count != 3 {
		t.Errorf("%+v, %v", all, err)
	}
}
