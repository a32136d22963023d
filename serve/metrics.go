package serve

import (
	"cmp"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/runs"
)

// metrics are those of the server, and of the latest run of each experiment what the exported alerts on drills ask: the same series as a
// run's own metrics.prom has them.
type metrics struct {
	registry *prometheus.Registry
	uploads  *prometheus.CounterVec
	server   *Server
}

func newMetrics(s *Server) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), server: s,
		uploads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lockdrill_serve_uploads_total", Help: "Runs that were uploaded, by what became of them."}, []string{"outcome"})}
	for _, outcome := range []string{"taken", "known", "refused", "failed"} {
		m.uploads.WithLabelValues(outcome)
	}
	m.registry.MustRegister(m.uploads, m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

var (
	runsOf   = prometheus.NewDesc("lockdrill_serve_runs", "Runs in the folder, by experiment and verdict; unread runs have the verdict unread.", []string{"experiment", "verdict"}, nil)
	latestOf = prometheus.NewDesc("lockdrill_serve_latest_run_timestamp_seconds", "Start of the latest run that speaks for its experiment.", []string{"experiment", "verdict"}, nil)
	saysOf   = prometheus.NewDesc("lockdrill_run_verdict", "Verdict of the last run: 1 for the one that it had.", []string{"experiment", "verdict"}, nil)
	passOf   = prometheus.NewDesc("lockdrill_run_last_pass_timestamp_seconds", "When the last live run that passed ended, in Unix time.", []string{"experiment"}, nil)
	metOf    = prometheus.NewDesc("lockdrill_slo_met", "Whether the last run showed that the SLO is met; 0 also where it was not answered.", []string{"experiment", "lock", "slo"}, nil)
	brokenOf = prometheus.NewDesc("lockdrill_slo_violated", "Whether the last run showed that the SLO is violated.", []string{"experiment", "lock", "slo"}, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{runsOf, latestOf, saysOf, passOf, metOf, brokenOf} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, e := range m.server.experiments() {
		for word, n := range e.verdicts {
			gauge(runsOf, float64(n), e.name, cmp.Or(word, string(runs.Unread)))
		}
		if e.passed != nil {
			gauge(passOf, epoch(e.passed.Ended), e.name)
		}
		r := e.latest
		if r == nil || e.name == "" {
			continue
		}
		gauge(latestOf, epoch(r.Started), e.name, cmp.Or(r.Verdict, string(runs.Unread)))
		said := r.Verdict
		if r.State == runs.Unread || r.Contested != "" {
			said = verdict.ExitName(verdict.ExitInconclusive)
		}
		for _, v := range verdict.Exits() {
			if v.Code != verdict.ExitUsage { // no run ends so
				gauge(saysOf, truth(v.Name == said), e.name, v.Name)
			}
		}
		m.rows(gauge, e.name, r)
	}
}

// rows say of each promise of a run what came of it. Where two rows ask the same of one lock, the worse counts.
func (m *metrics) rows(gauge func(*prometheus.Desc, float64, ...string), experiment string, r *runs.Run) {
	if r.State != runs.Judged || r.Contested != "" {
		return
	}
	seen, err := m.server.index.Observed(r)
	if err != nil {
		m.server.say("metrics: %v", err)
		return
	}
	worst := map[[2]string]verdict.Verdict{}
	for _, row := range seen.Rows {
		id := [2]string{row.Question.Lock, row.Question.Name()}
		if was, there := worst[id]; !there || row.Verdict == verdict.Fail || was == verdict.Pass {
			worst[id] = row.Verdict
		}
	}
	for id, v := range worst {
		gauge(metOf, truth(v == verdict.Pass), experiment, id[0], id[1])
		gauge(brokenOf, truth(v == verdict.Fail), experiment, id[0], id[1])
	}
}

func epoch(started string) float64 {
	at, err := time.Parse(time.RFC3339Nano, started)
	if err != nil {
		return 0
	}
	return float64(at.UnixMilli()) / 1e3
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
