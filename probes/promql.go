package probes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

const (
	scrapeStamp = 2 * time.Millisecond // Prometheus lets a scrape's stamp be so much earlier or later, to make them even
	promSlack   = 5 * time.Second      // samples are asked for so much further back than they have to be
	maxRange    = time.Hour            // of one question
	// promAgain is how often the last look asks whether the server has scraped again.
	promAgain = 250 * time.Millisecond
)

// PromQL reads what a Prometheus server has scraped: raw samples with their own stamps, by a selector over a range. A server repeats a
// sample for five minutes where it is asked for a value: that is never asked. It holds the server's clock against its own in each look.
type PromQL struct {
	metric string
	query  string
	step   int64 // ns between scrapes
	server *promServer
	clock  func() int64
	typ    string
	asked  bool // for the type
	read   int64
	seen   map[string]*promSeries
	whole  int64  // the end of the last look whose answer was whole
	lacks  string // what the first answer since then lacks; "" = nothing
}

// promSeries is what is known of one series.
type promSeries struct {
	stamp  int64        // of its last sample, ns by the server
	at     history.Span // that, by our clock
	sample history.Sample
	told   bool // the value is written
	gone   bool // it was said that nothing came any more
}

// NewPromQL returns a probe of what a server has scraped.
func NewPromQL(metric, query string, step time.Duration, o PromServer, clock func() int64) (*PromQL, error) {
	s, err := newPromServer(o, clock)
	if err != nil {
		return nil, err
	}
	return &PromQL{metric: metric, query: query, step: int64(step), server: s, clock: clock, read: math.MinInt64, seen: map[string]*promSeries{}}, nil
}

// Close closes the probe's connections.
func (p *PromQL) Close() error {
	p.server.client.CloseIdleConnections()
	return nil
}

// Seen is a series as a server has it now.
type Seen struct {
	Labels map[string]string
	Value  float64
	Age    time.Duration // of the last sample; of what is evaluated when it is asked, 0
	Every  time.Duration // between the last two; 0 = there is one
	Type   string        // as the server knows it: counter, gauge ...; "" = it does not
}

// Peek asks once, and keeps nothing. lacks is what the answer says that it has not; "" = nothing.
func (p *PromQL) Peek(ctx context.Context) (all []Seen, lacks string, err error) {
	series, clock, lacks, err := p.ask(ctx)
	if err != nil {
		return nil, "", err
	}
	p.learnType(ctx)
	for _, s := range series {
		last := s.samples[len(s.samples)-1]
		one := Seen{Type: p.typ, Labels: s.labels, Value: last.value, Age: time.Duration(p.clock() - clock.here(last.stamp).From)}
		if n := len(s.samples); n > 1 {
			one.Every = time.Duration(last.stamp - s.samples[n-2].stamp)
		}
		all = append(all, one)
	}
	return all, lacks, nil
}

// ask reads the samples since the last look, and before it as many as make sure that none is missed. lacks is what the answer says that
// it has not.
func (p *PromQL) ask(ctx context.Context) (series []rawSeries, clock promClock, lacks string, err error) {
	back := time.Duration(2*p.step) + promSlack
	if p.read != math.MinInt64 {
		back = min(maxRange, back+time.Duration(p.clock()-p.read))
	}
	if clock, err = p.server.now(ctx); err != nil {
		return nil, clock, "", err
	}
	series, err = p.server.samples(ctx, p.query, back)
	if less := new(partial); errors.As(err, &less) {
		lacks, err = less.what, nil
	}
	if err == nil && len(series) > maxSeries {
		err = fmt.Errorf("%d series match %s, at most %d are read: say labels", len(series), p.query, maxSeries)
	}
	return series, clock, lacks, err
}

// Look gives each sample whose value is another than before, and what has come to its end. The last look waits for one more scrape of
// each series that is being scraped: what was counted before it is in that.
func (p *PromQL) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	begun := p.clock()
	p.learnType(ctx)
	for {
		asked := p.clock()
		series, clock, lacks, err := p.ask(ctx)
		if err != nil {
			return nil, err
		}
		if final && p.waits(series, clock, begun) {
			select {
			case <-time.After(promAgain):
				continue
			case <-ctx.Done(): // whoever has not been scraped again is not final
			}
		}
		return func(history.Span) []history.Event {
			if lacks == "" { // else the next whole answer is to have what this one has not
				p.read = asked
			}
			events := p.take(series, clock, begun, final, lacks)
			return append(events, p.missed(history.Span{From: asked, To: p.clock()}, lacks, final)...)
		}, nil
	}
}

// learnType asks for the type, once. A server that does not know it, or does not say, tells less and not wrongly.
func (p *PromQL) learnType(ctx context.Context) {
	if p.asked {
		return
	}
	if typ, err := p.server.typeOf(ctx, p.query); err == nil {
		p.typ, p.asked = typ, true
	}
}

