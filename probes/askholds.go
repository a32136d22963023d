package probes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/stores/witness"
)

// AskHistograms is ReadHistograms of what a Prometheus has seen in a window up to now: the increase of each bucket, over all series of a
// class together.
func AskHistograms(ctx context.Context, o PromServer, name string, labels map[string]string, window time.Duration) ([]Histogram, error) {
	s, err := newPromServer(o, func() int64 { return 0 })
	if err != nil {
		return nil, err
	}
	defer s.client.CloseIdleConnections()
	selector := ""
	if len(labels) > 0 {
		selector = strings.ReplaceAll(labelText(labels), ", ", ",")
	}
	query := fmt.Sprintf("sum by (class, le) (increase(%s_bucket%s[%ds]))", name, selector, int(window.Seconds()))
	values, err := s.evaluate(ctx, query)
	if err != nil {
		return nil, err
	}
	by := map[string][]Bucket{}
	for _, v := range values {
		most, err := strconv.ParseFloat(v.Labels["le"], 64)
		if err != nil {
			return nil, fmt.Errorf("%s_bucket has le=%q, which is no number", name, witness.Cut(v.Labels["le"]))
		}
		count := float64(v.Value)
		if !(count >= 0) || count > math.MaxInt64 {
			return nil, fmt.Errorf("%s_bucket grew by %g, which is no count", name, count)
		}
		class := v.Labels["class"]
		by[class] = append(by[class], Bucket{most, uint64(math.Round(count))})
	}
	if len(by) == 0 {
		return nil, fmt.Errorf("no histogram %s%s grew in the last %s", name, selector, window)
	}
	var out []Histogram
	for _, class := range slices.Sorted(maps.Keys(by)) {
		buckets := by[class]
		slices.SortFunc(buckets, func(a, b Bucket) int { return cmp.Compare(a.Most, b.Most) })
		for i := 1; i < len(buckets); i++ { // an increase is an estimate, each bucket's by itself
			buckets[i].Count = max(buckets[i].Count, buckets[i-1].Count)
		}
		h := Histogram{Class: class}
		if err := h.add(buckets, buckets[len(buckets)-1].Count); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, h)
	}
	return out, nil
}
