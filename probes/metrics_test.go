package probes

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// exposing serves what it is told to.
type exposing struct {
	*httptest.Server
	text atomic.Value
	hang atomic.Bool
}

func expose(t *testing.T, text string) *exposing {
	t.Helper()
	x := &exposing{}
	x.text.Store(text)
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if x.hang.Load() {
			<-r.Context().Done()
			return
		}
		text := x.text.Load().(string)
		if strings.HasPrefix(text, "\x1f\x8b") {
			w.Header().Set("Content-Encoding", "gzip")
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(x.Close)
	return x
}

// looks makes looks with brackets [10,20], [30,40] ...
type looks struct {
	t *testing.T
	p *Metrics
	n int64
}

func (l *looks) at(final bool) []history.Sample {
	l.t.Helper()
	events, err := l.p.Look(l.t.Context(), final)
	if err != nil {
		l.t.Fatal(err)
	}
	l.n += 20
	var samples []history.Sample
	for _, e := range events(history.Span{From: l.n - 10, To: l.n}) {
		e.N, e.At = 1, l.n
		if err := e.Check(); err != nil {
			l.t.Error(err)
		}
		samples = append(samples, *e.Sample)
	}
	return samples
}

const exposition = `# TYPE lockcore_abandoned_total counter
lockcore_abandoned_total{namespace="job",reason="count"} %d
lockcore_abandoned_total{namespace="job",reason="deadline"} 0
lockcore_abandoned_total{namespace="other",reason="count"} 9
# TYPE lockcore_held_seconds histogram
lockcore_held_seconds_bucket{le="1"} 1
lockcore_held_seconds_bucket{le="+Inf"} 3
lockcore_held_seconds_sum 4.5
lockcore_held_seconds_count 3
# TYPE lockcore_abandoned gauge
lockcore_abandoned NaN
`

func abandoned(count float64) []history.Value {
	label := func(reason string) map[string]string { return map[string]string{"namespace": "job", "reason": reason} }
	return []history.Value{{Labels: label("count"), Value: history.Number(count)}, {Labels: label("deadline")}}
}

func TestMetricsSayWhatChanged(t *testing.T) {
	x := expose(t, fmt.Sprintf(exposition, 0))
	alive := Target{Name: "r1.1", URL: x.URL}
	targets := []Target{alive, {Name: "r2.1"}}
	m := Metric{Name: "abandoned", Series: "lockcore_abandoned_total", Labels: map[string]string{"namespace": "job"}}
	p := newMetrics(t, m, func() []Target { return targets })
	t.Cleanup(func() { _ = p.Close() })
	l := &looks{t: t, p: p}
	want := func(step string, got []history.Sample, want ...history.Sample) {
		t.Helper()
		for i := range want {
			want[i].Metric = "abandoned"
		}
		if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", step, got, want)
		}
	}
	prev := func(from int64) *history.Span { return &history.Span{From: from, To: from + 10} }
	want("first", l.at(false),
		history.Sample{Target: "r1.1", Type: "counter", Values: abandoned(0)}, history.Sample{Target: "r2.1", Gone: history.GoneNoMetrics})
	want("nothing new", l.at(false))
	x.text.Store(fmt.Sprintf(exposition, 2))
	want("it counts", l.at(false), history.Sample{Target: "r1.1", Type: "counter", Values: abandoned(2), Prev: prev(30)})
	x.hang.Store(true)
	want("it hangs", l.at(false), history.Sample{Target: "r1.1", Gone: history.GoneTimeout, Why: "no answer within 1s", Prev: prev(50)})
	x.hang.Store(false)
	want("it is back", l.at(false), history.Sample{Target: "r1.1", Type: "counter", Values: abandoned(2), Prev: prev(70)})
	x.text.Store("<html>")
	want("no exposition", l.at(false), history.Sample{Target: "r1.1", Gone: history.GoneUnreadable,
		Why: `no exposition: line 1, "<html>", is no sample`, Prev: prev(90)})
	x.text.Store("other 1\n")
	want("no such series", l.at(false), history.Sample{Target: "r1.1", Prev: prev(110)})
	x.text.Store(fmt.Sprintf(exposition, 3))
	want("final", l.at(true), history.Sample{Target: "r1.1", Type: "counter", Values: abandoned(3), Prev: prev(130), Final: true},
		history.Sample{Target: "r2.1", Gone: history.GoneNoMetrics, Prev: prev(130), Final: true})
	x.Close()
	want("nobody listens", l.at(false), history.Sample{Target: "r1.1", Gone: history.GoneRefused, Why: "connect: connection refused", Prev: prev(150)})
	targets[0].Dead = true
	want("dead", l.at(false), history.Sample{Target: "r1.1", Gone: history.GoneExited, Prev: prev(170)})
	want("still dead", l.at(true), history.Sample{Target: "r2.1", Gone: history.GoneNoMetrics, Prev: prev(190), Final: true})
}

