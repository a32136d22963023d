package serve

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/runs"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// site is a server in this process.
type site struct {
	*Server
	url    string
	tokens map[Role]string
	stop   func() // and waits
}

// start serves a folder until the test ends. Reading of runs is what the tests need of it: a history's header, its last line, and a verdict in
// the experiment's file.
func start(t testing.TB, dir string, change func(*Options)) *site {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	site := &site{tokens: map[Role]string{}}
	for _, role := range Roles() {
		secret, err := AddToken(path, "who-may-"+string(role), []string{string(role)})
		testkit.Must(t, err)
		site.tokens[role] = secret
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	o := Options{Dir: dir, Listen: l.Addr().String(), Access: Access{Tokens: path}, Limits: Limits{Upload: 1 << 20, Disk: 8 << 20, Within: time.Minute}, Reader: plainReader(), Say: func(line string) { t.Log(line) }}
	if change != nil {
		change(&o)
	}
	if site.Server, err = Open(o); err != nil {
		t.Fatal(errors.Join(err, l.Close()))
	}
	site.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(site.Run(ctx, l), site.Close()) }()
	stopped := false
	site.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(site.stop)
	<-site.looked
	return site
}

func plainReader() Reader {
	return Reader{
		Reader: runs.Reader{Experiment: "experiment.yaml", History: "history.jsonl", Tool: "test", Observe: func(_ context.Context, dir string) (*compare.Observed, error) {
			h, err := runs.Header(filepath.Join(dir, "history.jsonl"))
			if err != nil {
				return nil, err
			}
			said, err := os.ReadFile(filepath.Join(dir, "experiment.yaml"))
			data, err2 := os.ReadFile(filepath.Join(dir, "history.jsonl"))
			seen := &compare.Observed{Bytes: fmt.Sprintf("%x", data), Experiment: h.Experiment, Labels: h.Labels,
				Run: compare.ComparedRun{ID: h.Run, Started: h.Started, Verdict: strings.TrimSpace(string(said))}}
			if seen.Run.Verdict == "slo-failed" {
				seen.Rows = []compare.Row{{Sample: verdict.Sample{Question: &experiments.Limit{Lock: "job", Measure: "stranded"}}, Verdict: verdict.Fail, Why: "one was left"}}
			}
			return seen, errors.Join(err, err2)
		}},
		Page: func(_ context.Context, dir string) (*doc.Document, error) {
			return &doc.Document{Title: "made anew of " + filepath.Base(dir)}, nil
		},
		Report: func(context.Context, io.Writer, string, string) error { return ErrFormat },
	}
}

// files are those of a run.
func files(t testing.TB, id, says string, started time.Time) map[string]string {
	t.Helper()
	header, err := json.Marshal(history.Header{Schema: history.SchemaVersion, Tool: "lockdrill test", Run: id, Experiment: "nightly", Digest: "sha256:00", Seed: 1, Mode: history.Live, TimeScale: 1, Started: started.UTC().Format(time.RFC3339Nano)})
	testkit.Must(t, err)
	return map[string]string{"experiment.yaml": says + "\n", "history.jsonl": string(header) + "\n" + `{"n":1,"kind":"run.end"}` + "\n"}
}

func tarOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		testkit.Must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644}))
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, w.Close())
	return b.Bytes()
}

// ask sends a request and gives status and body.
func (s *site) ask(t testing.TB, method, path string, role Role, body io.Reader, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, body)
	testkit.Must(t, err)
	if role != Anybody {
		r.Header.Set("Authorization", "Bearer "+s.tokens[role])
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	testkit.Must(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	testkit.Must(t, err)
	return answer.StatusCode, string(data)
}

// put uploads a run.
func (s *site) put(t *testing.T, id string, files map[string]string) (int, string) {
	t.Helper()
	return s.ask(t, "PUT", "/api/v1/runs/"+id, Upload, bytes.NewReader(tarOf(t, files)))
}

// until waits for what the server has to notice.
func (s *site) gateSays(t *testing.T, query string) (code int, doc gateDoc) {
	t.Helper()
	code, body := s.ask(t, "GET", "/api/v1/gate?experiment=nightly"+query, Anybody, nil)
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return code, doc
}

// entries are the names in the folder that are no files of the index.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	testkit.Must(t, err)
	for _, e := range all {
		if name := e.Name(); !strings.HasPrefix(name, runs.File) && name != ".lockdrill-serve.lock" {
			names = append(names, name)
		}
	}
	return names
}

