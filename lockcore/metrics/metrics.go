// Package metrics is the Prometheus instruments of lock clients, under the prefix lockcore_.
//
// They count what a client does, where it does it; they are not made out of its events, so that a disagreement between the two
// means something. docs/alerts.md describes each one. The one invariant: no label ever carries a key, a job, an epoch or a run;
// the number of series is bounded by the locks of the process.
package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Labels say whose series they are.
type Labels struct {
	Namespace string // a group of keys that share one policy
	Profile   string // the name of that policy, "" = its own
	Policy    string // the renewal class
}

// Names of labels.
const (
	labelNamespace = "namespace"
	labelProfile   = "profile"
	labelPolicy    = "policy"
)

// Metrics is the instruments on one registry. It is safe for concurrent use.
type Metrics struct {
	acquires    *prometheus.CounterVec
	waits       *prometheus.HistogramVec
	held        *prometheus.HistogramVec
	renewals    *prometheus.CounterVec
	rtt         *prometheus.HistogramVec
	margin      *prometheus.HistogramVec
	abandoned   *prometheus.CounterVec
	notOwned    *prometheus.CounterVec
	releases    *prometheus.CounterVec
	debt        *prometheus.HistogramVec
	orphans     *prometheus.CounterVec
	stale       *prometheus.CounterVec
	regressions *prometheus.CounterVec
	holders     *prometheus.GaugeVec
	unowned     *prometheus.GaugeVec
	unownedWork *prometheus.CounterVec
	overrun     *prometheus.CounterVec
}

// Buckets, in seconds.
var (
	lives   = []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300}
	trips   = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	margins = []float64{-60, -20, -5, -1, -.1, -.01, 0, .01, .1, 1, 5, 20, 60}
)

// New registers the instruments. The error is the registry's: the names are taken.
func New(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{}
	for _, c := range []struct {
		into   **prometheus.CounterVec
		name   string
		help   string
		labels []string
	}{
		{&m.acquires, "acquire_total", "Attempts to acquire that have ended, by the policy's mode and result.", []string{"mode", "result"}},
		{&m.renewals, "renew_total", "Renewal calls answered or timed out, by result.", []string{"result"}},
		{&m.abandoned, "abandoned_total", "Work in progress that was given up with its lock, by reason.", []string{"reason"}},
		{&m.notOwned, "not_owned_total", "Calls answered with not yours: the key was absent, or another's.", []string{"op", "kind"}},
		{&m.releases, "release_total", "Locks given back or left, by result.", []string{"result"}},
		{&m.orphans, "orphan_acquire_total", "Acquires that took effect, or may have, and that nobody got.", nil},
		{&m.stale, "stale_write_total", "Writes of a superseded holder at the protected resource, by outcome.", []string{"outcome"}},
		{&m.regressions, "fence_regression_total", "Grants whose fence is not above an earlier one of the same key.", nil},
		{&m.unownedWork, "unowned_work_seconds_total", "Seconds of work past the validity of the lock.", nil},
		{&m.overrun, "renew_budget_exceeded_total", "What would have been an abandonment where the policy lets work go on.", nil},
	} {
		*c.into = prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + c.name, Help: c.help}, labels(c.labels))
		if err := reg.Register(*c.into); err != nil {
			return nil, fmt.Errorf("register %s: %w", c.name, err)
		}
	}
	for _, h := range []struct {
		into    **prometheus.HistogramVec
		name    string
		help    string
		buckets []float64
		labels  []string
	}{
		{&m.waits, "wait_seconds", "From the call of acquire to its answer, by class of work.", lives, []string{"class"}},
		{&m.held, "held_seconds", "From the grant until the holder had stopped, by class of work.", lives, []string{"class"}},
		{&m.rtt, "renew_rtt_seconds", "Round trip of renewal calls.", trips, nil},
		{&m.margin, "fence_margin_seconds", "Validity left when the holder had stopped; negative: too late.", margins, nil},
		{&m.debt, "debt_seconds", "How long a key that nobody used stayed locked, or will, by cause.", lives, []string{"cause"}},
	} {
		*h.into = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + h.name, Help: h.help, Buckets: h.buckets}, labels(h.labels))
		if err := reg.Register(*h.into); err != nil {
			return nil, fmt.Errorf("register %s: %w", h.name, err)
		}
	}
	for _, g := range []struct {
		into **prometheus.GaugeVec
		name string
		help string
	}{
		{&m.holders, "holders", "Locks that are held and not given up."},
		{&m.unowned, "unowned", "Holders that work on without the lock, as far as they know."},
	} {
		*g.into = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + g.name, Help: g.help}, labels(nil))
		if err := reg.Register(*g.into); err != nil {
			return nil, fmt.Errorf("register %s: %w", g.name, err)
		}
	}
	return m, nil
}

const prefix = "lockcore_"

func labels(own []string) []string {
	return append([]string{labelNamespace, labelProfile, labelPolicy}, own...)
}

// words of results: what success is called depends on what was asked for.
func word(ok string, r lockcore.Result) string {
	if r == lockcore.OK {
		return ok
	}
	return string(r)
}
