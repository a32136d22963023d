package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/reports/doc"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is what a run left, as gauges: it is over, so nothing of it counts on. A histogram of its takeovers would invite rate(), which
// knows nothing of runs. The last pass is there only where the run passed live. No label is a run: the number of series does not grow.
type Metrics []*dto.MetricFamily

// Verdicts of lockdrill_run_verdict: one of them is 1.
func verdicts() []string {
	return []string{"pass", "slo-failed", "inconclusive", "aborted", "refused", "dirty", "error"}
}

// MetricsOf are the metrics of a judged run.
func MetricsOf(r Run) Metrics {
	j := r.Judgement
	name := j.Run.Experiment
	ended, err := time.Parse(time.RFC3339Nano, j.Run.Ended)
	if err != nil {
		ended = time.Time{}
	}
	m := MetricsUnjudged(name, j.Verdict, ended)
	if j.Verdict == "pass" && j.Run.Live {
		m.gauge("lockdrill_run_last_pass_timestamp_seconds", "When the last live run that passed ended, in Unix time.", epoch(ended), "experiment", name)
	}
	m.gauge("lockdrill_run_duration_seconds", "How long the last run took.", j.Run.Seconds, "experiment", name)
	m.gauge("lockdrill_run_live", "Whether the last run was live: 1, or 0 for a rehearsal.", truth(j.Run.Live), "experiment", name)
	m.gauge("lockdrill_run_time_scale", "Time scale of the last run; its figures are real seconds.", j.Run.TimeScale, "experiment", name)
	m.slos(j)
	m.takeovers(j)
	m.faults(r)
	m.windows(j)
	c := j.Counts
	for _, g := range []struct {
		name, help, measure string
		n                   int
	}{
		{"lockdrill_run_jobs", "Jobs that the last run offered.", "", c.Jobs},
		{"lockdrill_run_duplicate_terminal_states", "Terminal states beyond the first of a job in the last run.", "duplicate_terminal_states", c.Duplicates},
		{"lockdrill_run_abandonments", "Locks that were given up while work went on in the last run.", "abandonments", c.Abandonments},
		{"lockdrill_run_stale_writes_applied", "Writes of superseded holders that took effect in the last run.", "overlap", c.StaleApplied},
		{"lockdrill_run_stranded_jobs", "Jobs of the last run that surely were not finished in time.", "stranded", c.Stranded},
	} {
		if g.n == 0 && knows(j, g.measure) == none { // a 0 would say that there was none
			continue
		}
		m.gauge(g.name, g.help, float64(g.n), "experiment", name)
	}
	return m
}

// MetricsUnjudged are the metrics of a drill without a judgement: refused, or broken before there was one.
func MetricsUnjudged(experiment, verdict string, at time.Time) Metrics {
	var m Metrics
	for _, v := range verdicts() {
		m.gauge("lockdrill_run_verdict", "Verdict of the last run: 1 for the one that it had.", truth(v == verdict), "experiment", experiment, "verdict", v)
	}
	if !at.IsZero() {
		m.gauge("lockdrill_run_timestamp_seconds", "When the last run ended, in Unix time.", epoch(at), "experiment", experiment)
	}
	return m
}

func epoch(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// slos say of each row whether it was met, and whether it was violated: neither is a question that was not answered. Where two rows ask
// the same of one lock, the worse counts.
func (m *Metrics) slos(j *verdict.Judgement) {
	seen := map[string]bool{}
	for _, row := range rowsOf(j) {
		labels := []string{"experiment", j.Run.Experiment, "lock", row.Lock, "slo", row.Name()}
		if id := doc.Clean(row.Lock) + "\x00" + doc.Clean(row.Name()); !seen[id] {
			seen[id] = true
			m.gauge("lockdrill_slo_met", "Whether the last run showed that the SLO is met; 0 also where it was not answered.", truth(row.Verdict == verdict.Pass), labels...)
			m.gauge("lockdrill_slo_violated", "Whether the last run showed that the SLO is violated.", truth(row.Verdict == verdict.Fail), labels...)
		}
	}
}

// takeovers are the least, the middle and the greatest of each series and of its parts, with both ends of the measured range; +Inf is an open end.
func (m *Metrics) takeovers(j *verdict.Judgement) {
	for _, s := range seriesOf(j.Takeovers, j.Faults) {
		if !s.blamed { // a theft by nobody's fault is no trial of the drill
			continue
		}
		labels := []string{"experiment", j.Run.Experiment, "lock", s.lock, "class", s.class}
		m.gauge("lockdrill_takeover_trials", "Takeovers that the last run measured.", float64(len(s.values)), labels...)
		m.ranked(s, total, "lockdrill_takeover_seconds", "From the fault to the successor's first accepted effect, in the last run: the truth lies between lo and hi.", labels...)
		for i, part := range verdict.PartNames() {
			m.ranked(s, partOf(i), "lockdrill_takeover_part_seconds", "What takeovers of the last run were made of: the truth lies between lo and hi.", append(slices.Clone(labels), "part", part)...)
		}
	}
}

// ranked are the least, the middle and the greatest of a series; none where nothing was measured.
func (m *Metrics) ranked(s series, of func(verdict.Takeover) *verdict.Range, name, help string, labels ...string) {
	for _, stat := range []struct {
		name string
		q    float64
	}{{"min", 0}, {"median", 0.5}, {"max", 1}} {
		if r := s.rankOf(of, stat.q); r != nil {
			m.gauge(name, help, r.Lo, append(slices.Clone(labels), "stat", stat.name, "bound", "lo")...)
			m.gauge(name, help, upper(r.Hi), append(slices.Clone(labels), "stat", stat.name, "bound", "hi")...)
		}
	}
}

// faults say what may still be at work: of each kind of fault in the file, whether a shot of it was applied and not verified as over.
func (m *Metrics) faults(r Run) {
	open := map[string]*history.Event{}
	for _, e := range r.Record.done {
		switch e.Kind {
		case history.FaultIntent, history.FaultApplied:
			open[e.Op] = e
		case history.FaultVerified:
			delete(open, e.Op)
		case history.FaultVoid:
			if x := open[e.Op]; x != nil && x.Kind == history.FaultIntent { // it was never applied
				delete(open, e.Op)
			}
		}
	}
	active := map[string]bool{}
	for _, e := range open {
		active[e.Fault.Kind] = true
	}
	seen := map[string]bool{}
	for i := range r.Experiment.Faults {
		if kind := r.Experiment.Faults[i].Kind(); !seen[kind] {
			seen[kind] = true
			m.gauge("lockdrill_fault_active", "Whether a fault of the last run was not verified as over when the run ended.", truth(active[kind]),
				"experiment", r.Judgement.Run.Experiment, "injector", kind)
		}
	}
}

// windows say when each fault was in effect, from its first confirmed shot to the end of its last: shades of a dashboard.
func (m *Metrics) windows(j *verdict.Judgement) {
	started, err := time.Parse(time.RFC3339Nano, j.Run.Started)
	if err != nil {
		return
	}
	var ids []string
	from, to := map[string]float64{}, map[string]float64{}
	for _, s := range j.Faults {
		if s.Effective == nil || !s.Confirmed {
			continue
		}
		end := j.Run.Seconds // never seen to end
		if s.Effective.To != nil {
			end = *s.Effective.To
		}
		if !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
			from[s.ID] = s.Effective.From
		}
		from[s.ID], to[s.ID] = min(from[s.ID], s.Effective.From), max(to[s.ID], end)
	}
	wall := func(sec float64) float64 { return epoch(started.Add(time.Duration(sec * 1e9))) }
	for _, id := range ids {
		labels := []string{"experiment", j.Run.Experiment, "fault", id}
		m.gauge("lockdrill_fault_start_timestamp_seconds", "When the first confirmed shot of the fault took effect in the last run, in Unix time.", wall(from[id]), labels...)
		m.gauge("lockdrill_fault_end_timestamp_seconds", "When the effect of the last confirmed shot of the fault was over in the last run, in Unix time.", wall(to[id]), labels...)
	}
}

