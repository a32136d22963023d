package probes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// Query is a probe of what a Prometheus server says of a query.
type Query interface {
	Peek(ctx context.Context) (seen []Seen, lacks string, err error)
	Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error)
	Close() error
}

// Evaluated asks a Prometheus server what an expression gives, again and again. Each series of the result is a target, and a scalar is one:
// it stands at that level while the server is asked. An answer that is not whole is none: the number may be made of what is missing.
type Evaluated struct {
	*Metrics
	query  string
	step   time.Duration
	server *promServer
}

// NewEvaluated returns a probe of an expression that is made of samples which are scraped every step.
func NewEvaluated(metric, query string, step time.Duration, o PromServer, clock func() int64) (*Evaluated, error) {
	s, err := newPromServer(o, clock)
	if err != nil {
		return nil, err
	}
	shown := &Metrics{metric: Metric{Name: metric}, seen: map[string]*scraped{}, close: func() error { s.client.CloseIdleConnections(); return nil }}
	return &Evaluated{Metrics: shown, query: query, step: step, server: s}, nil
}

// Peek asks once, and keeps nothing.
func (p *Evaluated) Peek(ctx context.Context) (all []Seen, lacks string, err error) {
	values, err := p.server.evaluate(ctx, p.query)
	if less := new(partial); errors.As(err, &less) {
		lacks, err = less.what, nil
	}
	for _, v := range values {
		all = append(all, Seen{Labels: v.Labels, Value: float64(v.Value)})
	}
	return all, lacks, err
}

// Look gives each series whose value is another than before, and those that the result has no more. What was scraped before the last look
// is in the last answer: the server is asked when its next scrape must have come.
func (p *Evaluated) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	if final {
		select {
		case <-time.After(p.step):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	at := history.At(p.server.clock())
	values, err := p.server.evaluate(ctx, p.query)
	if err != nil {
		return nil, err
	}
	at.To = p.server.clock()
	if len(values) > maxSeries {
		return nil, fmt.Errorf("%d series come of %s, at most %d are read: aggregate them", len(values), p.query, maxSeries)
	}
	return func(history.Span) (events []history.Event) {
		shows := map[string][]history.Value{}
		for name := range p.seen {
			shows[name] = nil
		}
		for _, v := range values {
			shows[labelText(v.Labels)] = []history.Value{v}
		}
		for _, name := range slices.Sorted(maps.Keys(shows)) {
			s := history.Sample{Metric: p.metric.Name, Target: name, Type: "gauge", Values: shows[name]}
			if e, news := p.observe(s, at, final); news {
				events = append(events, e)
			}
		}
		return events
	}, nil
}
