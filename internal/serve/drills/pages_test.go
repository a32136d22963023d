//go:build full

package drills

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/browser"
	"github.com/lockdrill/lockdrill/internal/serve"
)

// Who may do what over HTTP, what pages say, and that no page of another origin changes anything.
func TestPages(t *testing.T) {
	w := newWorld(t, `
drills:
  - {name: careful, experiment: a.yaml, approval: required, cron: "0 10 * * *"}
  - {name: surprise, experiment: a.yaml, between: {from: "11:00", to: "18:00", zone: UTC}}
`, map[string]string{"a.yaml": "<b>fine</b>"})
	tokens := filepath.Join(filepath.Dir(w.o.Schedule), "tokens")
	line := func(name, roles string) string {
		return fmt.Sprintf("%s %s sha256:%x\n", name, roles, sha256.Sum256([]byte(name+"'s token")))
	}
	if err := os.WriteFile(tokens, []byte(line("alice", "read,run")+line("bob", "read,approve")), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = w.book.Close()
	s, err := serve.Open(t.Context(), serve.Options{Dir: w.o.Dir, Listen: "127.0.0.1:0", Access: serve.Access{Tokens: tokens}, Limits: serve.DefaultLimits(),
		Say: func(line string) { t.Log(line) }, Parts: []serve.Part{Part(w.o, "http://drills")}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	ask := func(who, path string, form url.Values, header ...string) (int, string) {
		t.Helper()
		method := http.MethodGet
		if form != nil {
			method = http.MethodPost
		}
		r, err := http.NewRequestWithContext(context.Background(), method, server.URL+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if form != nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		switch {
		case who != "" && strings.HasPrefix(path, "/api/"):
			r.Header.Set("Authorization", "Bearer "+who+"'s token")
		case who != "":
			r.SetBasicAuth(who, who+"'s token")
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body)
	}
	_, page := ask("", "/drills/careful", nil)
	word := regexp.MustCompile(`name="word" value="([^"]+)"`).FindStringSubmatch(page)
	hash := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(page)
	if word == nil || hash == "" || strings.Contains(page, "<script") || !strings.Contains(page, "would run a.yaml") {
		t.Fatalf("the plan's page: %.2000s", page)
	}
	run := url.Values{"hash": {hash}, "word": {word[1]}}
	for _, c := range []struct {
		name, who, path string
		form            url.Values
		header          []string
		want            int
	}{
		{"nobody", "", "/drills/careful/run", run, nil, 401},
		{"nobody, by program", "", "/api/v1/drills/careful/run", run, nil, 401},
		{"another role", "bob", "/drills/careful/run", run, nil, 403},
		{"a page of another origin", "alice", "/drills/careful/run", run, []string{"Origin", "http://evil.example"}, 403},
		{"another site, as browsers say", "alice", "/drills/careful/run", run, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"no word", "alice", "/drills/careful/run", url.Values{"hash": {hash}}, nil, 409},
		{"another plan", "alice", "/drills/careful/run", url.Values{"hash": {"sha256:0"}, "word": run["word"]}, nil, 409},
		{"no such drill", "alice", "/api/v1/drills/other/run", run, nil, 409},
		{"stop what does not run", "alice", "/api/v1/stop/x", run, nil, 409},
		{"right", "alice", "/drills/careful/run", run, nil, 303},
		{"freeze", "alice", "/freeze", url.Values{"freeze": {"true"}, "word": run["word"]}, nil, 303},
	} {
		if got, body := ask(c.who, c.path, c.form, c.header...); got != c.want {
			t.Errorf("%s: status %d, want %d: %.300s", c.name, got, c.want, body)
		}
	}
	_, page = ask("", "/drills", nil)
	id := regexp.MustCompile(`/requests/([a-z0-9]+)`).FindStringSubmatch(page)
	if id == nil || !strings.Contains(page, "FROZEN") || !strings.Contains(page, "at a random time") {
		t.Fatalf("the overview: %.3000s", page)
	}
	t.Run("in a browser", func(t *testing.T) {
		b := browser.Start(t)
		measure, err := os.ReadFile("../../../reports/testdata/geometry.js")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/", "/drills", "/drills/careful", "/drills/surprise", "/requests/" + id[1]} {
			p := b.Open(t, server.URL+path, browser.Views()[0])
			for _, fault := range p.Measured(t, string(measure)) {
				if !strings.Contains(fault, "no heading of section ") { // those of a report
					t.Errorf("%s at %s", path, fault)
				}
			}
			for _, c := range p.Complaints() {
				t.Errorf("%s: the browser complains: %s", path, c)
			}
			if dir := os.Getenv("LOCKDRILL_PICTURES"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(path, "/", "_")+".png"), p.Picture(t), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	if got, body := ask("alice", "/requests/"+id[1]+"/approve", run); got != 403 {
		t.Errorf("alice approves: %d %.200s", got, body)
	}
	if got, body := ask("bob", "/requests/"+id[1]+"/approve", run); got != 303 {
		t.Errorf("bob approves: %d %.200s", got, body)
	}
	if _, state := ask("", "/api/v1/drills", nil); !strings.Contains(state, `"approvedBy": "bob"`) || !strings.Contains(state, `"frozen": "the schedule is frozen by alice`) {
		t.Errorf("the state: %s", state)
	}
	if got, feed := ask("", "/calendar.ics", nil); got != 200 || !strings.Contains(feed, "STATUS:CANCELLED") {
		t.Errorf("the calendar: %d %.300s", got, feed)
	}
	if _, text := ask("", "/metrics", nil); !strings.Contains(text, "lockdrill_serve_frozen 1") || !strings.Contains(text, `lockdrill_serve_next_drill_timestamp_seconds{drill="surprise"}`) {
		t.Errorf("the metrics: %.500s", text)
	}
}
