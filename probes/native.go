package probes

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Schemas of native histograms: a bucket's upper end is 2^(2^-schema) times its lower one.
const (
	coarsest = -4
	finest   = 8
)

// native is a native histogram, or the sum of several at the coarsest schema among them.
type native struct {
	schema int32
	count  uint64
	zero   uint64  // observations in the bucket around 0
	around float64 // that bucket's upper end
	at     map[int]uint64
}

// isNative reports whether a histogram has buckets that nobody chose.
func isNative(h *dto.Histogram) bool {
	return len(h.GetPositiveSpan()) > 0 || len(h.GetNegativeSpan()) > 0 || h.ZeroThreshold != nil || h.Schema != nil
}

func nativeOf(h *dto.Histogram) (*native, error) {
	n := &native{schema: h.GetSchema(), count: h.GetSampleCount(), zero: h.GetZeroCount(), around: h.GetZeroThreshold(), at: map[int]uint64{}}
	switch {
	case n.schema < coarsest || n.schema > finest:
		return nil, fmt.Errorf("a native histogram of schema %d is not known", n.schema)
	case h.GetSampleCountFloat() > 0 || len(h.GetPositiveCount()) > 0:
		return nil, errors.New("a native histogram of fractions counts no observations")
	case len(h.GetNegativeSpan()) > 0:
		return nil, errors.New("it has values below 0: they are no durations")
	}
	i, k, count := 0, 0, int64(0)
	for _, span := range h.GetPositiveSpan() {
		i += int(span.GetOffset())
		for range span.GetLength() {
			if k >= len(h.GetPositiveDelta()) {
				return nil, errors.New("its buckets are fewer than its spans say")
			}
			if count += h.GetPositiveDelta()[k]; count < 0 {
				return nil, errors.New("a bucket has less than nothing in it")
			}
			n.at[i] += uint64(count)
			i, k = i+1, k+1
		}
	}
	return n, nil
}

// coarsen joins each two buckets.
func (n *native) coarsen() {
	at := map[int]uint64{}
	for i, c := range n.at {
		at[(i+1)>>1] += c
	}
	n.schema, n.at = n.schema-1, at
}

// add adds another one.
func (n *native) add(o *native) {
	for n.schema > o.schema {
		n.coarsen()
	}
	for o.schema > n.schema {
		o.coarsen()
	}
	for i, c := range o.at {
		n.at[i] += c
	}
	n.count, n.zero, n.around = n.count+o.count, n.zero+o.zero, max(n.around, o.around)
}

// buckets are the same, cumulative.
func (n *native) buckets() []Bucket {
	end := func(i int) float64 { return math.Exp2(float64(i) * math.Exp2(-float64(n.schema))) }
	all, sum := []Bucket{{n.around, n.zero}}, n.zero
	for _, i := range slices.Sorted(maps.Keys(n.at)) {
		if n.at[i] == 0 {
			continue
		}
		if from := end(i - 1); from > all[len(all)-1].Most {
			all = append(all, Bucket{from, sum})
		}
		sum += n.at[i]
		all = append(all, Bucket{max(end(i), all[len(all)-1].Most), sum})
	}
	return append(all, Bucket{math.Inf(1), n.count})
}
