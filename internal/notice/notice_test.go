package notice

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// receiver is a server that notes what it was sent, and answers as it is told.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
	came   chan struct{}
}

func receive(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rec := &receiver{came: make(chan struct{}, 100)}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rec.mu.Lock()
		rec.bodies, rec.heads = append(rec.bodies, string(body)), append(rec.heads, r.Header)
		n := len(rec.bodies)
		rec.mu.Unlock()
		rec.came <- struct{}{}
		answer(n, w, r)
	}))
	t.Cleanup(rec.Close)
	return rec
}

func (r *receiver) got(t *testing.T, n int) ([]string, []http.Header) {
	t.Helper()
	for range n {
		select {
		case <-r.came:
		case <-time.After(time.Minute):
			t.Fatalf("%d requests did not come", n)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bodies, r.heads
}

type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) say(line string) { l.mu.Lock(); defer l.mu.Unlock(); l.lines = append(l.lines, line) }
func (l *log) String() string  { l.mu.Lock(); defer l.mu.Unlock(); return strings.Join(l.lines, "\n") }

func open(t *testing.T, dir string, l *log, notices ...experiments.Notice) *Queue {
	t.Helper()
	q, err := Open(dir, notices, l.say)
	if err != nil {
		t.Fatal(err)
	}
	q.Pause = func(int) time.Duration { return time.Millisecond }
	return q
}

func run(t *testing.T, q *Queue) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = q.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func empty(t *testing.T, q *Queue) { t.Helper(); left(t, q, 0) }

func left(t *testing.T, q *Queue, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		n, err := q.Waiting()
		if err == nil && n == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d still wait, want %d (%v)", n, want, err)
		}
		<-time.After(time.Millisecond)
	}
}

var event = Event{
	ID: "e1", Kind: Changed, Drill: "nightly", Experiment: "leader-kill", Run: "20261123T100000Z-nightly", Verdict: "slo-failed", Before: "pass",
	Why: "takeover <3s>", At: time.Date(2026, 11, 23, 10, 5, 0, 0, time.UTC),
	Ran:    Span{From: time.UnixMilli(1000), To: time.UnixMilli(9000)},
	Faults: []Span{{"kill-leader", time.UnixMilli(2000), time.UnixMilli(2500)}, {"cut", time.UnixMilli(4000), time.UnixMilli(6000)}},
}

func hook(url string) experiments.Notice {
	return experiments.Notice{Name: "ops", Webhook: &experiments.WebhookNotice{URL: url, SecretEnv: "NOTICE_TEST_KEY"}}
}

func TestAWebhookIsSignedAndTriedAgain(t *testing.T) {
	t.Setenv("NOTICE_TEST_KEY", "hunter2")
	rec := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= 3 {
			http.Error(w, "hunter2 is not welcome", http.StatusServiceUnavailable)
		}
	})
	var l log
	q := open(t, t.TempDir(), &l, hook(rec.URL))
	if err := q.Add(event); err != nil {
		t.Fatal(err)
	}
	if err := q.Add(Event{ID: "e2", Kind: Ended, Drill: "nightly"}); err != nil {
		t.Fatal(err)
	}
	run(t, q)
	bodies, heads := rec.got(t, 4)
	empty(t, q)
	if sent, failed := q.Told(); sent != 1 || failed != 3 || len(bodies) != 4 {
		t.Errorf("%d sent, %d failed, %d requests", sent, failed, len(bodies))
	}
	if text := l.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "try 3 failed: nightly changed: answered 503") {
		t.Errorf("the log:\n%s", text)
	}
	h := heads[3]
	if h.Get(SignatureHeader) != Sign("hunter2", h.Get(TimestampHeader), []byte(bodies[3])) || h.Get(TimestampHeader) == "" {
		t.Errorf("signed %q at %q", h.Get(SignatureHeader), h.Get(TimestampHeader))
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(bodies[3]), &got); err != nil || h.Get("Content-Type") != "application/cloudevents+json; charset=UTF-8" {
		t.Fatalf("%v, %s", err, h.Get("Content-Type"))
	}
	data, _ := got["data"].(map[string]any)
	if got["specversion"] != "1.0" || got["id"] != "e1" || got["type"] != "lockdrill.drill.changed.v1" || got["source"] != "/lockdrill" ||
		got["time"] != "2026-11-23T10:05:00Z" || data["verdict"] != "slo-failed" || data["before"] != "pass" {
		t.Errorf("the event: %s", bodies[3])
	}
}