// A parameter that the gate does not know would let other runs answer for those that are meant.
func TestTheGateKnowsItsParameters(t *testing.T) {
	s := start(t, t.TempDir(), nil)
	if code, body := s.put(t, "one", files(t, "one", "pass", time.Now())); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	testkit.Until(t, "the gate to pass", func() bool { code, _ := s.gateSays(t, "&max_age=24h"); return code == http.StatusOK })
	for query, says := range map[string]string{
		"&lable=release=2": `unknown parameter "lable": there are experiment, label, max_age`, "&max-age=1ns": "unknown parameter", "&before=2020": "unknown parameter",
		"&experiment=other": "experiment is given twice", "&max_age=1h&max_age=2h": "max_age is given twice", "&label=a=1;max_age=1h": "cannot be read", "&max_age=%zz": "cannot be read",
	} {
		code, body := s.ask(t, "GET", "/api/v1/gate?experiment=nightly"+query, Anybody, nil)
		var said struct{ Error string }
		if json.Unmarshal([]byte(body), &said); code != http.StatusBadRequest || !strings.Contains(said.Error, says) {
			t.Errorf("%s: %d %s, want %s", query, code, body, says)
		}
	}
}

func TestAnUploadedRunAnswersTheGate(t *testing.T) {
	s := start(t, t.TempDir(), nil)
	if code, doc := s.gateSays(t, ""); code != http.StatusPreconditionFailed || doc.Exit != verdict.ExitInconclusive {
		t.Errorf("without a run the gate says %d %+v", code, doc)
	}
	now := time.Now()
	if code, body := s.put(t, "one", files(t, "one", "pass", now.Add(-48*time.Hour))); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	testkit.Until(t, "the gate to pass", func() bool { code, _ := s.gateSays(t, ""); return code == http.StatusOK })
	if code, doc := s.gateSays(t, "&max_age=24h"); code != http.StatusPreconditionFailed || !strings.Contains(doc.Why, "max_age") {
		t.Errorf("of an old run the gate says %d %+v", code, doc)
	}
	if code, doc := s.gateSays(t, "&label=release=2"); code != http.StatusPreconditionFailed || doc.Run != nil {
		t.Errorf("of a label that no run has the gate says %d %+v", code, doc)
	}
	if code, body := s.put(t, "two", files(t, "two", "slo-failed", now)); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	testkit.Until(t, "the later run to answer", func() bool { _, doc := s.gateSays(t, ""); return doc.Exit == verdict.ExitSLOFailed })
	if _, doc := s.gateSays(t, ""); doc.Why != "job stranded: one was left" {
		t.Errorf("why the gate stops: %q", doc.Why)
	}
	if code, body := s.ask(t, "GET", "/runs/one", Anybody, nil); code != http.StatusOK || !strings.Contains(body, "<h1><bdi>made anew of one</bdi></h1>") || !strings.Contains(body, `href="/runs/one/junit"`) {
		t.Errorf("%d %s", code, body)
	}
	for _, path := range []string{"/", "/live", "/experiments/nightly", "/api/v1/runs", "/api/v1/history", "/metrics", "/healthz", "/readyz"} {
		if code, body := s.ask(t, "GET", path, Anybody, nil); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// A later run that cannot be read, even if not of which experiment it is, is no pass; the earlier one does not answer for it.
func TestARunThatCannotBeReadClosesTheGate(t *testing.T) {
	now := time.Now()
	for name, spoil := range map[string]func(later map[string]string){
		"no verdict to be had":  func(later map[string]string) { delete(later, "experiment.yaml") },
		"no header to be read":  func(later map[string]string) { later["history.jsonl"] = "{\n" },
		"nothing in the header": func(later map[string]string) { later["history.jsonl"] = "" },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put := func(id string, files map[string]string) {
				testkit.Must(t, os.Mkdir(filepath.Join(dir, id), 0o755))
				for name, text := range files {
					path := filepath.Join(dir, id, name)
					testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
					testkit.Must(t, os.Chtimes(path, now, now.Add(-2*runs.QuietAfter)))
				}
			}
			put("earlier", files(t, "earlier", "pass", now.Add(-time.Hour)))
			later := files(t, "later", "pass", now)
			spoil(later)
			put("later", later)
			s := start(t, dir, nil)
			code, doc := s.gateSays(t, "")
			if code != http.StatusPreconditionFailed || doc.Exit != verdict.ExitInconclusive || doc.Run == nil || doc.Run.Folder != "later" {
				t.Errorf("the gate says %d %+v", code, doc)
			}
			if code, body := s.ask(t, "GET", "/", Anybody, nil); code != http.StatusOK || !strings.Contains(body, "NOT READ") {
				t.Errorf("%d %s", code, body)
			}
		})
	}
}

// The same bytes are one run. Other bytes under an id that is there stand beside it, and neither passes.
func TestTheSameIdWithOtherBytesPassesForNobody(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, nil)
	now := time.Now()
	first := files(t, "run-1", "pass", now)
	for _, want := range []int{http.StatusCreated, http.StatusOK} {
		if code, body := s.put(t, "run-1", first); code != want {
			t.Fatalf("%d %s, want %d", code, body, want)
		}
	}
	testkit.Until(t, "the gate to pass", func() bool { code, _ := s.gateSays(t, ""); return code == http.StatusOK })
	other := files(t, "run-1", "pass", now.Add(time.Second))
	if code, body := s.put(t, "run-1", other); code != http.StatusCreated || !strings.Contains(body, `"conflict": true`) {
		t.Fatalf("%d %s", code, body)
	}
	testkit.Until(t, "the gate to close", func() bool {
		code, doc := s.gateSays(t, "")
		return code == http.StatusPreconditionFailed && strings.Contains(doc.Why, "neither passes")
	})
	if got := entries(t, dir); !slices.Equal(got, []string{"run-1", "run-1.conflict-1"}) {
		t.Errorf("the folder has %v", got)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "run-1", "history.jsonl")); err != nil || string(got) != first["history.jsonl"] {
		t.Errorf("the first one was changed: %s, %v", got, err)
	}
}

