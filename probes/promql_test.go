package probes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/promtest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

func newProm(t *testing.T, query string, o PromServer) *PromQL {
	t.Helper()
	origin := monotime.Now() - int64(time.Hour) // samples of before are not cut off
	p, err := NewPromQL("gave-up", query, time.Second, o, func() int64 { return monotime.Now() - origin })
	testkit.Must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for limit := time.After(30 * time.Second); !done(); {
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("%s did not come", what)
		}
	}
}

// promLook makes one look, and checks what it gives.
func promLook(t *testing.T, p *PromQL, final bool) (samples []history.Event) {
	t.Helper()
	report, err := p.Look(t.Context(), final)
	testkit.Must(t, err)
	for _, e := range report(history.Span{}) {
		e.N, e.At = 1, p.clock()
		if err := e.Check(); err != nil || e.To > e.At {
			t.Errorf("%v: %+v until %d", err, e, e.At)
		}
		samples = append(samples, e)
	}
	return samples
}

const counted = "# TYPE gave_up_total counter\ngave_up_total{namespace=\"job\"} %d\n"

// What a real server has scraped is told with the time of the scrape; what it only repeats is stale, however long it repeats it.
func TestPromQLTellsWhatWasScraped(t *testing.T) {
	t.Parallel()
	x := expose(t, fmt.Sprintf(counted, 3))
	server := promtest.Start(t, strings.TrimPrefix(x.URL, "http://")).URL
	p := newProm(t, `gave_up_total{namespace="job"}`, PromServer{URL: server})
	first := promLook(t, p, false)
	if len(first) != 1 || first[0].Sample.Values[0].Value != 3 || first[0].Sample.Type != "counter" || first[0].Sample.Prev != nil ||
		!strings.Contains(first[0].Sample.Target, `namespace="job"`) {
		t.Fatalf("first: %+v", first)
	}
	before := p.clock()
	x.text.Store(fmt.Sprintf(counted, 5))
	var news []history.Event
	poll(t, "the new value", func() bool {
		news = promLook(t, p, false)
		return len(news) > 0
	})
	e := news[0]
	if len(news) != 1 || e.Sample.Values[0].Value != 5 || e.To < before || e.Sample.Prev == nil || e.Sample.Prev.From > before || e.Width() > 2e9 {
		t.Errorf("the value was 3 before %d: %+v, before %+v", before, e, e.Sample.Prev)
	}
	begun := p.clock()
	final := promLook(t, p, true)
	if last := final[len(final)-1]; !last.Sample.Final || last.From < begun || last.Sample.Values[0].Value != 5 {
		t.Errorf("the last look began at %d: %+v", begun, final)
	}
	x.hang.Store(true)
	poll(t, "the end of the scrapes", func() bool {
		news = promLook(t, p, false)
		return len(news) > 0
	})
	if s := news[0].Sample; len(news) != 1 || s.Gone != history.GoneStale || len(s.Values) != 0 {
		t.Errorf("nothing is scraped any more: %+v", s)
	}
	if news = promLook(t, p, false); len(news) != 0 {
		t.Errorf("told again: %+v", news)
	}
	x.hang.Store(false)
	poll(t, "another scrape", func() bool {
		news = promLook(t, p, false)
		return len(news) > 0
	})
	if s := news[0].Sample; s.Gone != "" || s.Values[0].Value != 5 {
		t.Errorf("it is scraped again: %+v", s)
	}
	bad := newProm(t, `gave_up_total offset 1m`, PromServer{URL: server})
	if _, err := bad.Look(t.Context(), false); !errors.Is(err, ErrQuery) {
		t.Errorf("a query that is no selector: %v", err)
	}
}

