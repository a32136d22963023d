package serve

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/testkit"
)

func TestWithoutATokenNothingIsChanged(t *testing.T) {
	s := start(t, t.TempDir(), nil)
	body := func() io.Reader { return bytes.NewReader(tarOf(t, files(t, "x", "pass", time.Now()))) }
	for _, role := range []Role{Anybody, Read} {
		want := http.StatusForbidden
		if role == Anybody {
			want = http.StatusUnauthorized
		}
		if code, _ := s.ask(t, "PUT", "/api/v1/runs/x", role, body()); code != want {
			t.Errorf("%q may upload: %d, want %d", role, code, want)
		}
	}
	if code, _ := s.ask(t, "PUT", "/api/v1/runs/x", Anybody, body(), "Authorization", "Bearer ld_wrong"); code != http.StatusUnauthorized {
		t.Errorf("a token that is none: %d", code)
	}
	for _, headers := range [][]string{
		{"Host", "evil.example"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"},
	} {
		if code, _ := s.ask(t, "PUT", "/api/v1/runs/x", Upload, body(), headers...); code != http.StatusForbidden {
			t.Errorf("PUT with %v: %d", headers, code)
		}
		if code, _ := s.ask(t, "GET", "/api/v1/runs", Anybody, nil, headers...); code != http.StatusForbidden {
			t.Errorf("GET with %v: %d", headers, code)
		}
	}
}

// Off loopback nothing can be read without a token either. What is asked of a server that listens elsewhere is asked of its handler.
func TestOffLoopbackATokenIsNeededToRead(t *testing.T) {
	a := Access{}
	for _, listen := range []string{"0.0.0.0:80", "10.0.0.1:80", "[::]:80", ":80", "drills.example:80"} {
		if err := a.check(listen); err == nil || !strings.Contains(err.Error(), "--tokens") {
			t.Errorf("%s without tokens: %v", listen, err)
		}
	}
	for _, listen := range []string{"127.0.0.1:80", "[::1]:80", "localhost:80"} {
		if err := a.check(listen); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
	s := start(t, t.TempDir(), func(o *Options) { o.Listen = "0.0.0.0:80" })
	for _, path := range []string{"/", "/api/v1/runs", "/metrics", "/live", "/nothing"} {
		if code, _ := s.ask(t, "GET", path, Anybody, nil); code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, code)
		}
		if code, _ := s.ask(t, "GET", path, Upload, nil); code != http.StatusForbidden {
			t.Errorf("%s by who may only upload: %d", path, code)
		}
	}
	if code, _ := s.ask(t, "GET", "/", Read, nil); code != http.StatusOK {
		t.Errorf("with a token: %d", code)
	}
	if code, _ := s.ask(t, "GET", "/healthz", Anybody, nil); code != http.StatusOK {
		t.Errorf("whether it lives: %d", code)
	}
}

func TestTokensThatOthersMayReadAreRefused(t *testing.T) {
	path, none := filepath.Join(t.TempDir(), "tokens"), "sha256:"+strings.Repeat("0", 64)
	for text, want := range map[string]string{
		"a read sha256:00": "sum of a token", "a fly sha256:00": "role \"fly\"", "a read,run sha256:00": "role \"run\" went", "a approve sha256:00": "docs/schedules.md", "a b": "NAME ROLES SUM", "a read proxy": "sum of a token",
		"a read " + none + "\na read " + none: "second line", "": "no token",
	} {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		a := Access{Tokens: path}
		if err := a.check("127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	testkit.Must(t, os.Chmod(path, 0o644))
	a := Access{Tokens: path}
	if err := a.check("127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
}
