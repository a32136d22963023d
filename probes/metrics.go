// Package probes looks at what the replicas of a drill and others count and write: metrics, series of a Prometheus, alerts, logs. What they
// report is evidence, as against the claims of replicas. Watches of locks and of the ledger are with their kinds of stores.
//
// A probe makes one look at a time and knows neither schedule nor clock: its caller stamps the bracket of the look and gets the events for
// it. Its one invariant: what was not shown is never reported, and what was is reported with a bracket that surely contains its beginning.
package probes

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/witness"
)

const (
	scrapeWithin  = time.Second // one target: a paused replica must not take the others' look with it
	scrapesAtOnce = 32
	maxExposition = 64 << 20 // bytes of one answer
	maxSeries     = 1000     // of one metric at one target: each is written whenever one of them has changed
	sourceMetrics = "probe:metrics"

	clocksApart = 2 * time.Second // so far may the clock that stamps samples be from this machine's
)

// Target is something that serves an exposition.
type Target struct {
	Name string // as in samples: an incarnation, or "endpoint"
	URL  string // "" = it serves none
	Dead bool   // there will be no answer any more
}

// Metric is one series to read: all series of that name that carry the labels. A histogram is read as its _sum, _count and _bucket.
type Metric struct {
	Name   string // as in samples
	Series string
	Labels map[string]string
	Asker
}

// Metrics scrapes one metric from all its targets. Looks are made one after the other. A target that does not answer is no
// failed look: that is what the sample says.
type Metrics struct {
	metric  Metric
	targets func() []Target
	read    func(ctx context.Context, url string, into *history.Sample) error
	close   func() error
	seen    map[string]*scraped
}

// scraped is what the last look showed of a target.
type scraped struct {
	sample history.Sample
	good   history.Span // the last look
}

// NewMetrics returns a probe of expositions; targets is asked before each look. An error is of the authority's file.
func NewMetrics(m Metric, targets func() []Target) (*Metrics, error) {
	client, err := m.client()
	if err != nil {
		return nil, err
	}
	x := &expositions{metric: m, client: client}
	return &Metrics{metric: m, targets: targets, seen: map[string]*scraped{}, read: x.read, close: func() error { x.client.CloseIdleConnections(); return nil }}, nil
}

// Close closes the probe's connections.
func (p *Metrics) Close() error { return p.close() }

