package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// ArchiveVersion is the schema version of the document of `lockdrill history`.
const ArchiveVersion = 1

// Archive is the document of `lockdrill history`: what runs have said over time. It has no score. Durations are seconds, slices are never null.
type Archive struct {
	SchemaVersion int                  `json:"schemaVersion"`
	Experiments   []ArchivedExperiment `json:"experiments"` // by name
	Unread        []UnreadRun          `json:"unread"`
}

// ArchivedExperiment has the runs of one experiment by their start.
type ArchivedExperiment struct {
	Name    string           `json:"name"`
	Runs    []ArchivedRun    `json:"runs"`
	Rows    []ArchivedRow    `json:"rows"`
	Changes []ArchivedChange `json:"changes"` // between the runs of one set of labels and those of the next
}

// ArchivedRun is one run.
type ArchivedRun struct {
	ID      string         `json:"id"`
	Folder  string         `json:"folder"`
	Started string         `json:"started"`
	Verdict string         `json:"verdict"`
	Why     string         `json:"why,omitempty"` // why it is no pass
	Labels  history.Labels `json:"labels,omitempty"`
	Changed []string       `json:"changed,omitempty"` // labels and settings that are not those of the run before
	Idle    float64        `json:"idle,omitempty"`    // seconds since the run before, where that is more than twice as long as usual
}

// ArchivedRow is one row of the SLOs over the runs.
type ArchivedRow struct {
	Lock    string          `json:"lock"`
	Measure string          `json:"measure"`
	Unit    string          `json:"unit"`
	Ask     verdict.Ask     `json:"ask,omitempty"`
	Values  []ArchivedValue `json:"values"`
}

// ArchivedValue is what one run said of a row.
type ArchivedValue struct {
	Run     int             `json:"run"` // index of the experiment's runs
	Limit   float64         `json:"limit"`
	Lo      float64         `json:"lo"`
	Hi      *float64        `json:"hi"` // null = its end was not seen
	N       int             `json:"n"`
	Parts   []ArchivedPart  `json:"parts,omitempty"` // of takeovers
	Verdict verdict.Verdict `json:"verdict"`
	Why     string          `json:"why,omitempty"`
}

// ArchivedPart is the median of one of those that the takeovers of a run are made of.
type ArchivedPart struct {
	Name   string   `json:"name"`
	Median Interval `json:"median"`
}

// ArchivedChange holds the runs of one set of labels beside those of the next.
type ArchivedChange struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Answer  Answer   `json:"answer"`
	Reasons []string `json:"reasons"`
}

// UnreadRun is the folder of a run that cannot be read.
type UnreadRun struct {
	Folder string `json:"folder"`
	Why    string `json:"why"`
}

// mostChanged bounds the settings that are named where a run differs from the one before it.
const mostChanged = 6

// ArchiveOf says what runs have shown over time, each experiment by itself.
func ArchiveOf(runs []*Observed, o CompareOptions) *Archive {
	a := &Archive{SchemaVersion: ArchiveVersion, Experiments: []ArchivedExperiment{}, Unread: []UnreadRun{}}
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

func archived(name string, runs []*Observed, o CompareOptions) ArchivedExperiment {
	e := ArchivedExperiment{Name: name, Runs: []ArchivedRun{}, Rows: []ArchivedRow{}, Changes: changes(runs, o)}
	usual := usually(runs)
	for i, r := range runs {
		run := ArchivedRun{ID: r.Run.ID, Folder: r.Run.Folder, Started: r.Run.Started, Verdict: r.Run.Verdict, Why: r.Why(), Labels: r.Labels}
		if i > 0 {
			run.Changed = changed(runs[i-1], r)
			if idle := between(runs[i-1], r); usual > 0 && idle > 2*usual {
				run.Idle = idle.Seconds()
			}
		}
		e.Runs = append(e.Runs, run)
		for k := range r.Rows {
			s := &r.Rows[k]
			at := slices.IndexFunc(e.Rows, func(x ArchivedRow) bool { return s.is(x.Lock, x.Measure) })
			if at < 0 {
				at, e.Rows = len(e.Rows), append(e.Rows, ArchivedRow{Lock: s.Question.Lock, Measure: s.Question.Name(), Unit: s.Unit, Ask: s.Question.Side, Values: []ArchivedValue{}})
			}
			if of := &e.Rows[at]; len(of.Values) == 0 || of.Values[len(of.Values)-1].Run != i { // one limit of a row is enough for its line
				of.Values = append(of.Values, ArchivedValue{Run: i, Limit: s.Limit, Lo: s.Lo, Hi: s.Hi, N: s.N, Parts: archivedParts(s.Parts), Verdict: s.Verdict, Why: s.Why})
			}
		}
	}
	return e
}

// archivedParts are the medians of those that were seen.
func archivedParts(parts [][]verdict.Range) (all []ArchivedPart) {
	for i, values := range parts {
		if len(values) > 0 {
			all = append(all, ArchivedPart{Name: verdict.PartNames()[i], Median: *medianOf(sampleOf(values))})
		}
	}
	return all
}

// Why a run is no pass: the first row that is none, or what it says of itself.
func (r *Observed) Why() string {
	few := ""
	for _, v := range []verdict.Verdict{verdict.Fail, verdict.Inconclusive} {
		for i := range r.Rows {
			switch s := &r.Rows[i]; {
			case s.Verdict != v:
			case v == verdict.Inconclusive && s.IsQuantile() && s.Open == "" && s.Maybe == 0 && s.N > 0: // it lacks kills and nothing else
				few = cmp.Or(few, "too few kills in one run for "+s.words()+"; history --pool takes several runs together")
			default:
				return s.words() + ": " + s.Why
			}
		}
	}
	return cmp.Or(few, r.Run.Why)
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
func changes(runs []*Observed, o CompareOptions) []ArchivedChange {
	groups := [][]*Observed{}
	for _, r := range runs {
		if n := len(groups); n > 0 && groups[n-1][0].Labels.String() == r.Labels.String() {
			groups[n-1] = append(groups[n-1], r)
			continue
		}
		groups = append(groups, []*Observed{r})
	}
	all := []ArchivedChange{}
	for i := 1; i < len(groups); i++ {
		change := ArchivedChange{From: orNone(groups[i-1][0].Labels.String()), To: orNone(groups[i][0].Labels.String())}
		c, err := Compare(groups[i-1], groups[i], CompareOptions{Alpha: o.Alpha, Tolerance: o.Tolerance, Allow: []string{"tool"}})
		if err != nil {
			change.Answer, change.Reasons = CannotSay, []string{err.Error()}
		} else {
			change.Answer, change.Reasons = moved(c)
		}
		all = append(all, change)
	}
	return all
}

// moved is the answer of a comparison, by the rule of `lockdrill compare`, with what moved in it and how much could be compared.
func moved(c *Comparison) (Answer, []string) {
	tested, better := 0, []string{}
	for _, r := range c.Rows {
		switch r.Word {
		case Better:
			better = append(better, strings.TrimSpace(r.Lock+" "+r.Measure)+": better "+r.Why)
			tested++
		case Worse, Unchanged:
			tested++
		}
	}
	if c.Answer == Refused {
		return c.Answer, c.Reasons
	}
	return c.Answer, slices.Concat(c.Reasons, better, []string{fmt.Sprintf("%d of %d rows have enough values to compare", tested, len(c.Rows))})
}