func TestSlackAndGrafana(t *testing.T) {
	slack, grafana := receive(t, func(int, http.ResponseWriter, *http.Request) {}), receive(t, func(int, http.ResponseWriter, *http.Request) {})
	dir := t.TempDir()
	for name, text := range map[string]string{"slack": slack.URL + "/services/secret\n", "token": "glsa_x\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var l log
	q := open(t, filepath.Join(dir, "queue"), &l,
		experiments.Notice{Name: "chat", Slack: &experiments.SlackNotice{URLFile: filepath.Join(dir, "slack")}, Drills: []string{"nightly"}},
		experiments.Notice{Name: "dash", Grafana: &experiments.GrafanaNotice{URL: grafana.URL + "/", TokenFile: filepath.Join(dir, "token"), DashboardUID: "d1", Tags: []string{"staging"}}})
	green := event
	green.Kind, green.Drill = Ended, "other"
	for _, e := range []Event{event, green} {
		if err := q.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	run(t, q)
	if bodies, _ := slack.got(t, 1); bodies[0] != `{"text":"drill nightly: SLO FAILED, it was PASS: takeover \u0026lt;3s\u0026gt;"}` {
		t.Errorf("slack: %s", bodies[0])
	}
	bodies, heads := grafana.got(t, 6) // each drill, and each of its faults
	want := `{"dashboardUID":"d1","time":4000,"timeEnd":6000,"tags":["lockdrill","nightly","staging","fault","cut"],"text":"fault cut of drill nightly"}`
	if bodies[2] != want || !strings.Contains(bodies[0], `"time":1000,"timeEnd":9000`) || heads[0].Get("Authorization") != "Bearer glsa_x" {
		t.Errorf("grafana: %s", strings.Join(bodies, "\n"))
	}
	empty(t, q)
	if n := len(slack.bodies); n != 1 {
		t.Errorf("slack was told %d times: only of its drill, and not that nothing changed", n)
	}
}

// One address hangs, another works meanwhile; this process ends; the next one tells what was left, once.
func TestNothingIsLostOverARestart(t *testing.T) {
	t.Setenv("NOTICE_TEST_KEY", "k")
	free := make(chan struct{})
	slow := receive(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n == 1 {
			select {
			case <-free:
			case <-r.Context().Done():
			}
		}
	})
	defer close(free)
	fine := receive(t, func(int, http.ResponseWriter, *http.Request) {})
	dir := t.TempDir()
	var l log
	other := hook(fine.URL)
	other.Name = "fine"
	q := open(t, dir, &l, hook(slow.URL), other)
	if err := q.Add(event); err != nil {
		t.Fatal(err)
	}
	stop := run(t, q)
	slow.got(t, 1)
	fine.got(t, 1)
	left(t, q, 1) // the one that hangs
	stop()
	left(t, q, 1)
	if err := os.WriteFile(filepath.Join(dir, "00-torn.json"), []byte(`{"to": "op`), 0o600); err != nil {
		t.Fatal(err)
	}
	next := open(t, dir, &l, hook(slow.URL), other)
	run(t, next)
	bodies, _ := slow.got(t, 1)
	empty(t, next)
	if len(bodies) != 2 || bodies[0] != bodies[1] || len(fine.bodies) != 1 {
		t.Errorf("%d and %d requests", len(bodies), len(fine.bodies))
	}
}

func TestAServerThatHangsIsLeftAndGivenUp(t *testing.T) {
	t.Setenv("NOTICE_TEST_KEY", "k")
	free := make(chan struct{})
	rec := receive(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-free:
		case <-r.Context().Done():
		}
	})
	defer close(free)
	var l log
	q := open(t, t.TempDir(), &l, hook(rec.URL))
	q.Within, q.GiveUp = 5*time.Millisecond, 0
	if err := q.Add(event); err != nil {
		t.Fatal(err)
	}
	run(t, q)
	empty(t, q)
	if text := l.String(); !strings.Contains(text, "notice ops: given up after 1 tries: nightly changed") || strings.Contains(text, rec.URL) {
		t.Errorf("the log:\n%s", text)
	}
}

// An address may be a secret, as that of Slack is. What could not be sent names it in no spelling.
func TestAnAddressThatIsNotReachedIsNotSaid(t *testing.T) {
	t.Setenv("NOTICE_TEST_KEY", "k")
	for _, address := range []string{"HTTP://127.0.0.1:1/hunter2", "gopher://127.0.0.1:1/hunter2"} {
		var l log
		q := open(t, t.TempDir(), &l, hook(address))
		q.GiveUp = 0
		if err := q.Add(event); err != nil {
			t.Fatal(err)
		}
		run(t, q)
		empty(t, q)
		if text := l.String(); !strings.Contains(text, "given up") || strings.Contains(text, "hunter2") {
			t.Errorf("%s: the log:\n%s", address, text)
		}
	}
}

func TestMissingSecretsAreRefused(t *testing.T) {
	n := hook("http://127.0.0.1:1")
	if _, err := Open(t.TempDir(), []experiments.Notice{n}, func(string) {}); err == nil || !strings.Contains(err.Error(), "notice ops: the environment variable NOTICE_TEST_KEY is not set") {
		t.Errorf("%v", err)
	}
}

func TestSpans(t *testing.T) {
	f, err := os.Open("../../scenarios/testdata/" + someHistory(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ran, faults, err := Spans(f)
	if err != nil || !ran.To.After(ran.From) || len(faults) == 0 {
		t.Fatalf("%+v, %d faults, %v", ran, len(faults), err)
	}
	for _, s := range faults {
		if s.Name == "" || s.From.Before(ran.From) || s.To.After(ran.To) || s.To.Before(s.From) {
			t.Errorf("%+v is not within %+v", s, ran)
		}
	}
}

func someHistory(t *testing.T) string {
	t.Helper()
	all, err := filepath.Glob("../../scenarios/testdata/*/history.jsonl")
	for _, path := range all {
		data, readErr := os.ReadFile(path)
		if readErr == nil && strings.Contains(string(data), `"fault.confirmed"`) {
			return strings.TrimPrefix(path, "../../scenarios/testdata/")
		}
	}
	t.Fatalf("no recorded history with a fault among %d: %v", len(all), err)
	return ""
}
