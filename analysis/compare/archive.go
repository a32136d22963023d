package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// mostChanged bounds the settings that are named where a run differs from the one before it.
const mostChanged = 6

// Archive says what runs have shown over time, each experiment by itself.
func Archive(runs []*Observed, o CompareOptions) *verdict.Archive {
	a := &verdict.Archive{SchemaVersion: verdict.ArchiveVersion, Experiments: []verdict.ArchivedExperiment{}, Unread: []verdict.UnreadRun{}}
	by, names := map[string][]*Observed{}, []string{}
	for _, r := range byStart(runs) {
		if by[r.Experiment] == nil {
			names = append(names, r.Experiment)
		}
		by[r.Experiment] = append(by[r.Experiment], r)
	}
	slices.Sort(names)
	for _, name := range names {
		a.Experiments = append(a.Experiments, archived(name, by[name], o))
	}
	return a
}

func archived(name string, runs []*Observed, o CompareOptions) verdict.ArchivedExperiment {
	e := verdict.ArchivedExperiment{Name: name, Runs: []verdict.ArchivedRun{}, Rows: []verdict.ArchivedRow{}, Changes: changes(runs, o)}
	usual := usually(runs)
	for i, r := range runs {
		run := verdict.ArchivedRun{ID: r.Run.ID, Folder: r.Run.Folder, Started: r.Run.Started, Verdict: r.Run.Verdict, Why: why(r), Labels: r.Labels}
		if i > 0 {
			run.Changed = changed(runs[i-1], r)
			if idle := between(runs[i-1], r); usual > 0 && idle > 2*usual {
				run.Idle = idle.Seconds()
			}
		}
		e.Runs = append(e.Runs, run)
		for _, s := range r.SLOs {
			at := slices.IndexFunc(e.Rows, func(x verdict.ArchivedRow) bool { return x.Lock == s.Lock && x.Measure == s.Measure })
			if at < 0 {
				at, e.Rows = len(e.Rows), append(e.Rows, verdict.ArchivedRow{Lock: s.Lock, Measure: s.Measure, Unit: s.Unit, Ask: s.Ask, Values: []verdict.ArchivedValue{}})
			}
			if of := &e.Rows[at]; len(of.Values) == 0 || of.Values[len(of.Values)-1].Run != i { // one limit of a row is enough for its line
				of.Values = append(of.Values, verdict.ArchivedValue{Run: i, Limit: s.Limit, Lo: s.Lo, Hi: s.Hi, N: s.N, Verdict: s.Verdict, Why: s.Why})
			}
		}
	}
	return e
}

// why a run is no pass: the first row that is none, or what it says of itself.
func why(r *Observed) string {
	few := ""
	for _, v := range []verdict.Verdict{verdict.Fail, verdict.Inconclusive} {
		for _, s := range r.SLOs {
			name := strings.TrimSpace(s.Lock + " " + s.Measure)
			switch {
			case s.Verdict != v:
			case v == verdict.Inconclusive && r.onlyTooFew(s):
				few = cmp.Or(few, "too few kills in one run for "+name+"; judge --pool takes several runs together")
			default:
				return name + ": " + s.Why
			}
		}
	}
	return cmp.Or(few, r.Run.Why)
}

// onlyTooFew reports a quantile that lacks kills and nothing else.
func (o *Observed) onlyTooFew(s verdict.SLOResult) bool {
	return slices.ContainsFunc(o.Quantiles, func(q analysis.Sample) bool {
		return sameQuestion(&q, s.Lock, s.Measure) && q.Open == "" && q.Maybe == 0 && q.N > 0
	})
}

// usually is the median time from one run to the next; 0 where there are too few to say.
func usually(runs []*Observed) time.Duration {
	if len(runs) < 4 {
		return 0
	}
	var all []time.Duration
	for i := range runs[1:] {
		all = append(all, between(runs[i], runs[i+1]))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func between(a, b *Observed) time.Duration {
	from, err1 := time.Parse(time.RFC3339Nano, a.Run.Started)
	to, err2 := time.Parse(time.RFC3339Nano, b.Run.Started)
	if err1 != nil || err2 != nil {
		return 0
	}
	return to.Sub(from)
}

// changed names the labels and the settings in which b is not as a.
func changed(a, b *Observed) (names []string) {
	if from, to := a.Labels.String(), b.Labels.String(); from != to {
		names = append(names, "labels: "+orNone(from)+" -> "+orNone(to))
	}
	ds := differ(a.Environment, b.Environment)
	for _, d := range ds[:min(len(ds), mostChanged)] {
		names = append(names, d.Field+": "+d.Base+" -> "+d.Head)
	}
	if more := len(ds) - mostChanged; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return names
}

// changes compares the runs of each set of labels with those of the set before it.
func changes(runs []*Observed, o CompareOptions) []verdict.ArchivedChange {
	groups := [][]*Observed{}
	for _, r := range runs {
		if n := len(groups); n > 0 && groups[n-1][0].Labels.String() == r.Labels.String() {
			groups[n-1] = append(groups[n-1], r)
			continue
		}
		groups = append(groups, []*Observed{r})
	}
	all := []verdict.ArchivedChange{}
	for i := 1; i < len(groups); i++ {
		change := verdict.ArchivedChange{From: orNone(groups[i-1][0].Labels.String()), To: orNone(groups[i][0].Labels.String())}
		c, err := Compare(groups[i-1], groups[i], CompareOptions{Alpha: o.Alpha, Tolerance: o.Tolerance, Allow: []string{"tool"}})
		if err != nil {
			change.Answer, change.Reasons = verdict.CannotSay, []string{err.Error()}
		} else {
			change.Answer, change.Reasons = moved(c)
		}
		all = append(all, change)
	}
	return all
}

// moved says which rows of a comparison moved. That single runs gave no answer of their own is said at each of them.
func moved(c *verdict.Comparison) (verdict.Answer, []string) {
	if c.Answer == verdict.Refused {
		return c.Answer, c.Reasons
	}
	answer, tested, reasons := verdict.CannotSay, 0, []string{}
	for _, f := range c.Correctness {
		if f.Regressed {
			answer, reasons = verdict.Regressed, append(reasons, fmt.Sprintf("%s: %d, and none before", f.What, f.Head))
		}
	}
	for _, r := range c.Rows {
		name := strings.TrimSpace(r.Lock+" "+r.Measure) + ": "
		switch r.Word {
		case verdict.Worse:
			answer, reasons = verdict.Regressed, append(reasons, name+"worse "+r.Why)
		case verdict.Better:
			reasons = append(reasons, name+"better "+r.Why)
		case verdict.Unchanged:
		default:
			continue
		}
		tested++
	}
	if tested > 0 && answer != verdict.Regressed {
		answer = verdict.NoRegression
	}
	return answer, append(reasons, fmt.Sprintf("%d of %d rows have enough values to compare", tested, len(c.Rows)))
}
