package probes

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/promtest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// manager is an Alertmanager, and a probe that asks it for three alerts.
type manager struct {
	*promtest.Server
	probe *Alerts
}

func newManager(t *testing.T) *manager {
	m := &manager{Server: promtest.Alertmanager(t, `[{source_matchers: [alertname="Loud"], target_matchers: [alertname="Quiet"]}]`)}
	var err error
	m.probe, err = NewAlerts([]string{"Loud", "Quiet", "Hushed"}, func(string) bool { return false }, true, PromServer{URL: m.URL}, monotime.Now)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = m.probe.Close() })
	return m
}

func (m *manager) post(t *testing.T, path string, body any) {
	t.Helper()
	data, err := json.Marshal(body)
	testkit.Must(t, err)
	res, err := http.Post(m.URL+path, "application/json", bytes.NewReader(data))
	testkit.Must(t, err)
	if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
}

// send sends an alert as a Prometheus does: it is over at an instant unless it is sent again.
func (m *manager) send(t *testing.T, name string, end time.Time) {
	t.Helper()
	m.post(t, "/api/v2/alerts", []map[string]any{{
		"labels": map[string]string{"alertname": name, "namespace": "job"}, "startsAt": end.Add(-time.Hour), "endsAt": end,
	}})
}

// firing makes one look: the names of the alerts that fire.
func (m *manager) firing(t *testing.T) string {
	t.Helper()
	report, err := m.probe.Look(t.Context(), true)
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, e := range report(history.Span{}) {
		if s := e.Sample; len(s.Values) == 1 && s.Values[0].Labels["namespace"] == "job" {
			names = append(names, s.Target)
		} else if len(s.Values) > 0 {
			t.Errorf("%+v", s)
		}
	}
	return strings.Join(names, " ")
}

func (m *manager) want(t *testing.T, firing string) {
	t.Helper()
	got := ""
	end := time.Now().Add(20 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); time.Now().Before(end); <-tick.C {
		if got = m.firing(t); got == firing || strings.Contains(got, "any more") && firing == "unknown" {
			return
		}
	}
	t.Fatalf("firing: %q, want %q", got, firing)
}

func TestAnAlertmanagerShowsWhatFiresAlsoWhereNobodyIsTold(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	later := time.Now().Add(time.Hour)
	m.want(t, "")
	m.post(t, "/api/v2/silences", map[string]any{"matchers": []map[string]any{{"name": "alertname", "value": "Hushed", "isRegex": false}},
		"startsAt": time.Now(), "endsAt": later, "createdBy": "test", "comment": "a game day"})
	for _, name := range []string{"Loud", "Quiet", "Hushed", "Foreign"} {
		m.send(t, name, later)
	}
	m.want(t, "Hushed Loud Quiet")
	m.send(t, "Loud", time.Now())
	m.send(t, "Hushed", time.Now())
	m.want(t, "Quiet")
}

func TestAnAlertThatNobodyEndedIsNotOver(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	m.send(t, "Loud", time.Now().Add(2*time.Second)) // and its sender is gone
	m.want(t, "Loud")
	m.want(t, "unknown")
	m.send(t, "Loud", time.Now().Add(time.Hour))
	m.want(t, "Loud")
	m.Stop()
	if got := m.firing(t); !strings.Contains(got, "refused") {
		t.Errorf("an Alertmanager that is away: %q", got)
	}
	m.Server = m.Again()
	m.Ready(t)
	m.want(t, "unknown") // it has forgotten
	m.send(t, "Loud", time.Now().Add(time.Hour))
	m.want(t, "Loud")
	m.want(t, "Loud") // and the look that told of the new beginning is over
	m.send(t, "Loud", time.Now())
	m.want(t, "")
}
