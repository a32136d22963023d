package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

func seedJudgement(v float64) *verdict.Judgement {
	hi := v
	return &verdict.Judgement{SLOs: []verdict.SLOResult{{Question: &experiments.Limit{Lock: "l", Measure: "takeover", Trials: true}, Lock: "l", Measure: "takeover.max", Unit: "s", Limit: 50, Lo: v, Hi: &hi, N: 1}}}
}

// The quantiles are within the resolution of those of the sorted values.
func TestRehearsedQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	var all []float64
	none, quiet := &experiments.Experiment{}, &history.History{}
	whole := NewRehearsed(none)
	for i := range int64(5000) {
		v := 60 * rng.Float64()
		if rng.IntN(50) == 0 {
			v = -v
		}
		all = append(all, v)
		whole.Add(i+1, seedJudgement(v), quiet)
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
	r, quiet := NewRehearsed(&experiments.Experiment{}), &history.History{}
	j := seedJudgement(0)
	j.SLOs[0].N, j.SLOs[0].Hi = 0, nil
	r.Add(1, j, quiet)
	if d := r.Document(); d.Rows[0].Min != nil || d.Rows[0].Breach != 0 || d.Worst != nil {
		t.Errorf("%+v", d.Rows[0])
	}
	j = seedJudgement(7)
	j.SLOs[0].Question = &experiments.Limit{Measure: "metric", Subject: "abandoned", Part: "delta"}
	if r.Add(2, j, quiet); r.Document().Rows[0].Seeds != 0 {
		t.Error("a metric that nobody serves has figures")
	}
}

// What a live run records of its rehearsals: the ends are exact, and what lies between is within the resolution.
func TestPredictionOfManySeeds(t *testing.T) {
	end := func(s float64) *float64 { return &s }
	none, quiet := &experiments.Experiment{}, &history.History{}
	all := NewRehearsed(none)
	for i := range int64(100) {
		j := &verdict.Judgement{Takeovers: []verdict.Takeover{{Lock: "l", Class: verdict.ClassCrash, Fault: "k#1", Lo: float64(i), Hi: end(float64(i) + 1)}}}
		all.Add(i+1, j, quiet)
	}
	body := all.Prediction()
	if body.Seeds != 100 || len(body.Takeovers) != 1 {
		t.Fatalf("%+v", body)
	}
	got := body.Takeovers[0]
	near := func(ns int64, s float64) bool { return math.Abs(float64(ns)/1e9-s) <= Resolution*s }
	if got.Lock != "l" || got.Class != verdict.ClassCrash || got.Values != 100 || got.Lo != 0 || *got.Hi != 100e9 || !near(got.P50, 49.5) || !near(got.P95, 94.5) {
		t.Errorf("%+v", got)
	}
	all.Add(101, &verdict.Judgement{Takeovers: []verdict.Takeover{{Lock: "l", Class: verdict.ClassCrash, Fault: "k#1", Lo: 5, Censored: true}, {Lock: "l", Class: verdict.ClassCrash, Lo: 700}}}, quiet)
	if got := all.Prediction().Takeovers[0]; got.Hi != nil || got.Open != 1 || got.Values != 101 {
		t.Errorf("with an open end, and one that no fault brought about: %+v", got)
	}
}

// The limit of a row that is a share of what another lock had is another one in each seed: that of the smallest number is shown.
func TestRowsAreToldByTheFirstSeed(t *testing.T) {
	r := NewRehearsed(&experiments.Experiment{})
	for _, seed := range []int64{2, 1, 3} {
		j := seedJudgement(7)
		j.SLOs[0].Limit = float64(10 * seed)
		r.Add(seed, j, &history.History{})
	}
	if got := r.Document().Rows[0].Limit; got != 10 {
		t.Errorf("limit %g", got)
	}
}
