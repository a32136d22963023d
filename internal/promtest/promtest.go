// Package promtest starts a real Prometheus server or Alertmanager for a test, on a free loopback port and in a folder of the test's own, and ends it
// with the test. It is for tests only.
//
// Its one invariant: a test that needs one and finds none says so loudly where a person tests, and fails in continuous
// integration (CI=true); it never passes without one.
package promtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/internal/servertest"
)

// Server is a Prometheus, or an Alertmanager.
type Server struct {
	URL  string
	stop func()
	run  func() *Server
}

// Stop ends the server at once.
func (s *Server) Stop() { s.stop() }

// Again starts a server that was stopped, at the same address and without what it knew.
func (s *Server) Again() *Server { return s.run() }

// Start starts a Prometheus that scrapes its targets, host:port, every second, and returns when it has scraped each of them.
func Start(t testing.TB, targets ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: sched\n  static_configs: [{targets: ['%s']}]\n", strings.Join(targets, "', '"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Prometheus(t, dir)
	await(t, fmt.Sprintf("scrapes of %d targets", len(targets)), func() bool { return s.up() >= len(targets) })
	return s
}

// Prometheus starts one on the configuration prometheus.yml of a folder.
func Prometheus(t testing.TB, dir string) *Server {
	t.Helper()
	return start(t, "prometheus", func(addr string) []string {
		return []string{"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + addr, "--enable-feature=native-histograms", "--log.level=error"}
	})
}

// Alertmanager starts one that tells nobody, and returns when it answers. inhibit are its rules of inhibition, in YAML.
func Alertmanager(t testing.TB, inhibit string) *Server {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "alertmanager.yml"), []byte("route: {receiver: nobody}\nreceivers: [{name: nobody}]\ninhibit_rules: "+inhibit+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, "prometheus-alertmanager", func(addr string) []string {
		return []string{"--config.file=" + filepath.Join(dir, "alertmanager.yml"), "--storage.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + addr, "--cluster.listen-address=", "--log.level=error"}
	})
	s.Ready(t)
	return s
}

// Ready returns when the server answers.
func (s *Server) Ready(t testing.TB) {
	t.Helper()
	await(t, "an answer of "+s.URL, func() bool { return servertest.Serves(t.Context(), s.URL+"/-/ready") == nil })
}

// start runs a program at a free address until the test ends.
func start(t testing.TB, name string, args func(addr string) []string) *Server {
	t.Helper()
	program := servertest.Program(t, name, "make deps")
	addr, err := servertest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	var run func() *Server
	run = func() *Server {
		p, err := servertest.Start(exec.Command(program, args(addr)...))
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{URL: "http://" + addr, run: run, stop: p.Kill}
		t.Cleanup(s.stop)
		return s
	}
	return run()
}

func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for range poll.Every(ctx, 50*time.Millisecond) {
		if so() {
			return
		}
	}
	t.Fatalf("%s did not come", what)
}

// up is how many targets the last scrapes have reached.
func (s *Server) up() int {
	res, err := http.Get(s.URL + "/api/v1/query?query=up%3D%3D1")
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	var answer struct{ Data struct{ Result []any } }
	if json.NewDecoder(res.Body).Decode(&answer) != nil {
		return 0
	}
	return len(answer.Data.Result)
}
