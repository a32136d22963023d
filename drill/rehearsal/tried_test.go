package rehearsal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// tried counts what was compared, and sums up how wide the ranges were.
type tried struct {
	counts map[string]int
	widths map[string]widths
}

// widths are those of one measure: a range from 0 to open holds any truth, and says nothing.
type widths struct {
	n, open int
	sum     float64 // of those that are closed, in the measure's unit
}

func (w widths) mean() float64 { return w.sum / float64(max(1, w.n-w.open)) }

// What is counted.
const (
	countKills      = "takeovers after a kill"
	countOthers     = "takeovers after another fault"
	countRecoveries = "recoveries"
	countCensored   = "censored takeovers"
	countOverlaps   = "overlaps"
	countEffects    = "stale and unowned effects"
	countDebts      = "debts"
	countUnowned    = "unowned work"
	countDuplicates = "duplicates"
	countAbandoned  = "abandonments"
	countMissed     = "missed"
	countLate       = "late"
	countNeeded     = "needed"
	countNeedless   = "needless"
	countUnclear    = "needed or needless"
	countPassed     = "rows that pass"
	countFailed     = "rows that fail"
	countAdvice     = "pieces of advice"
)

// enough is how much of each there is at least in the seeds of a plain test.
func enough() map[string]int {
	return map[string]int{
		countKills: 120, countOthers: 1500, countRecoveries: 1000, countCensored: 90, countOverlaps: 400, countEffects: 800, countDebts: 1600,
		countUnowned: 400, countDuplicates: 250, countAbandoned: 3000, countMissed: 1000, countLate: 250, countNeeded: 500, countNeedless: 2200,
		countPassed: 1600, countFailed: 1400, countAdvice: 10000,
		"left of the lease": 1000, "pickup": 1000, "warm-up": 1000,
	}
}

// sharp is how wide the closed ranges of a measure may be in the mean. None of these measures leaves its end open in a run that comes to
// its own.
func sharp() map[string]float64 {
	return map[string]float64{
		countKills: 0.015, countOthers: 0.025, countRecoveries: 0.08, "overlap.belief": 0.02, "overlap.work": 0.0005, "debt": 2.5, // work: what a killed holder did after its last word, is not known
		"left of the lease": 0.2, "pickup": 0.4, "warm-up": 0.35, // of a key that freed between looks, or a grant that may have hidden there
		countUnowned: 0.1, "abandonment.missed": 0.1, "abandonment.late": 0.06, countEffects: 0.2,
	}
}

func (a *tried) count(what string, n int) {
	if a.counts == nil {
		a.counts = map[string]int{}
	}
	a.counts[what] += n
}

func (a *tried) width(measure string, lo float64, hi *float64) {
	w := widths{n: 1}
	if hi == nil {
		w.open = 1
	} else {
		w.sum = *hi - lo
	}
	a.addWidths(measure, w)
}

func (a *tried) addWidths(measure string, w widths) {
	if a.widths == nil {
		a.widths = map[string]widths{}
	}
	s := a.widths[measure]
	a.widths[measure] = widths{s.n + w.n, s.open + w.open, s.sum + w.sum}
}

func (a *tried) add(b tried) {
	for what, n := range b.counts {
		a.count(what, n)
	}
	for measure, w := range b.widths {
		a.addWidths(measure, w)
	}
}

// lacks says where too little was compared, or where ranges say too little.
func (a *tried) lacks() []string {
	var out []string
	want, widest := enough(), sharp()
	for _, what := range slices.Sorted(maps.Keys(want)) {
		if a.counts[what] < want[what] {
			out = append(out, fmt.Sprintf("too little was compared: %s %d, not at least %d", what, a.counts[what], want[what]))
		}
	}
	for _, measure := range slices.Sorted(maps.Keys(widest)) {
		if w := a.widths[measure]; w.mean() > widest[measure] || w.open > 0 {
			out = append(out, fmt.Sprintf("ranges say too little: %s, %d of %d open, the others %.6f wide, not at most %g", measure, w.open, w.n, w.mean(), widest[measure]))
		}
	}
	if n := a.counts[countUnclear]; n*20 > a.counts[countNeeded]+a.counts[countNeedless] {
		out = append(out, fmt.Sprintf("ranges say too little: of %d abandonments nobody knows whether they were needed", n))
	}
	return out
}

func (a *tried) text() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(a.counts)) {
		fmt.Fprintf(&b, "\n%-30s %7d", what, a.counts[what])
	}
	for _, m := range slices.Sorted(maps.Keys(a.widths)) {
		w := a.widths[m]
		fmt.Fprintf(&b, "\n%-30s %7d ranges, %d open, the others %.6f wide", m, w.n, w.open, w.mean())
	}
	return b.String()
}

// A kind of fault is simulated, or says why it is not; and nothing else is.
func TestEveryKindIsRehearsedOrSaysWhyNot(t *testing.T) {
	for word := range ways() {
		if !slices.Contains(fault.Kinds(), word) {
			t.Errorf("there is no fault %s", word)
		}
	}
	for _, word := range fault.Kinds() {
		if !known(fault.Of(fault.New(word))) {
			t.Errorf("fault %s has no simulation: list it in faults.go, or say in its row why it has none", word)
		}
	}
}
