package probes

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// What did not grow is named as it is written in a query, without labels where none were asked for.
func TestAHistogramThatDidNotGrowIsNamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	}))
	defer server.Close()
	for want, labels := range map[string]map[string]string{
		"no histogram wait_seconds grew in the last 1h0m0s": nil, `no histogram wait_seconds{namespace="job"} grew in the last 1h0m0s`: {"namespace": "job"},
	} {
		if _, err := AskHistograms(t.Context(), PromServer{URL: server.URL}, "wait_seconds", labels, time.Hour); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
