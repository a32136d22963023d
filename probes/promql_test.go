package probes

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/promtest"
)

func newProm(t *testing.T, query string, o PromServer) *PromQL {
	t.Helper()
	origin := monotime.Now() - int64(time.Hour) // samples of before are not cut off
	p, err := NewPromQL("gave-up", query, time.Second, o, func() int64 { return monotime.Now() - origin })
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct {
		o    PromServer
		says string
	}{
		{PromServer{URL: server.URL}, "401"},
		{PromServer{URL: server.URL, Bearer: "hunter2"}, "302"},
		{PromServer{URL: server.URL, User: "me", Password: "hunter2"}, "gives a scalar"},
		{PromServer{URL: server.URL, User: "text"}, "none of Prometheus"},
		{PromServer{URL: gone.URL}, "refused"},
	} {
		p := newProm(t, "up", c.o)
		_, err := p.Look(t.Context(), false)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v, want %q", c.o, err, c.says)
		}
	}
	if _, err := NewPromQL("m", "up", time.Second, PromServer{CA: "no-such.pem"}, nil); err == nil {
		t.Error("a certificate that is not there, and no error")
	}
}
