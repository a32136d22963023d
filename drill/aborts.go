package drill

import (
	"context"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/probes"
)

// openAborts makes a probe of each query that may end the run. One that cannot be asked, or gives what is no answer, refuses the run:
// nobody would guard it.
func (d *Drill) openAborts(ctx context.Context) error {
	for i := range d.e.AbortWhen {
		a := &d.e.AbortWhen[i]
		if a.PromQL == nil {
			continue
		}
		where := "abort_when " + a.Says()
		server, err := promServer(where, &a.PromQL.PromServer)
		if err != nil {
			return err
		}
		probe := &asked{name: experiments.AbortProbe(i), query: a.PromQL.Query, server: server}
		within, cancel := context.WithTimeout(ctx, environmentWithin)
		_, err = probe.value(within)
		cancel()
		if err != nil {
			return unasked(where, err)
		}
		every := experiments.AbortQueryEvery
		d.cfg.Probes = append(d.cfg.Probes, runner.Sampled{
			Name: probe.name, Source: "probe:abort_when", Live: true, Probe: probe, ProbeSettings: experiments.ProbeSettings{Every: every, MaxGap: 2*every + 2*time.Second},
		})
	}
	return nil
}

// asked is a query that is asked again and again. What is no answer is a look that failed.
type asked struct {
	name, query string
	server      probes.PromServer
	last        *history.Sample
}

// value is the first value of the result that is not 0; 0 = there is none.
func (p *asked) value(ctx context.Context) (float64, error) {
	values, err := probes.Instant(ctx, p.query, p.server)
	for _, v := range values {
		if v != 0 {
			return v, err
		}
	}
	return 0, err
}

// Look gives what the query gives where that is news.
func (p *asked) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	v, err := p.value(ctx)
	if err != nil {
		return nil, err
	}
	return func(at history.Span) []history.Event {
		s := history.Sample{Metric: p.name, Target: "server", Type: "gauge", Values: []history.Value{{Value: history.Number(v)}}}
		if p.last != nil && s.Same(*p.last) && !final {
			return nil
		}
		p.last = &s
		now := s
		now.Final = final
		return []history.Event{{Kind: history.SampleKind, Span: at, Source: "probe:abort_when", Sample: &now}}
	}, nil
}

// abortGuard says what would end the run; it refuses nothing. What cannot be asked is the sources' matter.
func abortGuard(e *experiments.Experiment) Guard {
	var says []string
	for i := range e.AbortWhen {
		says = append(says, e.AbortWhen[i].Describe())
	}
	return Guard{Name: abortGuardName, Says: "the run ends at " + strings.Join(says, "; at ")}
}
