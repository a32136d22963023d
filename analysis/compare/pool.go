package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// PooledVersion is the schema version of the document of `lockdrill history --pool`.
const PooledVersion = 1

// Pooled is the document of `lockdrill history --pool`: what many runs of one question say of its quantiles together. Durations are seconds.
// Slices are never null.
type Pooled struct {
	SchemaVersion int            `json:"schemaVersion"`
	Experiment    string         `json:"experiment"`
	Labels        history.Labels `json:"labels,omitempty"` // that all runs have
	Start         string         `json:"start"`            // what fixed which runs belong to it before the first of them began; "" = nothing did, so no row passes
	Verdict       string         `json:"verdict"`          // pass, slo-failed, inconclusive, refused
	ExitCode      int            `json:"exitCode"`         // 0, 10, 11, 13
	Reasons       []string       `json:"reasons"`          // what keeps it from a pass, the most telling first
	Rows          []PooledRow    `json:"rows"`
	Differences   []Difference   `json:"differences"`
	Runs          []PooledRun    `json:"runs"` // by start
}

// PooledRow is one quantile over all runs. A kill counts by its worst key.
type PooledRow struct {
	Lock    string          `json:"lock"`
	Measure string          `json:"measure"` // takeover.p95
	Limit   float64         `json:"limit"`
	Of      string          `json:"of"`     // kill, burst, pause ...
	N       int             `json:"n"`      // of them
	Surely  int             `json:"surely"` // that surely were over the limit
	Maybe   int             `json:"maybe"`  // that may have been, those included
	Verdict verdict.Verdict `json:"verdict"`
	Why     string          `json:"why"`
	More    int             `json:"more,omitempty"` // inconclusive: so many more that keep the limit would be enough
	Runs    []PooledHit     `json:"runs"`
}

// PooledHit is what one run gave to a row.
type PooledHit struct {
	Run    string `json:"run"`
	N      int    `json:"n"`
	Surely int    `json:"surely"`
	Maybe  int    `json:"maybe"`
	Why    string `json:"why,omitempty"` // why all of them may have been over the limit
}

// PooledRun is one of the runs.
type PooledRun struct {
	ID      string   `json:"id"`
	Folder  string   `json:"folder"`
	Started string   `json:"started"`
	Verdict string   `json:"verdict"`
	Failed  []string `json:"failed,omitempty"` // rows that no number of kills makes right
}

// PoolOptions is how runs are judged together.
type PoolOptions struct {
	CompareOptions
	Start string // what fixed which runs belong to the pool before the first of them began; "" = nothing: no row passes
}

// Pool judges the quantiles of takeovers and tick gaps over all runs of one question, which are not empty. The number of kills grows while
// somebody looks, so the test is the sequential one. Every kill of every run counts, whatever became of the run: to leave one out afterwards
// would let a broken lock pass.
func Pool(runs []*Observed, o PoolOptions) *Pooled {
	runs = byStart(runs)
	contest(runs)
	p := &Pooled{
		SchemaVersion: PooledVersion, Experiment: runs[0].Experiment, Labels: common(runs), Start: o.Start, Reasons: []string{},
		Rows: []PooledRow{}, Differences: append([]Difference{}, differencesAmong(runs, nil, append(o.Allow, "tool"))...), Runs: []PooledRun{},
	}
	p.Differences = append(p.Differences, otherLimits(runs)...)
	for _, r := range runs {
		p.Runs = append(p.Runs, PooledRun{ID: r.Run.ID, Folder: r.Run.Folder, Started: r.Run.Started, Verdict: r.Run.Verdict, Failed: r.failed()})
	}
	for _, d := range p.Differences {
		if !d.Allowed {
			p.Reasons = append(p.Reasons, fmt.Sprintf("%s: %s in %s, %s in %s", d.Field, d.Base, runs[0].Run.ID, d.Head, d.Run))
		}
	}
	if len(p.Reasons) > 0 {
		p.Verdict, p.ExitCode = verdict.ExitName(verdict.ExitRefused), verdict.ExitRefused
		return p
	}
	for i := range runs[0].Rows {
		if q := &runs[0].Rows[i]; q.IsQuantile() {
			p.Rows = append(p.Rows, pooledRow(runs, q, o))
		}
	}
	decide(p)
	return p
}

// common are the labels that all runs have.
func common(runs []*Observed) history.Labels {
	all := maps.Clone(runs[0].Labels)
	for _, r := range runs {
		maps.DeleteFunc(all, func(k, v string) bool { return r.Labels[k] != v })
	}
	return all
}

