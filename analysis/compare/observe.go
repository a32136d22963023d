package compare

import (
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// Observed is what one run brings to a comparison, and to whatever else stands on many runs. It can be written down as JSON.
type Observed struct {
	Bytes       string `json:"bytes"` // SHA-256 of its history; "" = not known
	Run         ComparedRun
	Experiment  string
	Rehearsal   bool           `json:",omitempty"`
	Labels      history.Labels `json:",omitempty"`
	Rows        []Row          // one a limit
	Failures    []Failures
	Environment []experiments.Setting `json:",omitempty"`

	Ended     string `json:"-"` // RFC 3339
	contested bool   // another run has its id and other bytes
}

// ObservedVersion is that of Observed as JSON: what was written as another is observed anew, and never read.
const ObservedVersion = 4

// Row is one limit of a run: the sample that it was held against, and what came of it. What several limits are held against has its values at
// the first of them alone.
type Row struct {
	verdict.Sample
	Lo      float64
	Hi      *float64 // nil = its end was not seen
	Verdict verdict.Verdict
	Why     string `json:",omitempty"`
}

// is reports the row of that name in a verdict.
func (r *Row) is(lock, row string) bool { return r.Question.Lock == lock && r.Question.Name() == row }

// title is the row's name in a verdict, with its lock.
func (r *Row) title() string { return strings.TrimSpace(r.Question.Lock + " " + r.Question.Name()) }

// words is title as people read it.
func (r *Row) words() string {
	return strings.TrimSpace(r.Question.Lock + " " + verdict.MeasureWords(r.Question.Name()))
}

// failed are the rows that failed and that no number of kills makes right.
func (o *Observed) failed() (all []string) {
	for i := range o.Rows {
		if r := &o.Rows[i]; r.Verdict == verdict.Fail && (!r.IsQuantile() || r.Broken) {
			all = append(all, r.words()+": "+r.Why)
		}
	}
	return all
}

// Withdrawn is the run without its answers: nobody knows which bytes are its own.
func (o *Observed) Withdrawn(why string) *Observed {
	w := *o
	w.Run.Verdict, w.Run.Why, w.Rows = verdict.ExitName(verdict.ExitInconclusive), why, nil
	return &w
}

// Failures of one kind that were surely seen.
type Failures struct {
	What string
	N    int
}

// facts are those of a run, as the judge has read them.
type facts[F any] interface {
	Header() history.Header
	Experiment() *experiments.Experiment
	Environment() *history.Environment // nil where the history does not say
	Measure() (*verdict.Judgement, []verdict.Sample)
	AsLive() F // the same, as of a live run
}

// Observe judges a run, and takes from it what a comparison needs. folder is how the run was named.
//
// A rehearsal is judged by its figures alone: that it is one is no reason to set them aside beside another rehearsal's.
func Observe[F facts[F]](facts F, folder string) *Observed {
	told, samples := facts.Measure()
	seen, rehearsal := told, facts.Header().Mode == history.Rehearsal
	if rehearsal {
		seen, samples = facts.AsLive().Measure()
	}
	o := &Observed{
		Experiment: facts.Header().Experiment, Rehearsal: rehearsal, Environment: environmentOf(facts, rehearsal), Failures: failuresOf(seen), Labels: told.Run.Labels, Ended: told.Run.Ended,
		Run: ComparedRun{ID: told.Run.ID, Folder: folder, Started: told.Run.Started, Seed: told.Run.Seed, Verdict: told.Verdict},
	}
	o.answer(seen)
	for i, x := range samples {
		if !o.Run.Used || slices.ContainsFunc(o.Rows, func(r Row) bool { return r.Question.Lock == x.Question.Lock && r.Name() == x.Name() }) {
			x.Values, x.Parts = nil, nil
		}
		s := &seen.SLOs[i]
		o.Rows = append(o.Rows, Row{Sample: x, Lo: s.Lo, Hi: s.Hi, Verdict: s.Verdict, Why: s.Why})
	}
	return o
}

// contest takes runs that have one id and other bytes for neither's: one of them was changed, and nothing tells which. Both are listed, none
// answers anything, and what surely went wrong in them stays. Rehearsals of one name and seed have one id by design.
func contest(runs []*Observed) {
	by := map[string][]*Observed{}
	for _, o := range runs {
		if !o.Rehearsal && o.Bytes != "" {
			by[o.Run.ID] = append(by[o.Run.ID], o)
		}
	}
	for _, same := range by {
		for i, o := range same {
			if len(same) == 1 {
				break
			}
			r := &o.Run
			o.contested = true
			r.Answered, r.Used = false, false
			r.Why = "another run has the same id but a different history: " + same[(i+1)%len(same)].Run.Folder
			o.Rows = slices.Clone(o.Rows)
			for i := range o.Rows {
				o.Rows[i].Values, o.Rows[i].Parts = nil, nil
			}
		}
	}
}

// answer says whether the run answered its own questions, and whether its figures count.
func (o *Observed) answer(j *verdict.Judgement) {
	r := &o.Run
	r.Answered = j.ExitCode == verdict.ExitPass || j.ExitCode == verdict.ExitSLOFailed
	r.Used = j.Run.Status == verdict.StatusCompleted && len(j.Missing) == 0
	switch {
	case len(j.Missing) > 0:
		r.Why = j.Missing[0].Why
	case !r.Used:
		r.Why = "the run did not come to its end"
	case r.Answered:
	case j.ExitCode == verdict.ExitInconclusive:
		r.Why = "one of its own SLOs was not answered"
		for _, s := range j.SLOs {
			if s.Verdict == verdict.Inconclusive {
				r.Why = strings.TrimSpace(s.Lock+" "+s.Measure) + ": " + s.Why
				break
			}
		}
	default:
		r.Why = "its clean-up was not verified, or lockdrill itself failed"
	}
}

// failuresOf counts what is wrong however often it happens: one is too many.
func failuresOf(j *verdict.Judgement) []Failures {
	unfenced, thefts, beliefs, works := 0, 0, 0, 0
	for _, a := range j.Abandonments {
		if a.Timing == verdict.Missed {
			unfenced++
		}
	}
	for _, t := range j.Takeovers {
		if t.Class == verdict.ClassTheft && t.Fault == "" {
			thefts++
		}
	}
	paused := slices.ContainsFunc(j.Faults, func(f verdict.FaultResult) bool {
		return f.Confirmed && fault.Seen(f.Kind, f.Form, f.Via).Traits().Stands > 0
	})
	for _, o := range j.Overlap {
		switch {
		case o.Lo <= 0:
		case o.Level == verdict.LevelWork:
			works++
		case o.Level == verdict.LevelBelief && !paused: // whoever is paused past a lease believes on, under any lock
			beliefs++
		}
	}
	c := j.Counts
	return []Failures{
		{"duplicate terminal states", c.Duplicates},
		{"stale writes applied", c.StaleApplied},
		{"writes of a lost epoch applied", c.UnownedEffects},
		{"writes of the rightful owner refused", c.OwnerRejected},
		{"locks with two believers", beliefs},
		{"locks with two workers at work", works},
		{"missed abandonments", unfenced},
		{"fence regressions", c.FenceRegressions},
		{"false takeovers", c.FalseTakeovers},
		{"thefts that no fault explains", thefts},
		{"stranded jobs", c.Stranded},
	}
}
