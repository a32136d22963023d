package reports

import (
	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// Run is one run, with all that a report may say of it.
type Run struct {
	Experiment *experiments.Experiment // as its file was loaded: nothing is scaled yet
	Record     *Record
	Judgement  *verdict.Judgement
	Lanes      *timeline.Lanes     // what is drawn
	Baseline   *compare.Comparison // with it as the head; nil = not compared
}
