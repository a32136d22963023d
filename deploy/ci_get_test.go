package deploy_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

const busybox = "busybox"

// missing skips a test for want of a program; where all are to be had, it fails.
func missing(t *testing.T, program string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: make deps installs it", program)
	}
	t.Skipf("SKIPPED, NOT TESTED: there is no %s here", program)
}

// packed is a program as an archive of a release.
func packed(t *testing.T, program string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{"lockdrill-1-linux-amd64/lockdrill": program, "lockdrill-1-linux-amd64/LICENSE": "..."} {
		testkit.Must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}))
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, w.Close())
	testkit.Must(t, z.Close())
	return b.Bytes()
}

// LOCKDRILL is all that a step needs: an address or a path, of an archive or of the program. What is wrong with it is said at once.
func TestTheStepGetsLockdrill(t *testing.T) {
	program := "#!/bin/sh\necho lockdrill one\n"
	archive := packed(t, program)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/lockdrill.tar.gz" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(archive)
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	testkit.Write(t, filepath.Join(folder, "lockdrill.tar.gz"), archive)
	testkit.Write(t, filepath.Join(folder, "program"), []byte(program))
	sum := fmt.Sprintf("%x", sha256.Sum256(archive))
	text, err := deploy.CI("gitlab", deploy.CIOptions{Experiment: "first-drill", Redis: experiments.RedisEmbedded})
	testkit.Must(t, err)
	script := string(text[bytes.Index(text, []byte("# LOCKDRILL says")):bytes.Index(text, []byte("  script:"))])
	for name, c := range map[string]struct {
		from, sum string
		status    int
		says      string
	}{
		"an archive's path":    {from: filepath.Join(folder, "lockdrill.tar.gz"), sum: sum, says: "lockdrill one"},
		"the program's path":   {from: filepath.Join(folder, "program"), says: "lockdrill one"},
		"an archive's address": {from: server.URL + "/lockdrill.tar.gz", sum: sum, says: "lockdrill one"},
		"another sum":          {from: filepath.Join(folder, "program"), sum: sum, status: 1, says: "FAILED"},
		"no such address":      {from: server.URL + "/other", status: 22, says: "404"},
		"no such file":         {from: filepath.Join(folder, "other"), status: 1, says: "other"},
		"nothing":              {status: 2, says: "set the variable LOCKDRILL"},
	} {
		for _, shell := range [][]string{{"sh"}, {"bash"}, {busybox, "sh"}} {
			t.Run(name+"/"+shell[0], func(t *testing.T) {
				t.Parallel()
				for _, needed := range []string{shell[0], "curl"} {
					if _, err := exec.LookPath(needed); err != nil {
						missing(t, needed)
					}
				}
				cmd := exec.Command(shell[0], append(shell[1:], "-c", script)...)
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LOCKDRILL=" + c.from, "LOCKDRILL_SHA256=" + c.sum, "LOCKDRILL_BIN=" + filepath.Join(t.TempDir(), "bin")}
				out, err := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); code != c.status || !strings.Contains(string(out), c.says) {
					t.Errorf("status %d, want %d; %v\n%s", code, c.status, err, out)
				}
			})
		}
	}
}