// otherLimits are the quantiles whose limit is not the same in all runs: they ask another question.
func otherLimits(runs []*Observed) (ds []Difference) {
	limits := func(o *Observed) (all []experiments.Setting) {
		for i := range o.Rows {
			if q := &o.Rows[i]; q.IsQuantile() {
				all = append(all, experiments.Setting{Path: "slos " + q.title(), Value: figures.Exact(figures.Nanoseconds(q.Limit))})
			}
		}
		slices.SortFunc(all, func(a, b experiments.Setting) int { return cmp.Compare(a.Path, b.Path) })
		return all
	}
	for _, r := range runs[1:] {
		for _, d := range differ(limits(runs[0]), limits(r)) {
			d.Run, d.InBase = r.Run.ID, true
			ds = append(ds, d)
		}
	}
	return ds
}

// pooledRow is one quantile over all runs.
func pooledRow(runs []*Observed, q *Row, o PoolOptions) PooledRow {
	row := PooledRow{Lock: q.Question.Lock, Measure: q.Question.Name(), Limit: q.Limit, Of: q.Of, Verdict: verdict.Inconclusive, Runs: []PooledHit{}}
	all := verdict.Sample{Question: q.Question, Of: q.Of, Growing: true}
	for _, r := range runs {
		x := r.Rows[slices.IndexFunc(r.Rows, func(x Row) bool { return x.is(q.Question.Lock, q.Question.Name()) })]
		hit := PooledHit{Run: r.Run.ID, N: x.N, Surely: x.Surely, Maybe: x.Maybe, Why: x.Open}
		if r.contested {
			hit.Surely, hit.Why = 0, r.Run.Why
		}
		if hit.Why != "" {
			hit.Maybe = hit.N
		}
		all.N, all.Surely, all.Maybe = all.N+hit.N, all.Surely+hit.Surely, all.Maybe+hit.Maybe
		row.Runs = append(row.Runs, hit)
	}
	row.N, row.Surely, row.Maybe, row.Why = all.N, all.Surely, all.Maybe, all.Says()
	worse := recentlyWorse(runs, q, o.CompareOptions)
	switch answer := all.Answer(); {
	case answer == verdict.Fail:
		row.Verdict = verdict.Fail
	case answer == verdict.Inconclusive:
		row.More = all.Needed() - all.N
	case o.Start == "":
		row.Why += ", but the runs were chosen by hand"
	case runs[0].Rehearsal:
		row.Why += ", but these are rehearsals"
	case worse != "":
		row.Why += ", but " + worse
	default:
		row.Verdict = verdict.Pass
	}
	return row
}

// recentlyWorse says how the last runs of a pool are worse than those before them; "" where they are not known to be. What has changed
// lately is no longer what the pool is about.
func recentlyWorse(runs []*Observed, q *Row, o CompareOptions) string {
	last := len(runs) / 3
	if last == 0 {
		return ""
	}
	before, recent := runs[:len(runs)-last], runs[len(runs)-last:]
	rows := slices.DeleteFunc(pairingsOf(before, recent), func(p pairing) bool { return p.Lock != q.Question.Lock || p.Measure != q.Name() })
	o.Allow = []string{"all"}
	c := comparisonOf(before, recent, rows, o)
	if len(c.Rows) == 0 || c.Rows[0].Word != Worse {
		return ""
	}
	return fmt.Sprintf("the last %s are worse than those before: %s", figures.Plural(last, "run"), c.Rows[0].Why)
}

// decide gives the pool its word. What went wrong in one run stays, however many went well.
func decide(p *Pooled) {
	worst, open := verdict.Pass, []string{}
	for _, r := range p.Runs {
		for _, f := range r.Failed {
			worst = verdict.Fail
			p.Reasons = append(p.Reasons, "run "+r.ID+": "+f)
		}
	}
	for _, r := range p.Rows {
		worst = verdict.Worst(worst, r.Verdict)
		switch said := r.Lock + " " + r.Measure + ": " + r.Why; r.Verdict {
		case verdict.Fail:
			p.Reasons = append(p.Reasons, said)
		case verdict.Inconclusive:
			open = append(open, said)
		}
	}
	if len(p.Rows) == 0 {
		worst, open = verdict.Worst(worst, verdict.Inconclusive), append(open, "the experiment promises no quantile of takeover or tick_gap, so there is nothing to pool: promise one, such as takeover: {p95: 30s}")
	}
	p.Reasons = append(p.Reasons, open...)
	p.ExitCode = map[verdict.Verdict]int{verdict.Pass: verdict.ExitPass, verdict.Inconclusive: verdict.ExitInconclusive, verdict.Fail: verdict.ExitSLOFailed}[worst]
	p.Verdict = verdict.ExitName(p.ExitCode)
}
