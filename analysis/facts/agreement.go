package facts

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/signals"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// seriesAbandoned is the instrument that counts what abandon events claim, at the same place and by other means.
const seriesAbandoned = "lockcore_abandoned_total"

// seriesOverrun is the same question where the policy lets work go on: no event says that alone.
const seriesOverrun = "lockcore_renew_budget_exceeded_total"

// ScrapeSlack is how long after an abandonment's stamp its counter may still be one short: stamp, counter and line are taken
// within one step of the client.
const ScrapeSlack = int64(100e6)

// Raised is an event that may have raised a metric of the replica that tells of it: work given up, or gone on with unowned, or a renewal
// that did not succeed.
type Raised struct {
	kind                 history.Kind
	source, lock, reason string
	from, n              int64
}

// raise notes ev where a metric may be held against it.
func (ix *Facts) raise(ev *history.Event, reason string) {
	if len(ix.Exp.Probes.Metrics) > 0 {
		ix.raised = append(ix.raised, Raised{ev.Kind, ev.Source, ev.Lock, reason, ev.From, ev.N})
	}
}

// counterpart gives the events that a metric of the replicas counts, or nil where the history has none, or a label decides that no
// event carries.
func (ix *Facts) counterpart(m *experiments.Metric) func(Raised) bool {
	if m.Series != seriesAbandoned || m.Scrape != experiments.ScrapeReplicas {
		return nil
	}
	for name := range m.Labels {
		if name != "namespace" && name != "reason" && name != "profile" && name != "policy" {
			return nil
		}
	}
	carries := func(name, value string) bool {
		want, asked := m.Labels[name]
		return !asked || value == want
	}
	return func(r Raised) bool {
		if r.kind != history.AbandonKind || !carries("namespace", r.lock) || !carries("reason", r.reason) {
			return false
		}
		l := ix.Exp.Lock(r.lock)
		return l != nil && carries("profile", l.Profile) && carries("policy", string(l.Policy.Class))
	}
}

// Raisers gives the events of which each may have raised a metric of the replicas by one, so that they bound what nobody scraped; nil
// where the history has none.
func (ix *Facts) Raisers(m *experiments.Metric) func(Raised) bool {
	if m.Series == seriesOverrun && m.Scrape == experiments.ScrapeReplicas {
		return func(r Raised) bool { return r.kind == history.UnownedEnter || r.kind == history.RenewReturn }
	}
	return ix.counterpart(m)
}

// EventsOf lists the numbers of an incarnation's events of a sort that begin within w.
func (ix *Facts) EventsOf(incarnation string, w history.Span, sort func(Raised) bool) []int64 {
	var ns []int64
	for _, r := range ix.raised {
		if r.source == incarnation && r.from >= w.From && r.from <= w.To && sort(r) {
			ns = append(ns, r.n)
		}
	}
	return ns
}

// CompareMetrics makes a finding of every disagreement about a declared metric.
func (ix *Facts) CompareMetrics() (fs []verdict.Finding) {
	for _, m := range ix.Exp.Probes.Metrics {
		fs = append(fs, ix.Disagreements(&m)...)
	}
	return fs
}

// Disagreements holds what the replicas counted against what they said, lock by lock, up to each one's last scrape. The two are made
// by different means from the same steps, so a difference says that one of them cannot be relied on.
func (ix *Facts) Disagreements(m *experiments.Metric) []verdict.Finding {
	counted := ix.counterpart(m)
	if counted == nil {
		return nil
	}
	var fs []verdict.Finding
	for _, s := range ix.Samples[m.Name] {
		if !s.Present() {
			continue
		}
		for i := range ix.Exp.System.Locks {
			lock := ix.Exp.System.Locks[i].Name
			of := func(r Raised) bool { return r.lock == lock && counted(r) }
			if f, found := ix.disagreement(m, s, lock, of); found {
				fs = append(fs, f)
			}
		}
	}
	return fs
}

func (ix *Facts) disagreement(m *experiments.Metric, s *signals.Target, lock string, of func(Raised) bool) (verdict.Finding, bool) {
	last := s.Points[len(s.Points)-1]
	sum := 0.0
	for _, v := range last.Series {
		namespace, labelled := v.Labels["namespace"]
		if !labelled { // a worker of others': it does not tell locks apart
			return verdict.Finding{}, false
		}
		if namespace == lock {
			sum += float64(v.Value)
		}
	}
	all := ix.EventsOf(s.Name, history.Span{From: 0, To: s.Last.To}, of)
	surely := len(ix.EventsOf(s.Name, history.Span{From: 0, To: s.Last.From - ScrapeSlack}, of))
	if sum >= float64(surely) && (sum <= float64(len(all)) || ix.silenced(s)) {
		return verdict.Finding{}, false
	}
	what := fmt.Sprintf("replica %s: metric %s counted %s of lock %s by %s, but its events show %d",
		s.Name, m.Name, figures.Decimal(sum), lock, figures.Clock(s.Last.To), len(all))
	return verdict.Finding{What: what, Evidence: Cite(append([]int64{last.N}, all...)...)}, true
}

// silenced reports whether a replica may have been killed between its last scrape and the lines about what it had counted by then.
// One that ended by itself has written them.
func (ix *Facts) silenced(s *signals.Target) bool {
	d, dead := ix.Deaths[s.Name]
	return dead && strings.HasPrefix(d.exit, "signal") && d.From <= s.Last.To+ScrapeSlack
}