// An upload cannot leave its folder, replace a run, bring what is none, or take more of the disk than there is for it.
func TestWhatIsNoRunIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, nil)
	good := files(t, "x", "pass", time.Now())
	entry := func(headers ...*tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			testkit.Must(t, w.WriteHeader(h))
			if h.Typeflag == tar.TypeReg {
				if _, err := w.Write(make([]byte, h.Size)); err != nil {
					t.Fatal(err)
				}
			}
		}
		testkit.Must(t, w.Close())
		return b.Bytes()
	}
	file := func(name string, size int64) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
	}
	var many []*tar.Header
	for i := range mostFiles + 1 {
		many = append(many, file(fmt.Sprint("f", i), 0))
	}
	whole := tarOf(t, good)
	for _, c := range []struct {
		name, id string
		body     []byte
		code     int
	}{
		{"a path upwards", "x", entry(file("../history.jsonl", 1)), http.StatusBadRequest},
		{"an absolute path", "x", entry(file("/tmp/history.jsonl", 1)), http.StatusBadRequest},
		{"a folder in it", "x", entry(file("a/history.jsonl", 1)), http.StatusBadRequest},
		{"a link", "x", entry(&tar.Header{Typeflag: tar.TypeSymlink, Name: "history.jsonl", Linkname: "/etc/passwd"}), http.StatusBadRequest},
		{"a hard link", "x", entry(&tar.Header{Typeflag: tar.TypeLink, Name: "history.jsonl", Linkname: "../one"}), http.StatusBadRequest},
		{"a device", "x", entry(&tar.Header{Typeflag: tar.TypeFifo, Name: "history.jsonl"}), http.StatusBadRequest},
		{"a file twice", "x", entry(file("history.jsonl", 1), file("history.jsonl", 1)), http.StatusBadRequest},
		{"too much", "x", entry(file("history.jsonl", 2<<20)), http.StatusRequestEntityTooLarge},
		{"too many", "x", entry(many...), http.StatusRequestEntityTooLarge},
		{"no history", "x", entry(file("experiment.yaml", 1)), http.StatusBadRequest},
		{"a history that is none", "x", entry(file("experiment.yaml", 1), file("history.jsonl", 100)), http.StatusBadRequest},
		{"cut off", "x", whole[:len(whole)/2], http.StatusBadRequest},
		{"no tar", "x", []byte(strings.Repeat("x", 2000)), http.StatusBadRequest},
		{"a name upwards", "..%2Fx", whole, http.StatusBadRequest},
		{"a name with a dot", ".x", whole, http.StatusBadRequest},
	} {
		if code, body := s.ask(t, "PUT", "/api/v1/runs/"+c.id, Upload, bytes.NewReader(c.body)); code != c.code {
			t.Errorf("%s: %d, want %d: %s", c.name, code, c.code, body)
		}
	}
	if got := entries(t, dir); len(got) > 0 {
		t.Errorf("they left %v", got)
	}
	full := start(t, t.TempDir(), func(o *Options) { o.Limits.Disk = o.Limits.Upload })
	if code, body := full.put(t, "x", good); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	testkit.Until(t, "the index", func() bool { return full.index.Size() > 0 })
	if code, body := full.put(t, "y", files(t, "y", "pass", time.Now())); code != http.StatusInsufficientStorage {
		t.Errorf("on a full disk: %d %s", code, body)
	}
}

// What a killed server left of an upload is gone at the next start; runs are as they were, whatever became of the index.
func TestAServerThatWasKilledLeavesNoHalfRun(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, nil)
	if code, body := s.put(t, "whole", files(t, "whole", "pass", time.Now())); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	testkit.Until(t, "the index", func() bool { return s.index.Run("whole") != nil })
	s.stop()
	half := filepath.Join(dir, arriving+"1")
	testkit.Must(t, errors.Join(os.Mkdir(half, 0o700), os.WriteFile(filepath.Join(half, "history.jsonl"), []byte("{"), 0o600)))
	if err := os.Truncate(filepath.Join(dir, runs.File), 0); err != nil { // an index that was never written
		t.Fatal(err)
	}
	s = start(t, dir, nil)
	testkit.Until(t, "the gate to pass", func() bool { code, _ := s.gateSays(t, ""); return code == http.StatusOK })
	if got := entries(t, dir); !slices.Equal(got, []string{"whole"}) {
		t.Errorf("the folder has %v", got)
	}
}

func TestASecondServerOnAFolderRefuses(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, nil)
	_, err := Open(s.o)
	if !errors.Is(err, runs.ErrServed) {
		t.Errorf("the second says %v", err)
	}
}
