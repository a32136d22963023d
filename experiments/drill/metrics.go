package drill

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/probes"
)

// openMetrics makes a probe for each metric that the experiment declares.
func (d *Drill) openMetrics(context.Context) error {
	d.begin = append(d.begin, func() error {
		for _, m := range d.e.Probes.Scraped() {
			probe, err := d.metric(m)
			if err != nil {
				return err
			}
			d.looks = append(d.looks, probe.Close)
			d.cfg.Probes = append(d.cfg.Probes, runner.Sampled{
				Name: "metric:" + m.Name, Source: "probe:metrics", Live: true, Probe: probe,
				// A scrape of a replica that hangs takes its whole time limit.
				ProbeSettings: experiments.ProbeSettings{Every: m.Every, MaxGap: 2*m.Every + 2*time.Second},
			})
		}
		return nil
	})
	return nil
}

// metric makes the probe of one.
func (d *Drill) metric(m experiments.Metric) (*probes.Metrics, error) {
	targets := func() []probes.Target { return []probes.Target{{Name: "endpoint", URL: m.Scrape}} }
	switch m.Scrape {
	case experiments.ScrapeLocks:
		return d.keyMetric(m)
	case experiments.ScrapeReplicas:
		targets = (&replicaTargets{log: d.log}).list
	}
	return probes.NewMetrics(probes.Metric{Name: m.Name, Series: m.Series, Labels: m.Labels}, targets), nil
}

// replicaTargets are the incarnations that are or were ready, as the history names them. It belongs to one probe.
type replicaTargets struct {
	log  *runner.Log
	seen int
	all  []probes.Target
}

func (r *replicaTargets) list() []probes.Target {
	var news []history.Event
	news, r.seen = r.log.From(r.seen)
	for _, e := range news {
		switch e.Kind {
		case history.ReplicaReady:
			r.all = append(r.all, probes.Target{Name: e.Replica.Incarnation, URL: metricsURL(e.Replica.Metrics)})
		case history.ReplicaExit:
			if i := slices.IndexFunc(r.all, func(t probes.Target) bool { return t.Name == e.Replica.Incarnation }); i >= 0 {
				r.all[i].Dead = true
			}
		}
	}
	return slices.Clone(r.all)
}

// metricsURL is where a replica serves its metrics: where the file says so of somebody's own; else where it says so itself, "" where that
// is not on loopback, since it is a process of this host.
func metricsURL(addr string) string {
	if strings.Contains(addr, "://") {
		return addr
	}
	host, _, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return ""
	}
	return "http://" + addr + "/metrics"
}
