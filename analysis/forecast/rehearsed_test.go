package forecast

import (
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

func seedJudgement(v float64) *verdict.Judgement {
	hi := v
	return &verdict.Judgement{SLOs: []verdict.SLOResult{{Question: &experiments.Limit{Lock: "l", Measure: "takeover", Trials: true}, Lock: "l", Measure: "takeover.max", Unit: "s", Limit: 50, Lo: v, Hi: &hi, N: 1}}}
}

// The quantiles are within the resolution of those of the sorted values; how the seeds were shared out changes nothing.
func TestRehearsedQuantiles(t *testing.T) {
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var all []float64
	var whole, a, b Rehearsed
	for i := range int64(5000) {
		v := 60 * rng.Float64()
		if rng.IntN(50) == 0 {
			v = -v
		}
		all = append(all, v)
		whole.Add(i+1, seedJudgement(v))
		if i%3 == 0 {
			a.Add(i+1, seedJudgement(v))
		} else {
			b.Add(i+1, seedJudgement(v))
		}
	}
	a.Merge(&b)
	if !reflect.DeepEqual(whole.Document(), a.Document()) {
		t.Errorf("merged: %+v\nwhole: %+v", a.Document(), whole.Document())
	}
	d := whole.Document()
	slices.Sort(all)
	row := d.Rows[0]
	for _, c := range []struct {
		p    float64
		want *float64
	}{{0.5, row.Median}, {0.95, row.P95}, {0.99, row.P99}} {
		exact := all[int(math.Ceil(c.p*float64(len(all))))-1]
		if math.Abs(*c.want-exact) > Resolution*math.Abs(exact)+smallest {
			t.Errorf("quantile %g is %g, want %g", c.p, *c.want, exact)
		}
	}
	over := 0
	for _, v := range all {
		if v > 50 {
			over++
		}
	}
	if *row.Min != all[0] || *row.Max != all[len(all)-1] || row.Breach != float64(over)/5000 || d.Worst.Value != all[len(all)-1] || d.Worst.Seed != row.Worst {
		t.Errorf("%+v, worst %+v", row, d.Worst)
	}
	if n := len(whole.rows[0].counts); n > 10000 {
		t.Errorf("%d buckets for 5000 seeds", n)
	}
}

// A row that nothing was measured for has no figures, and is no breach.
func TestRehearsedWithoutData(t *testing.T) {
	var r Rehearsed
	j := seedJudgement(0)
	j.SLOs[0].N, j.SLOs[0].Hi = 0, nil
	r.Add(1, j)
	if d := r.Document(); d.Rows[0].Min != nil || d.Rows[0].Breach != 0 || d.Worst != nil {
		t.Errorf("%+v", d.Rows[0])
	}
	j = seedJudgement(7)
	j.SLOs[0].Measure = "metric.abandoned.delta"
	if r.Add(2, j); r.Document().Rows[0].Seeds != 0 {
		t.Error("a metric that nobody serves has figures")
	}
}

// newSeed gives the seed of a property test: new each time, or SEED, to do one again.
func newSeed(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SEED=%d", seed)
	return seed
}
