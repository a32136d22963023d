package upload

import (
	"archive/tar"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var parts = []string{"experiment.yaml", "history.jsonl"}

// server notes what it was sent, and answers with the next of its codes.
type server struct {
	mu    sync.Mutex
	codes []int
	took  []string // id: files
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := http.StatusCreated
	if len(s.codes) > 0 {
		code, s.codes = s.codes[0], s.codes[1:]
	}
	if code == http.StatusTemporaryRedirect {
		w.Header().Set("Location", "/elsewhere")
	}
	if code == http.StatusCreated {
		got := r.Header.Get("Authorization") + " " + strings.TrimPrefix(r.URL.Path, "/api/v1/runs/") + ":"
		for archive := tar.NewReader(r.Body); ; {
			h, err := archive.Next()
			if err != nil {
				break
			}
			text, _ := io.ReadAll(archive) // what is missing is missed below
			got += " " + h.Name + "=" + string(text)
		}
		s.took = append(s.took, got)
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, `{"folder": "`+filepath.Base(r.URL.Path)+`", "error": "because"}`)
}

func aRun(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, part := range append(parts, "report.html") {
		if err := os.WriteFile(filepath.Join(dir, part), []byte("a"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestARunIsBroughtAndTriedAgain(t *testing.T) {
	s := &server{codes: []int{500, 507, 401}}
	at := httptest.NewServer(s)
	defer at.Close()
	var waited []time.Duration
	to := Target{URL: at.URL, Token: "secret", Wait: func(d time.Duration) { waited = append(waited, d) }}
	answer, err := to.Bring(t.Context(), aRun(t), "id-of-a", parts)
	if err != nil || answer != at.URL+"/runs/id-of-a" || !slices.Equal(waited, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}) {
		t.Errorf("%s, %v after %v", answer, err, waited)
	}
	if want := []string{"Bearer secret id-of-a: experiment.yaml=a history.jsonl=a"}; !slices.Equal(s.took, want) {
		t.Errorf("it took %q, want %q", s.took, want)
	}
}

func TestWhatTheServerNeverTakesIsNotTriedAgain(t *testing.T) {
	s := &server{codes: []int{400}}
	at := httptest.NewServer(s)
	defer at.Close()
	to := Target{URL: at.URL, Wait: func(time.Duration) { t.Error("it tries again") }}
	if _, err := to.Bring(t.Context(), aRun(t), "a", parts); !errors.Is(err, ErrNever) || !strings.Contains(err.Error(), "because") {
		t.Errorf("it says %v", err)
	}
}

// A redirect would take the token to another server.
func TestARedirectIsNotFollowed(t *testing.T) {
	s := &server{codes: []int{307, 307, 307, 307}}
	at := httptest.NewServer(s)
	defer at.Close()
	to := Target{URL: at.URL, Wait: func(time.Duration) {}}
	if _, err := to.Bring(t.Context(), aRun(t), "a", parts); err == nil || len(s.took) > 0 {
		t.Errorf("%v, took %q", err, s.took)
	}
}

func TestAddressesThatNoServerHas(t *testing.T) {
	for _, url := range []string{"", "drills.example:8420", "ftp://x", "http://", "http://user:secret@x"} {
		if err := (&Target{URL: url}).Check(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
