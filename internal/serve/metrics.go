package serve

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockdrill/lockdrill/internal/serve/store"
)

// metrics are those of the server itself. What drills measured is in their own metrics.prom.
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

// Registry takes metrics of other parts.
func (s *Server) Registry() prometheus.Registerer { return s.metrics.registry }

var (
	runsOf   = prometheus.NewDesc("lockdrill_serve_runs", "Runs in the folder, by experiment and verdict; unread runs have the verdict unread.", []string{"experiment", "verdict"}, nil)
	latestOf = prometheus.NewDesc("lockdrill_serve_latest_run_timestamp_seconds", "Start of the latest run that speaks for its experiment.", []string{"experiment", "verdict"}, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) { to <- runsOf; to <- latestOf }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), requestsWithin)
	defer cancel()
	counts, err := m.server.store.Experiments(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(runsOf, err)
		return
	}
	for experiment, by := range counts {
		for verdict, n := range by {
			to <- prometheus.MustNewConstMetric(runsOf, prometheus.GaugeValue, float64(n), experiment, cmp.Or(verdict, string(store.Unread)))
		}
		latest, err := m.server.latest(ctx, store.Query{Experiment: experiment})
		if err != nil || latest == nil {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, latest.Started); err == nil {
			to <- prometheus.MustNewConstMetric(latestOf, prometheus.GaugeValue, float64(at.UnixMilli())/1e3, experiment, cmp.Or(latest.Verdict, string(store.Unread)))
		}
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
