package drills

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockdrill/lockdrill/internal/notice"
)

// metrics are those of the schedule. A random time is told by the beginning of its stretch.
type metrics struct{ k *Keeper }

var (
	outcomesOf = prometheus.NewDesc("lockdrill_serve_drills_total", "Drills of the schedule that were due or asked for, by what became of them: a verdict, or why they did not run.", []string{"drill", "outcome"}, nil)
	runningOf  = prometheus.NewDesc("lockdrill_serve_drills_running", "Drills of the schedule that run now.", nil, nil)
	waitingOf  = prometheus.NewDesc("lockdrill_serve_drills_waiting", "Drills of the schedule that are due and kept from starting.", nil, nil)
	nextOf     = prometheus.NewDesc("lockdrill_serve_next_drill_timestamp_seconds", "When the drill is due next; of a random time, when its stretch begins.", []string{"drill"}, nil)
	frozenOf   = prometheus.NewDesc("lockdrill_serve_frozen", "1 while nothing may start.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{outcomesOf, runningOf, waitingOf, nextOf, frozenOf} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for of, n := range m.k.book.Counts() {
		to <- prometheus.MustNewConstMetric(outcomesOf, prometheus.CounterValue, float64(n), of[0], of[1])
	}
	gauge(runningOf, float64(len(m.k.Running())))
	gauge(waitingOf, float64(len(m.k.Waiting())))
	frozen := 0.0
	if m.k.Frozen() != "" {
		frozen = 1
	}
	gauge(frozenOf, frozen)
	told := map[string]bool{}
	for _, slot := range m.k.Planned(m.k.o.Now().Add(ahead), 3) {
		if !told[slot.Drill] {
			gauge(nextOf, float64(slot.Shown().Unix()), slot.Drill)
		}
		told[slot.Drill] = true
	}
}

func noticeMetrics(q *notice.Queue) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lockdrill_serve_notices_waiting", Help: "Notices that are still to be told."}, func() float64 {
			n, _ := q.Waiting() // a folder that cannot be read has none that is told
			return float64(n)
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "lockdrill_serve_notices_sent_total", Help: "Notices that were told."}, func() float64 { sent, _ := q.Told(); return float64(sent) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "lockdrill_serve_notices_failed_total", Help: "Tries to tell a notice that failed."}, func() float64 { _, failed := q.Told(); return float64(failed) }),
	}
}