// Look scrapes all targets at once. The returned function gives a sample for each one whose values or answer have changed since
// the last look; with final, one for every target that is not dead.
func (p *Metrics) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	targets := p.targets()
	samples := make([]history.Sample, len(targets))
	var wg sync.WaitGroup
	slots := make(chan struct{}, scrapesAtOnce)
	for i, t := range targets {
		slots <- struct{}{}
		wg.Go(func() {
			samples[i] = p.scrape(ctx, t)
			<-slots
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("scrape metric %s: %w", p.metric.Name, err)
	}
	return func(at history.Span) []history.Event {
		var events []history.Event
		for _, s := range samples {
			if e, news := p.observe(s, at, final); news {
				events = append(events, e)
			}
		}
		return events
	}, nil
}

// observe takes in what a look showed of a target, and says whether it is to be written.
func (p *Metrics) observe(s history.Sample, at history.Span, final bool) (history.Event, bool) {
	last := p.seen[s.Target]
	if last == nil {
		last = &scraped{}
		p.seen[s.Target] = last
	} else if s.Same(last.sample) && (!final || s.Gone == history.GoneExited) {
		last.good = at
		return history.Event{}, false
	} else {
		before := last.good
		s.Prev = &before
	}
	s.Final = final
	e := history.Event{Kind: history.SampleKind, Span: at, Source: sourceMetrics, Sample: &s}
	last.sample, last.good = s, at
	last.sample.Prev, last.sample.Final = nil, false
	return e, true
}

// scrape reads one target.
func (p *Metrics) scrape(ctx context.Context, t Target) history.Sample {
	s := history.Sample{Metric: p.metric.Name, Target: t.Name}
	switch {
	case t.Dead:
		s.Gone = history.GoneExited
		return s
	case t.URL == "":
		s.Gone = history.GoneNoMetrics
		return s
	}
	if err := p.read(ctx, t.URL, &s); err != nil {
		s.Gone, s.Why = Unread(err)
		s.Values, s.Type = nil, ""
	}
	return s
}

// Unread says why there is no reading: the word for it, and what a person wants to know beside that, without addresses, which would be
// another with each connection.
func Unread(err error) (gone, why string) {
	var (
		timeout interface{ Timeout() bool }
		said    *answered
		away    *url.Error
		broken  *net.OpError
	)
	switch {
	case errors.As(err, &said):
		return history.GoneUnreadable, witness.Cut(said.what)
	case errors.As(err, &timeout) && timeout.Timeout():
		return history.GoneTimeout, "no answer within " + scrapeWithin.String()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return history.GoneRefused, "it closed the connection"
	case errors.As(err, &broken):
		err = broken.Err
	case errors.As(err, &away):
		err = away.Err
	}
	return history.GoneRefused, witness.Cut(err.Error())
}

// answered is the error of a target that answers, but not with what was asked for.
type answered struct{ what string }

func (a *answered) Error() string { return "it answers " + a.what }

// expositions are read by HTTP.
type expositions struct {
	metric Metric
	client *http.Client
}

func (p *expositions) read(ctx context.Context, at string, into *history.Sample) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return &answered{"nothing: its address cannot be read"} // which may have a password in it
	}
	p.metric.sign(req)
	asked := time.Now()
	req.Header.Set("Accept", acceptExposition)
	req.Header.Set("Accept-Encoding", "identity")
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return &answered{"HTTP " + res.Status}
	}
	page := io.Reader(res.Body)
	if strings.EqualFold(res.Header.Get("Content-Encoding"), "gzip") { // some compress whoever asks
		if page, err = gzip.NewReader(page); err != nil {
			return &answered{"no exposition: " + err.Error()}
		}
	}
	body, err := io.ReadAll(io.LimitReader(page, maxExposition))
	if err != nil {
		return err
	}
	if len(body) == maxExposition {
		return &answered{fmt.Sprintf("%d MiB or more", maxExposition>>20)}
	}
	families, err := parseExposition(body, p.metric.Series)
	if err != nil {
		return &answered{"no exposition: " + err.Error()}
	}
	for name, f := range families {
		all, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, f)
		if err != nil {
			return &answered{"a " + name + " that has no samples: " + err.Error()}
		}
		values, stamped := p.pick(all, asked)
		if stamped != "" {
			return &answered{"a " + stamped}
		}
		if len(values) > maxSeries {
			return &answered{fmt.Sprintf("%d series that match, at most %d are read: say labels", len(values), maxSeries)}
		}
		if len(values) > 0 {
			into.Values, into.Type = values, strings.ToLower(f.GetType().String())
		}
	}
	return nil
}

// pick gives the values of the series that match, in the order of their labels: as they are, also NaN and the infinities; and of a sample
// that is stamped and not of now what it is, since nobody knows what the value is now.
func (p *expositions) pick(all model.Vector, asked time.Time) (values []history.Value, stamped string) {
	for _, s := range all {
		labels := labelsOf(s.Metric)
		if string(s.Metric[model.MetricNameLabel]) != p.metric.Series || !Carries(labels, p.metric.Labels) {
			continue
		}
		if at := s.Timestamp.Time(); s.Timestamp != 0 && (at.Before(asked.Add(-clocksApart)) || at.After(time.Now().Add(clocksApart))) {
			return nil, fmt.Sprintf("sample of %s whose stamp is %s: it is not of now", p.metric.Series, at.UTC().Format(time.RFC3339))
		}
		values = append(values, history.Value{Labels: labels, Value: history.Number(s.Value)})
	}
	return inOrder(values), ""
}

// inOrder sorts values by their labels. Of a series that is told twice the first counts, as for Prometheus.
func inOrder(values []history.Value) []history.Value {
	type keyed struct {
		labels string
		value  history.Value
	}
	all := make([]keyed, len(values))
	for i, v := range values {
		all[i] = keyed{fmt.Sprint(v.Labels), v}
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return strings.Compare(a.labels, b.labels) })
	all = slices.CompactFunc(all, func(a, b keyed) bool { return a.labels == b.labels })
	for i, k := range all {
		values[i] = k.value
	}
	return values[:len(all)]
}

func labelsOf(m model.Metric) map[string]string {
	labels := map[string]string{}
	for name, value := range m {
		if name != model.MetricNameLabel {
			labels[string(name)] = string(value)
		}
	}
	return labels
}