func TestMetricsReadHistograms(t *testing.T) {
	x := expose(t, fmt.Sprintf(exposition, 0))
	for series, want := range map[string]float64{"lockcore_held_seconds_sum": 4.5, "lockcore_held_seconds_count": 3} {
		p := newMetrics(t, Metric{Name: "held", Series: series}, func() []Target { return []Target{{Name: "endpoint", URL: x.URL}} })
		got := (&looks{t: t, p: p}).at(false)
		if len(got) != 1 || len(got[0].Values) != 1 || float64(got[0].Values[0].Value) != want || got[0].Type != "histogram" {
			t.Errorf("%s: %+v, want %g", series, got, want)
		}
		_ = p.Close()
	}
}

// NaN, the infinities and negative numbers are told as they are; that the series is not there is another answer, and told once.
func TestMetricsTellEveryNumber(t *testing.T) {
	x := expose(t, "")
	p := newMetrics(t, Metric{Name: "g", Series: "g"}, func() []Target { return []Target{{Name: "endpoint", URL: x.URL}} })
	t.Cleanup(func() { _ = p.Close() })
	l := &looks{t: t, p: p}
	for _, c := range []struct {
		page string
		want float64
	}{{"g NaN\n", math.NaN()}, {"# TYPE g gauge\ng +Inf\n", math.Inf(1)}, {"g -Inf\n", math.Inf(-1)}, {"g -1\n", -1}} {
		x.text.Store(c.page)
		got := l.at(false)
		want := history.Sample{Target: "endpoint", Type: "untyped", Values: []history.Value{{Labels: map[string]string{}, Value: history.Number(c.want)}}}
		if len(got) == 1 && got[0].Type == "gauge" {
			want.Type = "gauge"
		}
		if len(got) != 1 || !got[0].Same(want) {
			t.Errorf("%q: %+v, want %v", c.page, got, c.want)
		}
		if again := l.at(false); len(again) != 0 {
			t.Errorf("%q: told twice: %+v", c.page, again)
		}
	}
	for _, page := range []string{"h 1\n", ""} {
		x.text.Store(page)
		if got := l.at(false); page == "" && len(got) > 0 || page != "" && (len(got) != 1 || got[0].Gone != "" || len(got[0].Values) > 0) {
			t.Errorf("%q: %+v, want an absent series, once", page, got)
		}
	}
}

