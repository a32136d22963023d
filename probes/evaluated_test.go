package probes

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/promtest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A real server evaluates an expression: each series is a target at the level that it has while the server is asked, a quantile of a native
// histogram too. A series that the result has no more is not there, and what gives no numbers is said.
func TestEvaluatedTellsLevels(t *testing.T) {
	t.Parallel()
	queue := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "queue", Help: "h"}, []string{"shard"})
	held := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "held_seconds", Help: "h", NativeHistogramBucketFactor: 1.1})
	registry := prometheus.NewRegistry()
	registry.MustRegister(queue, held)
	for range 100 {
		held.Observe(2)
	}
	queue.WithLabelValues("a").Set(3)
	queue.WithLabelValues("b").Set(4)
	exposes := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(exposes.Close)
	server := promtest.Start(t, strings.TrimPrefix(exposes.URL, "http://")).URL
	origin := monotime.Now()
	evaluated := func(query string) *Evaluated {
		p, err := NewEvaluated("m", query, time.Second, PromServer{URL: server}, func() int64 { return monotime.Now() - origin })
		testkit.Must(t, err)
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	look := func(p *Evaluated, final bool) (all []history.Event) {
		t.Helper()
		report, err := p.Look(t.Context(), final)
		testkit.Must(t, err)
		for _, e := range report(history.Span{}) {
			e.N, e.At = 1, monotime.Now()-origin
			if err := e.Check(); err != nil || e.To > e.At || e.Sample.Type != "gauge" || e.Sample.Metric != "m" {
				t.Errorf("%v: %+v %+v", err, e, e.Sample)
			}
			all = append(all, e)
		}
		return all
	}

	quantile := evaluated(`histogram_quantile(0.9, sum(held_seconds))`)
	if all := look(quantile, false); len(all) != 1 || all[0].Sample.Values[0].Value < 1.8 || all[0].Sample.Values[0].Value > 2.2 {
		t.Errorf("90 of 100 were 2 s: %+v", all)
	}
	if all := look(evaluated(`scalar(sum(queue)) * 2`), false); len(all) != 1 || all[0].Sample.Target != "{}" || all[0].Sample.Values[0].Value != 14 {
		t.Errorf("a scalar is one target: %+v", all)
	}
	for query, says := range map[string]string{`held_seconds + held_seconds`: "histogram_quantile", `"x"`: "it gives a string", `queue[1m] offset 1s`: "it gives a matrix", `sum(`: "parse error"} {
		if _, err := evaluated(query).Look(t.Context(), false); !errors.Is(err, ErrQuery) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, and %q is wanted", query, err, says)
		}
	}

	if _, err := evaluated(`label_replace(queue, "shard", "x", "", "")`).Look(t.Context(), false); err == nil || errors.Is(err, ErrQuery) || !strings.Contains(err.Error(), "same labelset") {
		t.Errorf("what the server answers is said: %v", err)
	}

	p, before := evaluated(`max by (shard) (queue) > 2`), monotime.Now()-origin
	all := look(p, false)
	if len(all) != 2 || all[0].Sample.Target != `{shard="a"}` || all[0].Sample.Values[0].Value != 3 || all[1].Sample.Values[0].Value != 4 ||
		all[0].From < before || all[0].To <= all[0].From || all[0].Sample.Prev != nil {
		t.Fatalf("two shards since %d: %+v", before, all)
	}
	if again := look(p, false); len(again) != 0 {
		t.Errorf("nothing is new: %+v", again)
	}
	queue.WithLabelValues("a").Set(1)
	poll(t, "the scrape of what has changed", func() bool { all = look(p, false); return len(all) > 0 })
	if s := all[0].Sample; len(all) != 1 || s.Target != `{shard="a"}` || len(s.Values) != 0 || s.Gone != "" || s.Prev == nil || s.Prev.To > all[0].From {
		t.Errorf("a is under the limit: %+v", s)
	}
	queue.WithLabelValues("b").Set(9)
	poll(t, "the scrape of the last value", func() bool { // the server's period is a step, so that a busy one may scrape after it
		seen, _, err := p.Peek(t.Context()) // keeps nothing
		return err == nil && len(seen) == 1 && seen[0].Value == 9
	})
	last := monotime.Now() - origin
	all = look(p, true)
	if len(all) != 2 || !all[1].Sample.Final || all[1].Sample.Values[0].Value != 9 || all[1].From < last+int64(time.Second) {
		t.Errorf("the last look asks a step later, and shows what was scraped: %+v", all)
	}
	seen, lacks, err := p.Peek(t.Context())
	if err != nil || lacks != "" || len(seen) != 1 || seen[0].Value != 9 || seen[0].Labels["shard"] != "b" {
		t.Errorf("%+v, %q, %v", seen, lacks, err)
	}
}

// A number that is made of a part of what there is may be any: an answer that is not whole is none.
func TestEvaluatedTellsNothingOfPartialAnswers(t *testing.T) {
	f := &fakeProm{now: 1e9, extra: map[string]any{"warnings": []string{"store sg-2 is away"}}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	p, err := NewEvaluated("m", "now()", time.Second, PromServer{URL: server.URL}, func() int64 { return f.now })
	testkit.Must(t, err)
	defer p.Close()
	if _, err := p.Look(t.Context(), false); err == nil || !strings.Contains(err.Error(), "not whole: store sg-2 is away") {
		t.Errorf("%v", err)
	}
}
