package sdk

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lockdrill/lockdrill/internal/otlp"
	"github.com/lockdrill/lockdrill/reports"
)

var _ = Register()

// receiver is a collector that keeps what it gets.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	paths    []string
	headers  []http.Header
	resource map[string]string
	spans    []*traces.Span
	status   int
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.paths, r.headers = append(r.paths, q.URL.Path), append(r.headers, q.Header)
		var body io.Reader = q.Body
		if q.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(q.Body); err != nil {
				t.Error(err)
			}
		}
		data, err := io.ReadAll(body)
		var got collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(data, &got) != nil || q.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%v: no OTLP: %s, %d bytes", err, q.Header.Get("Content-Type"), len(data))
		}
		for _, of := range got.ResourceSpans {
			r.resource = texts(of.Resource.Attributes)
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func texts(all []*common.KeyValue) map[string]string {
	of := map[string]string{}
	for _, a := range all {
		of[a.Key] = a.Value.GetStringValue()
	}
	return of
}

// tree is what the receiver has of the names below a span.
func (r *receiver) below(id []byte) (names []string) {
	for _, s := range r.spans {
		if string(s.ParentSpanId) == string(id) {
			names = append(names, s.Name)
		}
	}
	return names
}

var (
	began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	said  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	root  = reports.Span{Name: "run drill", To: 60, Labels: [][2]string{{"test.suite.run.status", "failure"}, {"empty", ""}}, Wrong: "slo-failed", Below: []reports.Span{
		{Name: "phase steady", To: 10},
		{Name: "fault kill", From: 10, To: 10.5, Below: []reports.Span{
			{Name: "takeover job", From: 10.25, To: 17, Link: said, Figures: map[string]float64{"seconds.lo": 6.5}, Moments: []reports.Moment{{Name: "lease ended", At: 16}}},
			{Name: "takeover job", From: 10.25, To: 18, Link: "00-00000000000000000000000000000000-00f067aa0ba902b7-01"},
		}},
	}}
)

// A collector gets one trace: each span with its parent, its times, its words, its figures and its link.
func TestACollectorGetsOneTrace(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off") // one that somebody set for a service
	for _, endpoint := range []string{"", "/", "/v1/traces", "/base"} {
		r := newReceiver(t)
		id, err := otlp.Send(t.Context(), r.URL+endpoint, "1.2.3", began, root)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{"/base": "/base/v1/traces"}[endpoint]; len(r.paths) != 1 || r.paths[0] != want && r.paths[0] != "/v1/traces" || r.headers[0].Get("Authorization") != "Bearer secret" {
			t.Errorf("%s: asked for %v with %v", endpoint, r.paths, r.headers)
		}
		if r.resource["service.name"] != "lockdrill" || r.resource["service.version"] != "1.2.3" || r.resource["deployment.environment.name"] != "staging" {
			t.Errorf("from %v", r.resource)
		}
		by := map[string]*traces.Span{}
		for _, s := range r.spans {
			if by[s.Name] = s; hex.EncodeToString(s.TraceId) != id {
				t.Errorf("%s is of trace %x, and the answer was %s", s.Name, s.TraceId, id)
			}
		}
		run, took := by["run drill"], by["fault kill"]
		if len(r.spans) != 5 || len(run.ParentSpanId) != 0 || strings.Join(r.below(run.SpanId), ",") != "phase steady,fault kill" || strings.Join(r.below(took.SpanId), ",") != "takeover job,takeover job" {
			t.Fatalf("%d spans; below the run %v, below the fault %v", len(r.spans), r.below(run.SpanId), r.below(took.SpanId))
		}
		if got := texts(run.Attributes); len(got) != 1 || got["test.suite.run.status"] != "failure" || run.Status.Code != traces.Status_STATUS_CODE_ERROR || run.Status.Message != "slo-failed" {
			t.Errorf("run: %v, %v", got, run.Status)
		}
		for _, s := range r.spans {
			if s.Name != "takeover job" {
				continue
			}
			from, to := time.Unix(0, int64(s.StartTimeUnixNano)).Sub(began), time.Unix(0, int64(s.EndTimeUnixNano)).Sub(began)
			if linked := to == 17*time.Second; from != 10250*time.Millisecond || linked != (len(s.Links) == 1) || linked && (hex.EncodeToString(s.Links[0].TraceId) != said[3:35] || hex.EncodeToString(s.Links[0].SpanId) != said[36:52]) {
				t.Errorf("takeover from %v to %v with links %v", from, to, s.Links)
			} else if linked && (s.Attributes[0].Value.GetDoubleValue() != 6.5 || s.Events[0].Name != "lease ended" || time.Unix(0, int64(s.Events[0].TimeUnixNano)).Sub(began) != 16*time.Second) {
				t.Errorf("takeover with %v and %v", s.Attributes, s.Events)
			}
		}
	}
}

// More spans than fit into a request go in several.
func TestManySpansGoInSeveralRequests(t *testing.T) {
	r := newReceiver(t)
	many := reports.Span{Name: "run", Below: make([]reports.Span, 2*mostAtOnce)}
	if _, err := otlp.Send(t.Context(), r.URL, "", began, many); err != nil || len(r.paths) != 3 || len(r.spans) != 2*mostAtOnce+1 {
		t.Errorf("%v: %d requests with %d spans", err, len(r.paths), len(r.spans))
	}
}

// The standard variables say where traces go, as they do for any program.
func TestTheStandardVariablesAreHeeded(t *testing.T) {
	r := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL+"/any")
	if !otlp.Wanted("") {
		t.Error("the variable is not heeded")
	}
	if _, err := otlp.Send(t.Context(), "", "", began, root); err != nil || r.paths[0] != "/any/v1/traces" {
		t.Errorf("%v: asked for %v", err, r.paths)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if _, err := otlp.Send(t.Context(), "", "", began, root); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc") {
		t.Errorf("a protocol that is not spoken: %v", err)
	}
	for _, off := range [][2]string{{"OTEL_SDK_DISABLED", "true"}, {"OTEL_TRACES_EXPORTER", "none"}} {
		t.Run(off[0], func(t *testing.T) {
			t.Setenv(off[0], off[1])
			if otlp.Wanted("") || !otlp.Wanted(r.URL) {
				t.Errorf("wanted %v, by an address %v", otlp.Wanted(""), otlp.Wanted(r.URL))
			}
		})
	}
}

// A collector that refuses, or is not there, is an error at once; nobody asks it again.
func TestACollectorThatIsNotThereIsAskedOnce(t *testing.T) {
	r := newReceiver(t)
	r.status = http.StatusServiceUnavailable
	if _, err := otlp.Send(t.Context(), r.URL, "", began, root); err == nil || len(r.paths) != 1 {
		t.Errorf("%v after %d requests", err, len(r.paths))
	}
	r.Close()
	if _, err := otlp.Send(t.Context(), r.URL, "", began, root); err == nil || !strings.HasPrefix(err.Error(), r.URL+"/v1/traces cannot be reached: ") {
		t.Errorf("nobody listens: %v", err)
	}
}

// A collector that hangs costs no more than the time that there is.
func TestACollectorThatHangsIsLeft(t *testing.T) {
	over := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer hangs.Close()
	defer close(over)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := otlp.Send(ctx, hangs.URL, "", began, root); err == nil || !strings.Contains(err.Error(), "/v1/traces did not answer within ") {
		t.Errorf("%v", err)
	}
}

func TestAddressesAreRefused(t *testing.T) {
	for _, bad := range []string{"collector:4318", "http://", "grpc://collector:4317", "http://user:secret@collector:4318"} {
		if err := otlp.Check(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
