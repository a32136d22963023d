package drill

import (
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
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

// findAskers refuses a scrape whose asker is not known (a variable that is not set, a file of an authority that is not there), and a gauge
// where a counter is wanted. What does not answer yet may be any.
func (d *Drill) findAskers(ctx context.Context) error {
	var living []testbed.Found
	if d.e.System.Processes != nil {
		living, _, _ = testbed.FindProcesses(ctx, d.e.System.Processes) // the guard of the processes says what is wrong
	}
	for _, m := range d.e.Probes.Scraped() {
		probe, err := scraper(&m, func() []probes.Target { return targetsNow(&m, living) })
		if err != nil {
			return err
		}
		typ := ""
		if by, _ := counted(d.e, m.Name); by != "" && m.Scrape != experiments.ScrapeLocks {
			typ = typeNow(ctx, probe)
		}
		_ = probe.Close() // it has read at most
		if err := countable(d.e, m.Name, m.What()+" at "+m.Scrape, typ); err != nil {
			return err
		}
	}
	return nil
}

// targetsNow are those of a metric that are there before a run; its own replicas are not.
func targetsNow(m *experiments.Metric, living []testbed.Found) (all []probes.Target) {
	if m.Scrape != experiments.ScrapeReplicas {
		return []probes.Target{{Name: "endpoint", URL: m.Scrape}}
	}
	for _, p := range living {
		all = append(all, probes.Target{Name: p.Name, URL: p.Metrics})
	}
	return all
}

// typeNow is of what type a metric is, as its targets say now; "" = none does.
func typeNow(ctx context.Context, probe *probes.Metrics) string {
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	look, err := probe.Look(ctx, false)
	if err != nil {
		return ""
	}
	for _, ev := range look(history.Span{}) {
		if ev.Sample.Type != "" {
			return ev.Sample.Type
		}
	}
	return ""
}

// countable refuses a gauge where a counter is wanted. source is what is read, and typ what it says that it is.
func countable(e *experiments.Experiment, metric, source, typ string) error {
	by, at := counted(e, metric)
	if by == "" || typ != "gauge" {
		return nil
	}
	return usagef("%s:%d:%d: %s of metric %s needs a counter, and %s says that it is a gauge: take a counter, or limit max of it", at.File, at.Line, at.Column, by, metric, source)
}

// counted is what of a file needs a metric to be a counter, and where that stands; "" = nothing does.
func counted(e *experiments.Experiment, metric string) (by string, at experiments.Place) {
	for _, rows := range [][]experiments.SLO{e.SLOs, e.Expect} {
		for i := range rows {
			m := rows[i].Metric
			if m == nil || m.Name != metric {
				continue
			}
			if word, _ := m.Limit(); word != "max" {
				return word, rows[i].Place
			}
		}
	}
	for i := range e.System.Locks {
		for _, s := range e.System.Locks[i].Signals() {
			if s.Metric == metric {
				return "what tells of lock " + e.System.Locks[i].Name + " by the count", e.System.Locks[i].Place
			}
		}
	}
	return "", at
}

// openQueries makes a probe for each query to a Prometheus server. A server that is away, or does not take the query, is known before
// anything is touched.
func (d *Drill) openQueries(ctx context.Context) error {
	for i := range d.e.Probes.PromQL {
		q := &d.e.Probes.PromQL[i]
		probe, err := openQuery(q, d.clock)
		if err != nil {
			return err
		}
		d.looks = append(d.looks, probe.Close)
		seen, _, err := peekQuery(ctx, q, probe)
		if err == nil && len(seen) > 0 {
			err = countable(d.e, q.Name, q.Query+" at "+q.URL, seen[0].Type)
		}
		if err != nil {
			return err
		}
		d.cfg.Probes = append(d.cfg.Probes, runner.Sampled{
			Name: "metric:" + q.Name, Source: "probe:metrics", Live: true, Probe: probe, Last: q.Step + lastScrape,
			ProbeSettings: experiments.ProbeSettings{Every: min(q.Step, queryEvery), MaxGap: 2*q.Step + 2*time.Second},
		})
	}
	return nil
}

const (
	queryEvery = 5 * time.Second // at most between two questions to a server
	lastScrape = 5 * time.Second // the last look waits so much longer than a scrape takes to come
)

func openQuery(q *experiments.Query, clock func() int64) (probes.Query, error) {
	return askedAt("probes.promql "+q.Name, &q.PromServer, func(o probes.PromServer) (probes.Query, error) {
		if q.Evaluated() {
			return probes.NewEvaluated(q.Name, q.Query, q.Step, o, clock)
		}
		return probes.NewPromQL(q.Name, q.Query, q.Step, o, clock)
	})
}

// promServer is a server that is asked queries, with who asks.
func promServer(where string, s *experiments.PromServer) (probes.PromServer, error) {
	return askedAt(where, s, func(o probes.PromServer) (probes.PromServer, error) { return o, nil })
}

// askedAt makes a probe of a server, with the secrets that say who asks.
func askedAt[P any](where string, s *experiments.PromServer, make func(probes.PromServer) (P, error)) (none P, err error) {
	by, err := askerOf(where, &s.Asker)
	if err != nil {
		return none, err
	}
	probe, err := make(probes.PromServer{URL: s.URL, Asker: by})
	if err != nil {
		return none, usagef("%s: %w", where, err)
	}
	return probe, nil
}

// askerOf reads what says who asks from the environment.
func askerOf(where string, a *experiments.Asker) (by probes.Asker, err error) {
	for _, name := range a.Variables() {
		if os.Getenv(name) == "" {
			return by, usagef("%s: the environment variable %s is not set", where, name)
		}
	}
	by = probes.Asker{CA: a.CA, Cert: a.Cert, Key: a.CertKey, User: os.Getenv(a.UsernameEnv), Password: os.Getenv(a.PasswordEnv), Bearer: os.Getenv(a.BearerEnv), Headers: maps.Clone(a.Headers)}
	for header, name := range a.HeadersEnv {
		if by.Headers == nil {
			by.Headers = map[string]string{}
		}
		by.Headers[header] = os.Getenv(name)
	}
	return by, nil
}

// scraper makes the probe of an exposition.
func scraper(m *experiments.Metric, targets func() []probes.Target) (*probes.Metrics, error) {
	where := "probes.metrics " + m.Name
	by, err := askerOf(where, &m.Asker)
	if err != nil {
		return nil, err
	}
	probe, err := probes.NewMetrics(probes.Metric{Name: m.Name, Series: m.Series, Labels: m.Labels, Asker: by}, targets)
	if err != nil {
		return nil, usagef("%s: %w", where, err)
	}
	return probe, nil
}

// peekQuery asks a server once, and gives what its answer lacks, by its own word, beside what it has. Samples that come more seldom than
// the file says would be taken for missing ones.
func peekQuery(ctx context.Context, q *experiments.Query, probe probes.Query) (seen []probes.Seen, lacks string, err error) {
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	if seen, lacks, err = probe.Peek(ctx); err != nil {
		return nil, "", unasked("probes.promql "+q.Name, err)
	}
	for _, s := range seen {
		if s.Every > q.Step+q.Step/2 {
			return nil, "", usagef("probes.promql %s: the server scrapes the series every %s, and step is %s: say step: %s",
				q.Name, figures.Short(int64(s.Every)), figures.Spell(q.Step), figures.Spell(s.Every.Round(time.Second)))
		}
	}
	return seen, lacks, nil
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
	return scraper(&m, targets)
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