// missed keeps what the answers lack, and tells of a stretch without a whole one when it is over, or nothing comes after it.
func (p *PromQL) missed(at history.Span, lacks string, final bool) (events []history.Event) {
	if lacks != "" && p.lacks == "" {
		p.lacks = lacks
	}
	if p.lacks != "" && (lacks == "" || final) {
		gap := history.Span{From: p.whole, To: at.To}
		events = append(events, history.Event{Kind: history.GapKind, Span: gap, Source: sourceMetrics,
			Coverage: &history.Coverage{Probe: "metric:" + p.metric, Why: p.lacks, Failed: true, Partial: true, Largest: gap.Width()}})
		p.lacks = ""
	}
	if lacks == "" {
		p.whole = at.To
	}
	return events
}

// waits reports a series that is being scraped, and not again since the last look began.
func (p *PromQL) waits(series []rawSeries, clock promClock, since int64) bool {
	for _, s := range series {
		last := p.bracket(s.samples[len(s.samples)-1].stamp, clock)
		if last.From < since && !p.stale(last, since) {
			return true
		}
	}
	return false
}

// stale reports that a scrape after the sample is overdue.
func (p *PromQL) stale(last history.Span, now int64) bool { return now-last.From > p.overdue() }

func (p *PromQL) overdue() int64 { return 2*p.step + min(p.step, int64(promSlack)) }

// bracket is when a scrape showed what it did: while it was made, which takes no longer than the time between two.
func (p *PromQL) bracket(stamp int64, clock promClock) history.Span {
	at := clock.here(stamp)
	return history.Span{From: max(0, at.From-int64(scrapeStamp)), To: max(0, min(at.To+p.step, p.clock()))}
}

// take tells of samples, of which a partial answer need not have all: then nothing has come to its end because it is not among them.
func (p *PromQL) take(series []rawSeries, clock promClock, begun int64, final bool, lacks string) []history.Event {
	var events []history.Event
	for _, raw := range series {
		key := labelText(raw.labels)
		s := p.seen[key]
		if s == nil {
			s = &promSeries{stamp: math.MinInt64}
			p.seen[key] = s
			raw.samples = baseOf(raw.samples, clock)
		}
		for _, x := range raw.samples {
			if x.stamp > s.stamp {
				now := history.Sample{Target: key, Type: p.typ, Values: []history.Value{{Labels: raw.labels, Value: history.Number(x.value)}}, Partial: lacks}
				events = append(events, p.sample(s, now, x.stamp, clock)...)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.seen)) {
		s := p.seen[key]
		switch {
		case !s.gone && lacks == "" && p.stale(s.at, begun):
			s.gone, s.told = true, false
			events = append(events, p.event(s.at.From, begun, history.Sample{Target: s.sample.Target, Gone: history.GoneStale,
				Why: "the server has scraped nothing of it since", Prev: copyOf(s.at)}))
		case final && !s.gone && s.at.From >= begun:
			last := s.sample
			last.Final, last.Prev = true, copyOf(s.at)
			events = append(events, p.event(s.at.From, s.at.To, last))
		}
	}
	return events
}

// baseOf leaves out what was scraped before the record begins, but for the last.
func baseOf(samples []rawSample, clock promClock) []rawSample {
	first := slices.IndexFunc(samples, func(x rawSample) bool { return clock.here(x.stamp).From >= 0 })
	if first < 0 {
		first = len(samples)
	}
	return samples[max(0, first-1):]
}

// sample takes in the next sample of a series.
func (p *PromQL) sample(s *promSeries, now history.Sample, stamp int64, clock promClock) (events []history.Event) {
	at := p.bracket(stamp, clock)
	before, first := s.at, s.stamp == math.MinInt64
	if !first && at.From-before.From > p.overdue() && !s.gone {
		events = append(events, history.Event{Kind: history.GapKind, Span: history.Span{From: before.From, To: at.From}, Source: sourceMetrics,
			Coverage: &history.Coverage{Probe: "metric:" + p.metric, Why: "the server had not scraped " + now.Target, Failed: true, Largest: at.From - before.From}})
	}
	news := !s.told || !now.Same(s.sample)
	s.stamp, s.at, s.sample, s.told, s.gone = stamp, at, now, true, false
	if news {
		if !first {
			now.Prev = copyOf(before)
		}
		events = append(events, p.event(at.From, at.To, now))
	}
	return events
}

func (p *PromQL) event(from, to int64, s history.Sample) history.Event {
	s.Metric = p.metric
	return history.Event{Kind: history.SampleKind, Span: history.Span{From: from, To: to}, Source: sourceMetrics, Sample: &s}
}

func copyOf(s history.Span) *history.Span { return &s }

// promClock holds a server's clock against ours: it showed said at some moment within asked.
type promClock struct {
	said  int64 // ns
	asked history.Span
}

// here is when the server's clock showed a stamp, by our clock. What it said was cut to its millisecond.
func (c promClock) here(stamp int64) history.Span {
	at := c.asked.Add(stamp - c.said)
	at.From -= int64(time.Millisecond)
	return at
}

// selectorName is the metric that a selector names; "" = none.
func selectorName(query string) string {
	name, _, _ := strings.Cut(query, "{")
	return strings.TrimSpace(name)
}

// ErrQuery is wrapped where a server refuses the question itself.
var ErrQuery = errors.New("the server does not take the query")
