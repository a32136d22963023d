package analysis

import (
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Observed is what one run brings to a comparison.
type Observed struct {
	run         ComparedRun
	experiment  string
	rehearsal   bool
	rows        []sample
	failures    []failures
	environment []experiments.Setting
}

// Run says which run it was: two with the same id and seed are one.
func (o *Observed) Run() ComparedRun { return o.run }

// sample is what a run measured of one row.
type sample struct {
	lock, measure, unit, of string
	values                  []Range
}

// failures of one kind that were surely seen.
type failures struct {
	what string
	n    int
}

// Observe judges a run, and takes from it what a comparison needs. e is the experiment as loaded. folder is how the run was named.
//
// A rehearsal is judged by its figures alone: that it is one is no reason to set them aside beside another rehearsal's.
func Observe(e *experiments.Experiment, h *history.History, folder string) *Observed {
	j := NewJudger(e).judging(h)
	told := j.judgement()
	seen, rehearsal := told, h.Header.Mode == history.Rehearsal
	if rehearsal {
		alone := *h
		alone.Header.Mode = history.Live
		j = NewJudger(e).judging(&alone)
		seen = j.judgement()
	}
	o := &Observed{
		experiment: h.Header.Experiment, rehearsal: rehearsal, environment: environmentOf(e, h, rehearsal), failures: failuresOf(seen),
		run: ComparedRun{ID: told.Run.ID, Folder: folder, Started: told.Run.Started, Seed: told.Run.Seed, Verdict: told.Verdict},
	}
	o.answer(seen)
	o.rows = samplesOf(j, seen, rehearsal)
	if !o.run.Used {
		for i := range o.rows {
			o.rows[i].values = nil
		}
	}
	return o
}

// answer says whether the run answered its own questions, and whether its figures count.
func (o *Observed) answer(j *Judgement) {
	r := &o.run
	r.Answered = j.ExitCode == exitPass || j.ExitCode == exitSLOFailed
	r.Used = j.Run.Status == statusCompleted && len(j.Lacks) == 0
	switch {
	case len(j.Lacks) > 0:
		r.Why = j.Lacks[0].Why
	case !r.Used:
		r.Why = "the run did not come to its end"
	case r.Answered:
	case j.ExitCode == exitInconclusive:
		r.Why = "a question of its own was not answered"
		for _, s := range j.SLOs {
			if s.Verdict == Inconclusive {
				r.Why = strings.TrimSpace(s.Lock+" "+s.Measure) + ": " + s.Why
				break
			}
		}
	default:
		r.Why = "its clean-up was not verified, or the tool broke"
	}
}

// samplesOf gives the rows of a run: of takeover and tick_gap one value a kill, of everything else one a run, namely what
// verdict.json says of it.
func samplesOf(j *judging, told *Judgement, rehearsal bool) []sample {
	out, trials := []sample{}, map[string]func(*trial) (dur, bool){"takeover": takeoverValue, "tick_gap": tickValue}
	for i := range told.SLOs {
		row := &told.SLOs[i]
		s := sample{lock: row.Lock, measure: row.Measure, unit: row.Unit, of: "run"}
		name, _, _ := strings.Cut(row.Measure, ".")
		value := trials[name]
		if value != nil {
			s.measure = name
		}
		known := slices.ContainsFunc(out, func(x sample) bool { return x.lock == s.lock && x.measure == s.measure })
		if known || rehearsal && liveOnly(name) { // another limit on the same
			continue
		}
		switch {
		case value != nil:
			series := j.ix.seriesOf(row.Lock, value)
			s.of = series.thing
			for _, d := range series.ranges() {
				s.values = append(s.values, d.Range())
			}
		case row.N == 0 && row.Hi == nil: // nothing was measured
		case name != measureHeld && name != measureWait && len(row.Lacks) > 0: // not reached; a quantile may only be too few to claim
		case row.unfit: // a pause lets any two believe; a series that nobody has shown is not 0
		default:
			s.values = []Range{{Lo: row.Lo, Hi: row.Hi}}
		}
		out = append(out, s)
	}
	return out
}

// failuresOf counts what is wrong however often it happens: one is too many.
func failuresOf(j *Judgement) []failures {
	unfenced, thefts, beliefs, works := 0, 0, 0, 0
	for _, a := range j.Abandonments {
		if a.Timing == missed {
			unfenced++
		}
	}
	for _, t := range j.Takeovers {
		if t.Class == ClassTheft && t.Fault == "" {
			thefts++
		}
	}
	paused := slices.ContainsFunc(j.Faults, func(f FaultResult) bool { return f.Kind == experiments.KindPause && f.Confirmed })
	for _, o := range j.Overlap {
		switch {
		case o.Lo <= 0:
		case o.Level == levelWork:
			works++
		case o.Level == levelBelief && !paused: // whoever is paused past a lease believes on, under any lock
			beliefs++
		}
	}
	c := j.Counts
	return []failures{
		{"duplicate terminal states", c.Duplicates},
		{"stale writes applied", c.StaleApplied},
		{"writes of a lost epoch applied", c.UnownedEffects},
		{"writes of the rightful owner refused", c.OwnerRejected},
		{"locks with two believers", beliefs},
		{"locks with two at work", works},
		{"missed abandonments", unfenced},
		{"fence regressions", c.FenceRegressions},
		{"false takeovers", c.FalseTakeovers},
		{"thefts that no fault explains", thefts},
		{"stranded jobs", c.Stranded},
	}
}
