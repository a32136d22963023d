package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// series are the takeovers of one lock and one class: classes are never mixed.
type series struct {
	lock, class string
	kind        string                // of all their faults; "" where they differ
	blamed      bool                  // a fault of the run brought them about
	shots       []verdict.FaultResult // of the run
	values      []verdict.Takeover
}

func seriesOf(takeovers []verdict.Takeover, shots []verdict.FaultResult) []series {
	kinds := map[string]string{}
	for _, s := range shots {
		kinds[shotName(s)] = s.Kind
	}
	var all []series
	for _, t := range takeovers {
		i := slices.IndexFunc(all, func(s series) bool { return s.lock == t.Lock && s.class == t.Class && s.blamed == (t.Fault != "") })
		if i < 0 {
			i = len(all)
			all = append(all, series{lock: t.Lock, class: t.Class, kind: kinds[t.Fault], blamed: t.Fault != "", shots: shots})
		}
		if all[i].kind != kinds[t.Fault] {
			all[i].kind = ""
		}
		all[i].values = append(all[i].values, t)
	}
	slices.SortStableFunc(all, func(a, b series) int {
		return cmp.Or(cmp.Compare(a.lock, b.lock), cmp.Compare(a.class, b.class))
	})
	return all
}

const (
	takeoverTitle = "Takeovers, until the next holder's first accepted effect"
	noTakeover    = "no confirmed fault hit a lock holder"
)

// predicted is the band of one series of rehearsed takeovers.
func predicted(b verdict.Predicted) string {
	text := fmt.Sprintf("%s %s: %s, median %s, p95 %s, from %s in %s of this file", b.Lock, b.Class, span(b.Lo, b.Hi, verdict.UnitSeconds), roughly(b.P50), roughly(b.P95),
		figures.Plural(b.Values, "takeover"), figures.Plural(b.Seeds, "rehearsal"))
	if b.Outside > 0 {
		text += fmt.Sprintf("; %s of this run lie outside: see findings", figures.Count(b.Outside))
	}
	return text
}

// extent is the least, the middle and the greatest value; a single one is all three.
func (s series) extent() string {
	if len(s.values) == 1 {
		return s.rank(total, 0)
	}
	return "min " + s.rank(total, 0) + "  median " + s.rank(total, 0.5) + "  max " + s.rank(total, 1)
}

// listed puts commas where the terminal sets figures apart by two blanks: Markdown and HTML show those as one.
func listed(text string) string { return strings.ReplaceAll(text, "  ", ", ") }

// late is how late the machine was in a takeover of the series, where it was latest.
func (s series) late() float64 {
	most := 0.0
	for _, t := range s.values {
		most = max(most, t.Lateness)
	}
	return most
}

// head is the series' class and size: one kill may give many values, and is one independent trial.
func (s series) head() string {
	faults := map[string]bool{}
	censored, byGrant := 0, 0
	for _, t := range s.values {
		faults[t.Fault] = true
		if t.Censored {
			censored++
		} else if t.End == "grant" {
			byGrant++
		}
	}
	name := s.class
	switch {
	case s.class == verdict.ClassPause && s.kind != s.class && s.kind != "": // as after a pause, by something else
		name = s.class + " (" + cmp.Or(fault.Seen(s.kind, "", "").Traits().Called, fault.Words(s.kind, "")) + ")"
	case s.class == verdict.ClassTheft && s.blamed:
		name = "theft (the key taken away on purpose)"
	case s.class == verdict.ClassTheft:
		name = "theft (by no fault of the run; measured by what was left of the lease)"
	case s.class == verdict.ClassStore:
		name = "store (restarted, emptied or failed over)"
	}
	text := fmt.Sprintf("%s: %s from %s", name, figures.Plural(len(s.values), "takeover"), figures.Plural(len(faults), "fault"))
	if len(s.values) > len(faults) && len(faults) > 0 {
		text = fmt.Sprintf("%s: %s affected %s; percentiles use the slowest of each", name, figures.Plural(len(faults), "fault"), figures.Plural(len(s.values), "lock"))
	}
	if by := hits(s.lock, faults, s.shots); by != "" {
		text += "; " + by
	}
	if censored > 0 {
		text += fmt.Sprintf("; the end of %s was not seen", figures.Count(censored))
	}
	if byGrant > 0 {
		text += fmt.Sprintf("; %s measured to the grant, because effects were not seen", figures.Count(byGrant))
	}
	if late := lateText(s.late()); late != "" {
		text += "; " + late + " of one of them"
	}
	return text
}

// parts are the medians of what a takeover is made of.
func (s series) parts() string {
	var parts []string
	for i, part := range verdict.PartNames() {
		if text := s.rank(partOf(i), 0.5); text != "" {
			parts = append(parts, part+" "+text)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	if len(s.values) == 1 {
		return strings.Join(parts, "  ")
	}
	return "medians: " + strings.Join(parts, "  ")
}

// partOf is the i-th part of a takeover.
func partOf(i int) func(verdict.Takeover) *verdict.Range {
	return func(t verdict.Takeover) *verdict.Range { return t.Parts()[i].Long }
}

func total(t verdict.Takeover) *verdict.Range {
	whole := t.Whole()
	return &whole
}

// rank is rankOf in words; "" where nothing was measured.
func (s series) rank(of func(verdict.Takeover) *verdict.Range, q float64) string {
	r := s.rankOf(of, q)
	if r == nil {
		return ""
	}
	return span(r.Lo, r.Hi, verdict.UnitSeconds)
}

// rankOf is the range of an order statistic: 0 = least, 0.5 = median, 1 = greatest. The k-th least truth lies between the k-th
// least lower end and the k-th least upper end. nil where nothing was measured.
func (s series) rankOf(of func(verdict.Takeover) *verdict.Range, q float64) *verdict.Range {
	var lows, highs []float64
	for _, t := range s.values {
		if r := of(t); r != nil {
			lows = append(lows, r.Lo)
			highs = append(highs, upper(r.Hi))
		}
	}
	if len(lows) == 0 {
		return nil
	}
	lo, hi := quantile(lows, q), quantile(highs, q)
	if math.IsInf(hi, 1) {
		return &verdict.Range{Lo: lo}
	}
	return &verdict.Range{Lo: lo, Hi: &hi}
}

func upper(hi *float64) float64 {
	if hi == nil {
		return math.Inf(1)
	}
	return *hi
}

// quantile of values: the mean of the two in the middle where q falls between them.
func quantile(values []float64, q float64) float64 {
	slices.Sort(values)
	at := q * float64(len(values)-1)
	return (values[int(math.Floor(at))] + values[int(math.Ceil(at))]) / 2
}