// gauge adds one sample; labels are pairs of name and value.
func (m *Metrics) gauge(name, help string, v float64, labels ...string) {
	at := slices.IndexFunc(*m, func(f *dto.MetricFamily) bool { return f.GetName() == name })
	if at < 0 {
		at = len(*m)
		*m = append(*m, &dto.MetricFamily{Name: &name, Help: &help, Type: dto.MetricType_GAUGE.Enum()})
	}
	sample := &dto.Metric{Gauge: &dto.Gauge{Value: &v}}
	for i := 0; i < len(labels); i += 2 {
		value := doc.Clean(labels[i+1])
		sample.Label = append(sample.Label, &dto.LabelPair{Name: &labels[i], Value: &value})
	}
	(*m)[at].Metric = append((*m)[at].Metric, sample)
}

// Gather makes Metrics a gatherer of client_golang, for the Pushgateway.
func (m Metrics) Gather() ([]*dto.MetricFamily, error) { return m, nil }

// Without is m without a label: the Pushgateway wants its grouping key nowhere but in the address.
func (m Metrics) Without(label string) Metrics {
	var out Metrics
	for _, f := range m {
		g := &dto.MetricFamily{Name: f.Name, Help: f.Help, Type: f.Type}
		for _, s := range f.Metric {
			kept := &dto.Metric{Gauge: s.Gauge}
			for _, l := range s.Label {
				if l.GetName() != label {
					kept.Label = append(kept.Label, l)
				}
			}
			g.Metric = append(g.Metric, kept)
		}
		out = append(out, g)
	}
	return out
}

// lastPass is the only metric that outlives the run that it is of.
const lastPass = "lockdrill_run_last_pass_timestamp_seconds"

// After is m after a file that was written before, for a textfile collector, which shows what its file holds and nothing else: the last
// pass of this experiment stays until there is a later one, and other experiments stay as they are. The error is one of earlier's text.
func (m Metrics) After(earlier io.Reader, experiment string) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	old, err := parser.TextToMetricFamilies(earlier)
	if err != nil {
		return nil, fmt.Errorf("read earlier metrics: %w", err)
	}
	all := m.Without("") // a copy
	passed := slices.ContainsFunc(m, func(f *dto.MetricFamily) bool { return f.GetName() == lastPass })
	for _, name := range slices.Sorted(maps.Keys(old)) {
		f := old[name]
		if !strings.HasPrefix(name, "lockdrill_") || f.GetType() != dto.MetricType_GAUGE {
			return nil, fmt.Errorf("%s is no metric of lockdrill: it would be lost", name)
		}
		for _, s := range f.Metric {
			if label(s, "experiment") == doc.Clean(experiment) && (name != lastPass || passed) {
				continue
			}
			var labels []string
			for _, l := range s.Label {
				labels = append(labels, l.GetName(), l.GetValue())
			}
			all.gauge(name, f.GetHelp(), s.Gauge.GetValue(), labels...)
		}
	}
	return all, nil
}

func label(s *dto.Metric, name string) string {
	for _, l := range s.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// Write writes m in the text format, families by name.
func (m Metrics) Write(w io.Writer) error {
	sorted := slices.SortedFunc(slices.Values(m), func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, f := range sorted {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	return nil
}
