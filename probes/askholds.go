package probes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
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
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]json.RawMessage
		}
	}
	if err := s.get(ctx, "/api/v1/query", url.Values{"query": {query}}, &data); err != nil {
		return nil, err
	}
	by := map[string][]Bucket{}
	for _, r := range data.Result {
		most, err := strconv.ParseFloat(r.Metric["le"], 64)
		if err != nil {
			return nil, fmt.Errorf("%s_bucket has le=%q, which is no number", name, witness.Cut(r.Metric["le"]))
		}
		count, err := strconv.ParseFloat(strings.Trim(string(r.Value[1]), `"`), 64)
		if err != nil || !(count >= 0) || count > math.MaxInt64 {
			return nil, fmt.Errorf("%s_bucket grew by %s, which is no count", name, witness.Cut(string(r.Value[1])))
		}
		class := r.Metric["class"]
		by[class] = append(by[class], Bucket{most, uint64(math.Round(count))})
	}
	if len(by) == 0 {
		return nil, fmt.Errorf("no histogram %s with the labels %s grew in the last %s", name, labelText(labels), window)
	}
	var out []Histogram
	for _, class := range slices.Sorted(maps.Keys(by)) {
		buckets := by[class]
		slices.SortFunc(buckets, func(a, b Bucket) int {
			if a.Most < b.Most {
				return -1
			}
			return 1
		})
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