// A server is told who asks, and what it answers otherwise is said without the password.
func TestPromQLSaysWhatIsWrong(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		switch user, password, _ := r.BasicAuth(); {
		case r.Header.Get("Authorization") == "Bearer hunter2":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		case user == "me" && password == "hunter2":
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1.5,"1.5"]}}`)
		case user == "text":
			fmt.Fprint(w, "<html>")
		default:
			http.Error(w, "no", http.StatusUnauthorized)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct {
		o    PromServer
		says string
	}{
		{PromServer{URL: server.URL}, "401"},
		{PromServer{URL: server.URL, Asker: Asker{Bearer: "hunter2"}}, "302"},
		{PromServer{URL: server.URL, Asker: Asker{User: "me", Password: "hunter2"}}, "gives a scalar"},
		{PromServer{URL: server.URL, Asker: Asker{User: "text"}}, "none of Prometheus"},
		{PromServer{URL: gone.URL}, "refused"},
		{PromServer{URL: secure.URL}, "x509: certificate signed by unknown authority"},
		{PromServer{URL: silent.URL}, "deadline exceeded"},
	} {
		p := newProm(t, "up", c.o)
		ctx, cancel := context.WithTimeout(t.Context(), map[bool]time.Duration{true: 50 * time.Millisecond, false: time.Minute}[c.o.URL == silent.URL])
		_, err := p.Look(ctx, false)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v, want %q", c.o, err, c.says)
		}
	}
	if _, err := NewPromQL("m", "up", time.Second, PromServer{Asker: Asker{CA: "no-such.pem"}}, nil); err == nil {
		t.Error("a certificate that is not there, and no error")
	}
}

// fakeProm is a server whose clock is the probe's, and which answers with what stands in it.
type fakeProm struct {
	now    int64 // ns
	series map[string][][2]any
	extra  map[string]any // beside status and data of each answer
	// victoria: it says the time as VictoriaMetrics does: a vector, half a minute ago, stamped in whole seconds.
	victoria bool
	alive    []string // series that are scraped before each answer about them
}

func vectorOf(stamp, value int64) map[string]any {
	one := map[string]any{"metric": map[string]string{}, "value": [2]any{stamp, fmt.Sprint(float64(value) / 1e9)}}
	return map[string]any{"resultType": "vector", "result": []any{one}}
}

func (f *fakeProm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := map[string]any{"status": "success", "data": map[string]any{}}
	for name, x := range f.extra {
		answer[name] = x
	}
	switch r.URL.Query().Get("query") {
	case "":
	case "time()":
		answer["data"] = map[string]any{"resultType": "scalar", "result": [2]any{float64(f.now) / 1e9, ""}}
		if f.victoria {
			answer["data"] = vectorOf(f.now/1e9, f.now-30e9)
		}
	case "now()":
		answer["data"] = vectorOf(f.now/1e9, f.now)
	default:
		var result []any
		for _, name := range f.alive {
			f.now += 1e9
			f.scrape(name, "1")
		}
		for _, name := range slices.Sorted(maps.Keys(f.series)) {
			result = append(result, map[string]any{"metric": map[string]string{"instance": name}, "values": f.series[name]})
		}
		answer["data"] = map[string]any{"resultType": "matrix", "result": result}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// scrape adds a sample to a series, at the server's time.
func (f *fakeProm) scrape(name, value string) {
	f.series[name] = append(f.series[name], [2]any{float64(f.now) / 1e9, value})
}

func startFake(t *testing.T) (*fakeProm, *PromQL) {
	t.Helper()
	f := &fakeProm{now: 1000e9, series: map[string][][2]any{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	p, err := NewPromQL("g", "g", time.Second, PromServer{URL: server.URL}, func() int64 { return f.now })
	testkit.Must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return f, p
}

// NaN and the infinities are samples like others: what shows them is scraped, and no series is stale for it.
func TestPromQLTellsEveryNumber(t *testing.T) {
	f, p := startFake(t)
	for _, c := range []struct {
		text string
		want float64
	}{{"NaN", math.NaN()}, {"+Inf", math.Inf(1)}, {"-Inf", math.Inf(-1)}, {"-1", -1}} {
		for i := range 5 {
			f.now += 1e9
			f.scrape("a", c.text)
			got := promLook(t, p, false)
			if i > 0 && len(got) > 0 || i == 0 && (len(got) != 1 || got[0].Sample == nil || !got[0].Sample.Same(history.Sample{Target: `{instance="a"}`,
				Values: []history.Value{{Labels: map[string]string{"instance": "a"}, Value: history.Number(c.want)}}})) {
				t.Errorf("%s, look %d: %+v", c.text, i, got)
			}
		}
	}
	f.scrape("b", "one")
	if _, err := p.Look(t.Context(), false); err == nil || !strings.Contains(err.Error(), `a value is no number: "one"`) {
		t.Errorf("a value that is no number: %v", err)
	}
}

// A stretch without a whole answer is a gap with what the server said. Its samples are told, nothing is gone because it is not among them,
// and the next whole answer is asked for all that came meanwhile.
func TestPromQLTellsOfPartialAnswers(t *testing.T) {
	for _, c := range []struct {
		extra map[string]any
		says  string
	}{
		{map[string]any{"warnings": []string{"store sg-2 is away", "and sg-3"}}, "store sg-2 is away; and sg-3"},
		{map[string]any{"isPartial": true}, "isPartial"},
		{map[string]any{"infos": []string{"it might be no counter"}, "isPartial": false}, ""},
	} {
		f, p := startFake(t)
		turn := func(final bool, names ...string) []history.Event {
			f.now += 1e9
			for _, name := range names {
				f.scrape(name, "1")
			}
			return promLook(t, p, final)
		}
		turn(false, "a", "b")
		whole := f.now
		hidden := f.series["b"]
		delete(f.series, "b")
		f.extra = c.extra
		var got []history.Event
		for range 6 {
			got = append(got, turn(false, "a")...)
			hidden = append(hidden, [2]any{float64(f.now) / 1e9, "9"})
		}
		if c.says == "" {
			if len(got) != 1 || got[0].Sample.Gone != history.GoneStale || !strings.Contains(got[0].Sample.Target, `"b"`) {
				t.Errorf("%v: %+v, want that b is gone", c.extra, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Sample == nil || got[0].Sample.Partial != c.says || !strings.Contains(got[0].Sample.Target, `"a"`) {
			t.Errorf("%v: %+v, want one sample of a that says %q", c.extra, got, c.says)
		}
		f.extra, f.series["b"] = nil, hidden
		var gap *history.Event
		value := history.Number(0)
		for _, e := range turn(false, "a", "b") {
			if e.Kind == history.GapKind {
				gap = &e
			} else if strings.Contains(e.Sample.Target, `"b"`) {
				value = max(value, e.Sample.Values[0].Value)
			}
		}
		if gap == nil || gap.Coverage.Why != c.says || !gap.Coverage.Partial || gap.From != whole || gap.To != f.now || gap.Coverage.Probe != "metric:g" {
			t.Errorf("%v: the gap is %+v", c.extra, gap)
		}
		if value != 9 {
			t.Errorf("%v: what b had meanwhile was lost: %v", c.extra, value)
		}
		f.extra = c.extra
		turn(false, "a")
		f.alive = []string{"a", "b"} // the last look waits for a scrape
		if last := turn(true); !slices.ContainsFunc(last, func(e history.Event) bool { return e.Kind == history.GapKind }) {
			t.Errorf("%v: nothing tells that the last answers were partial: %+v", c.extra, last)
		}
	}
}

// A partial answer about alerts shows no silence, and a condition's query with one has no answer.
func TestPartialAnswersShowNoAbsence(t *testing.T) {
	f, _ := startFake(t)
	f.extra = map[string]any{"warnings": []string{"store sg-2 is away"}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	if v, err := Instant(t.Context(), "time()", PromServer{URL: server.URL}); err == nil || !strings.Contains(err.Error(), "not whole: store sg-2 is away") {
		t.Errorf("%v, %v", v, err)
	}
	p, err := NewAlerts([]string{"Lock"}, func(string) bool { return false }, false, PromServer{URL: server.URL}, func() int64 { return f.now })
	testkit.Must(t, err)
	defer p.Close()
	if _, err := p.Look(t.Context(), false); err == nil || !strings.Contains(err.Error(), "not whole: store sg-2 is away") {
		t.Errorf("alerts: %v", err)
	}
}

// The clock of a VictoriaMetrics is its now(): its time() is of half a minute ago, and its stamps are whole seconds.
func TestTheClockOfAVictoriaMetrics(t *testing.T) {
	f := &fakeProm{now: 1_700_000_000_400_000_000, victoria: true}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	s, err := newPromServer(PromServer{URL: server.URL}, func() int64 { return 7 })
	testkit.Must(t, err)
	if c, err := s.now(t.Context()); err != nil || c.said != f.now {
		t.Errorf("it is %d: %v", c.said, err)
	}
}
