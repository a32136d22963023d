// Package testkit has what the tests of several packages need: files, waiting, the folder of a run, and what a killed run leaves. No product
// code may lean on it.
package testkit

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Write writes a file that others may not read.
func Write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Read is what a file holds.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Until polls for a minute.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	const within = time.Minute
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, within)
		}
	}
}

// Run is the experiment of a run's folder, and its history.
func Run(t testing.TB, dir string) (*experiments.Experiment, *history.History) {
	t.Helper()
	e, err := experiments.Load(filepath.Join(dir, "experiment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := history.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return e, h
}

// Kubeconfig writes dir/kubeconfig for the API server at url, with the contexts "test", whose namespace is locks, and "other".
func Kubeconfig(t testing.TB, dir, url string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "kubeconfig")
	Write(t, path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: test, context: {cluster: c, user: u, namespace: locks}}, {name: other, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t0p-secret}}]
current-context: test
`, url))
	return path
}

// FreePort is a port of this host on which nobody listens now.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