// What could not be read is told with its reason, and without what is another with each connection.
func TestMetricsTellWhyNothingWasRead(t *testing.T) {
	var status atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status.Load() == 0 {
			panic(http.ErrAbortHandler)
		}
		http.Error(w, "<html>login</html>", int(status.Load()))
	}))
	t.Cleanup(server.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	read := func(url string) history.Sample {
		p := newMetrics(t, Metric{Name: "g", Series: "g"}, func() []Target { return []Target{{Name: "endpoint", URL: url}} })
		defer p.Close()
		return (&looks{t: t, p: p}).at(false)[0]
	}
	for _, c := range []struct {
		status    int
		url       string
		gone, why string
	}{
		{401, server.URL, history.GoneUnreadable, "HTTP 401 Unauthorized"},
		{500, server.URL, history.GoneUnreadable, "HTTP 500 Internal Server Error"},
		{200, server.URL, history.GoneUnreadable, `no exposition: line 1, "<html>login</html>", is no sample`},
		{0, server.URL, history.GoneRefused, "it closed the connection"},
		{0, secure.URL, history.GoneRefused, "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{0, "http://me:hunter2@\x7f/", history.GoneUnreadable, "nothing: its address cannot be read"},
	} {
		status.Store(int64(c.status))
		if s := read(c.url); s.Gone != c.gone || s.Why != c.why || len(s.Values) > 0 {
			t.Errorf("%d of %q: %+v, want %s: %s", c.status, c.url, s, c.gone, c.why)
		}
	}
}

func TestMetricsEndWithTheirLook(t *testing.T) {
	x := expose(t, "")
	x.hang.Store(true)
	p := newMetrics(t, Metric{Name: "m", Series: "s"}, func() []Target { return []Target{{Name: "endpoint", URL: x.URL}} })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Look(ctx, false); err == nil {
		t.Error("a look whose time is up is none")
	}
	_ = p.Close()
}

// Prometheus takes more than the form's description says, and what is wrong with one family is not wrong with another.
func TestAPageIsReadAsPrometheusReadsIt(t *testing.T) {
	const ours = "# HELP c ours\n# TYPE c gauge\nc{a=\"1\"} 7\n"
	for _, c := range []struct {
		name, text string
		want       string // the values, or what is wrong
	}{
		{"as it should be", ours, "7"},
		{"no end of the last line", "# TYPE c gauge\nc 7", "7"},
		{"TYPE and HELP again", ours + "# HELP c ours\n# TYPE c gauge\nc{a=\"2\"} 8\n", "7 8"},
		{"TYPE after a sample", "c 7\n# TYPE c gauge\n", "7"},
		{"a family in two pieces", ours + "other 1\nc{a=\"2\"} 8\n", "7 8"},
		{"a series twice", ours + "c{a=\"1\"} 9\n", "7"},
		{"blanks, tabs, CR", "# TYPE c gauge\r\n  c\t7\t\r\n", "7"},
		{"a stamp of now", fmt.Sprintf("c 7 %d\n", time.Now().UnixMilli()), "7"},
		{"a stamp of now in OpenMetrics", fmt.Sprintf("# TYPE c gauge\nc 7 %d.5\n# EOF\n", time.Now().Unix()), "7"},
		{"a stamp of long ago", "c 7 1700000000000\n", "a sample of c whose stamp is 2023-11-14T22:13:20Z: it is not of now"},
		{"a stamp of long ago in OpenMetrics", "# TYPE c gauge\nc 7 1700000000\n# EOF\n", "a sample of c whose stamp is 2023-11-14T22:13:20Z: it is not of now"},
		{"a stamp of the far future", "c 7 4102444800000\n", "a sample of c whose stamp is 2100-01-01T00:00:00Z: it is not of now"},
		{"another's stamp", ours + "other 7 1700000000000\n", "7"},
		{"another's bad value", ours + "other abc\n", "7"},
		{"another's bad label", "other{a=\"\\x\"} 1\n" + ours, "7"},
		{"another's type twice", "# TYPE other gauge\n# TYPE other counter\nother 1\n" + ours, "7"},
		{"another that is called nearly so", "# TYPE c_total counter\nc_total 1\n" + ours + "cc 3\n", "7"},
		{"OpenMetrics", "# TYPE c gauge\nc 7 # {x=\"y\"} 1\n# EOF\n", "7"},
		{"a bad value", "# TYPE c gauge\n\nc 1\nc{a=\"2\"} abc\n", `no exposition: line 4, "c{a=\"2\"} abc": expected float as value, got "abc"`},
		{"a bad label", "c{a=} 1\n", `no exposition: line 1, "c{a=} 1": expected '"' at start of label value, found '}'`},
		{"absent", "other 1\n", ""},
		{"absent, beside tabs", "other\t1\t1700000000000\n", ""},
		{"absent, and something is no sample", "other 1\nother abc\n", `no exposition: line 2, "other abc", is no sample`},
		{"JSON", `{"status":"success"}`, `no exposition: line 1, "{\"status\":\"success\"}", is no sample`},
		{"a word", "OK\n", `no exposition: line 1, "OK", is no sample`},
		{"too many series", manySeries(maxSeries + 1), "1001 series that match, at most 1000 are read: say labels"},
		{"nothing", "", ""},
		{"compressed, unasked", compressed(ours), "7"},
		{"half of what was compressed", compressed(ours)[:20], "it closed the connection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := expose(t, c.text)
			p := newMetrics(t, Metric{Name: "c", Series: "c"}, func() []Target { return []Target{{Name: "endpoint", URL: x.URL}} })
			t.Cleanup(func() { _ = p.Close() })
			s := (&looks{t: t, p: p}).at(false)[0]
			got := s.Why
			for i, v := range s.Values {
				got += map[bool]string{true: " "}[i > 0] + fmt.Sprint(float64(v.Value))
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func compressed(page string) string {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(page))
	_ = w.Close()
	return b.String()
}

func manySeries(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "c{n=\"%d\"} 1\n", i)
	}
	return b.String()
}

func newMetrics(t *testing.T, m Metric, targets func() []Target) *Metrics {
	t.Helper()
	p, err := NewMetrics(m, targets)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Who asks says so, to the one who is asked and to nobody to whom that one sends him; whom he asks, he knows by the authority.
func TestASecuredExpositionIsRead(t *testing.T) {
	secured := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if len(r.TLS.PeerCertificates) == 0 && r.Header.Get("Authorization") != "Bearer t0k" && (user != "u" || password != "p") && r.Header.Get("X-Scope-OrgID") != "team" {
			http.Error(w, "who asks?", http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "c 3\n")
	}))
	secured.Config.ErrorLog = log.New(io.Discard, "", 0)
	secured.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	secured.StartTLS()
	t.Cleanup(secured.Close)
	secret, err := x509.MarshalPKCS8PrivateKey(secured.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, key := file("ca.pem", "CERTIFICATE", secured.Certificate().Raw), file("key.pem", "PRIVATE KEY", secret)
	for _, c := range []struct {
		by   Asker
		want string // "" = it is read
	}{
		{Asker{CA: ca, Bearer: "t0k"}, ""},
		{Asker{CA: ca, User: "u", Password: "p"}, ""},
		{Asker{CA: ca, Headers: map[string]string{"X-Scope-OrgID": "team"}}, ""},
		{Asker{CA: ca, Cert: ca, Key: key}, ""},
		{Asker{CA: ca, Bearer: "other"}, "HTTP 401 Unauthorized"},
		{Asker{CA: ca}, "HTTP 401 Unauthorized"},
		{Asker{Bearer: "t0k"}, "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
	} {
		p := newMetrics(t, Metric{Name: "c", Series: "c", Asker: c.by}, func() []Target { return []Target{{Name: "endpoint", URL: secured.URL}} })
		t.Cleanup(func() { _ = p.Close() })
		s := (&looks{t: t, p: p}).at(false)[0]
		if s.Why != c.want || c.want == "" && len(s.Values) != 1 {
			t.Errorf("%+v: %+v, want %q", c.by, s, c.want)
		}
	}
	for _, by := range []Asker{{CA: "no-such.pem"}, {Cert: ca, Key: ca}, {Cert: ca}} {
		if _, err := NewMetrics(Metric{Asker: by}, nil); err == nil {
			t.Errorf("%+v: files that are not there, or no such thing, and no error", by)
		}
	}
}

// The last bucket of a histogram may be told by its count alone.
func TestTheLastBucketOfAHistogram(t *testing.T) {
	x := expose(t, "# TYPE h histogram\nh_bucket{le=\"1\"} 3\nh_sum 9\nh_count 5\n")
	p := newMetrics(t, Metric{Name: "h", Series: "h_bucket", Labels: map[string]string{"le": "+Inf"}}, func() []Target { return []Target{{Name: "endpoint", URL: x.URL}} })
	t.Cleanup(func() { _ = p.Close() })
	if s := (&looks{t: t, p: p}).at(false)[0]; len(s.Values) != 1 || s.Values[0].Value != 5 {
		t.Errorf("%+v", s)
	}
}
