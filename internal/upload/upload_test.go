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

	"github.com/lockdrill/lockdrill/internal/testkit"
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

func runsOf(t *testing.T, names ...string) string {
	t.Helper()
	runs := t.TempDir()
	for _, name := range names {
		testkit.Must(t, os.Mkdir(filepath.Join(runs, name), 0o755))
		for _, part := range append(parts, "report.html") {
			testkit.Must(t, os.WriteFile(filepath.Join(runs, name, part), []byte(name), 0o644))
		}
	}
	return runs
}

func TestARunIsBroughtAndTriedAgain(t *testing.T) {
	s := &server{codes: []int{500, 507, 401}}
	at := httptest.NewServer(s)
	defer at.Close()
	var waited []time.Duration
	to := Target{URL: at.URL, Token: "secret", Wait: func(d time.Duration) { waited = append(waited, d) }}
	answer, err := to.Bring(t.Context(), runsOf(t, "a"), Run{"id-of-a", "a"}, parts)
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
	if _, err := to.Bring(t.Context(), runsOf(t, "a"), Run{"a", "a"}, parts); !errors.Is(err, ErrNever) || !strings.Contains(err.Error(), "because") {
		t.Errorf("it says %v", err)
	}
}

// A redirect would take the token to another server.
func TestARedirectIsNotFollowed(t *testing.T) {
	s := &server{codes: []int{307, 307, 307, 307}}
	at := httptest.NewServer(s)
	defer at.Close()
	to := Target{URL: at.URL, Wait: func(time.Duration) {}}
	if _, err := to.Bring(t.Context(), runsOf(t, "a"), Run{"a", "a"}, parts); err == nil || len(s.took) > 0 {
		t.Errorf("%v, took %q", err, s.took)
	}
}

func TestWhatWaitsIsBroughtWithTheNext(t *testing.T) {
	runs := runsOf(t, "a", "b", "c")
	s := &server{}
	at := httptest.NewServer(s)
	defer at.Close()
	to := Target{URL: at.URL}
	for _, r := range []Run{{"a", "a"}, {"a", "a"}, {"gone", "gone"}, {"b", "b"}} {
		testkit.Must(t, Note(runs, r, at.URL))
	}
	testkit.Must(t, Note(runs, Run{"c", "c"}, "http://other.example"))
	f, err := os.OpenFile(filepath.Join(runs, Queue), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"id":"x","folder":"../../x","url":"` + at.URL + "\"}\n{\"id\":")
		err = errors.Join(err, f.Close())
	}
	testkit.Must(t, err)
	var said []string
	say := func(line string) { said = append(said, line) }
	s.codes = []int{201, 503} // away for b
	if err := to.Left(t.Context(), runs, parts, say); err == nil {
		t.Error("nobody says that the server was away")
	}
	if err := to.Left(t.Context(), runs, parts, say); err != nil {
		t.Error(err)
	}
	if len(s.took) != 2 || len(said) != 3 {
		t.Errorf("it took %q and said %q", s.took, said)
	}
	left, err := os.ReadFile(filepath.Join(runs, Queue))
	if err != nil || !strings.Contains(string(left), "other.example") || strings.Contains(string(left), at.URL) {
		t.Errorf("there waits %s, %v", left, err)
	}
}

func TestAddressesThatNoServerHas(t *testing.T) {
	for _, url := range []string{"", "drills.example:8420", "ftp://x", "http://", "http://user:secret@x"} {
		if err := (&Target{URL: url}).Check(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
