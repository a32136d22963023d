package probes

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Histogram is the observations of one class of work in a saved exposition, in cumulative buckets. All series of that class are added up.
type Histogram struct {
	Class   string // value of the label `class`; "" = it has none
	Count   uint64
	Buckets []Bucket // by their upper ends; the last one may be +Inf
}

// Bucket is how many observations were at most so large.
type Bucket struct {
	Most  float64
	Count uint64
}

// ReadHistograms reads a saved scrape in any form that Prometheus takes: the histogram of that name, its series with these labels, by class. The error
// says what is wrong with the text, or that there is no such histogram.
func ReadHistograms(text []byte, name string, labels map[string]string) ([]Histogram, error) {
	families, err := parseExposition(text, "")
	if err != nil {
		return nil, fmt.Errorf("read exposition: %w", err)
	}
	const histogram = "HISTOGRAM"
	family := families[name]
	if family == nil || family.GetType().String() != histogram {
		there := []string{}
		for n, f := range families {
			if f.GetType().String() == histogram {
				there = append(there, n)
			}
		}
		slices.Sort(there)
		return nil, fmt.Errorf("no histogram %s in it; histograms there: %s", name, cmp.Or(strings.Join(there, ", "), "none"))
	}
	by, natives := map[string]*Histogram{}, map[string]*native{}
	for _, m := range family.GetMetric() {
		own := map[string]string{}
		for _, l := range m.GetLabel() {
			own[l.GetName()] = l.GetValue()
		}
		if !Carries(own, labels) {
			continue
		}
		class := own["class"]
		if h := m.GetHistogram(); isNative(h) { // its own buckets are finer than those that somebody chose beside them
			n, err := nativeOf(h)
			if err != nil {
				return nil, fmt.Errorf("%s%s: %w", name, labelText(own), err)
			}
			if natives[class] != nil {
				natives[class].add(n)
			} else {
				natives[class] = n
			}
			continue
		}
		var buckets []Bucket
		for _, b := range m.GetHistogram().GetBucket() {
			buckets = append(buckets, Bucket{b.GetUpperBound(), b.GetCumulativeCount()})
		}
		if by[class] == nil {
			by[class] = &Histogram{Class: class}
		}
		if err := by[class].add(buckets, m.GetHistogram().GetSampleCount()); err != nil {
			return nil, fmt.Errorf("%s%s: %w", name, labelText(own), err)
		}
	}
	for class, n := range natives {
		if by[class] != nil {
			return nil, fmt.Errorf("%s: %w", name, errBuckets)
		}
		by[class] = &Histogram{Class: class, Count: n.count, Buckets: n.buckets()}
	}
	if len(by) == 0 {
		return nil, fmt.Errorf("%s has no series with the labels %s", name, labelText(labels))
	}
	var out []Histogram
	for _, class := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[class])
	}
	return out, nil
}

// labelText writes labels as an exposition does: {class="small", namespace="job"}.
func labelText(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Carries reports whether a series has all the labels that are asked for.
func Carries(own, asked map[string]string) bool {
	for name, value := range asked {
		if own[name] != value {
			return false
		}
	}
	return true
}

var errBuckets = errors.New("series with different buckets cannot be added up: choose one by its labels")

// add adds one more series.
func (h *Histogram) add(buckets []Bucket, count uint64) error {
	if len(buckets) == 0 {
		return errors.New("it has no buckets")
	}
	if h.Buckets == nil {
		h.Buckets = make([]Bucket, len(buckets))
		for i, b := range buckets {
			h.Buckets[i].Most = b.Most
		}
	}
	if len(h.Buckets) != len(buckets) {
		return errBuckets
	}
	before := Bucket{Most: math.Inf(-1)}
	for i, b := range buckets {
		switch {
		case b.Most != h.Buckets[i].Most:
			return errBuckets
		case b.Count < before.Count || b.Count > count || !(b.Most > before.Most):
			return errors.New("its buckets do not grow")
		}
		before = b
		h.Buckets[i].Count += b.Count
	}
	h.Count += count
	return nil
}

// Quantile is the bucket that the p-quantile lies in: above lo, at most hi. hi is +Inf where it lies above all buckets, or nothing was
// observed.
func (h *Histogram) Quantile(p float64) (lo, hi float64) {
	if h.Count == 0 {
		return 0, math.Inf(1)
	}
	rank := uint64(math.Ceil(p*float64(h.Count) - 1e-9))
	for _, b := range h.Buckets {
		if b.Count >= max(rank, 1) {
			return lo, b.Most
		}
		lo = max(0, b.Most)
	}
	return lo, math.Inf(1)
}
