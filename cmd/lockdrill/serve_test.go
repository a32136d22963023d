package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/browser"
	"github.com/lockdrill/lockdrill/serve"
)

// Every page can be read at any width, by day and by night, asks nothing of the network, and its policy forbids nothing that it needs.
func TestLivePagesOfTheServerInABrowser(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	dir := filepath.Dir(recordedRun(t, t.TempDir(), "pass-1"))
	recordedRun(t, filepath.Dir(dir), "fail")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s, err := serve.Open(serve.Options{Dir: dir, Listen: l.Addr().String(), Limits: serve.DefaultLimits(), Reader: runReader(), Say: func(line string) { t.Log(line) }})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	at := "http://" + l.Addr().String()
	until(t, "the server to have looked over its folder", func() bool { code, _ := got(t, at+"/readyz"); return code == http.StatusOK })
	measure := read(t, "../../reports/testdata/geometry.js")
	for _, path := range []string{"/", "/experiments/one-kill", "/runs/pass-1", "/runs/fail", "/live", "/nothing"} {
		p := b.Open(t, at+path, browser.View{Width: 1280, Height: 900})
		for _, fault := range p.Measured(t, string(measure)) {
			t.Errorf("%s at %s", path, fault)
		}
		if asked := p.Requests(); !slices.Equal(asked, []string{at + path}) {
			t.Errorf("%s asked for %q", path, asked)
		}
		for _, c := range p.Complaints() {
			if path != "/nothing" || !strings.Contains(c, "404") {
				t.Errorf("%s: the browser complains: %s", path, c)
			}
		}
	}
	followed(t, b, dir, at)
	if _, page := got(t, at+"/"); !strings.Contains(page, "one-kill") {
		t.Errorf("the first page does not name the experiment:\n%s", page)
	}
}

// followed holds the page of a drill that goes on, in a browser without script: it tells what is said while it is open, asks its own server
// alone, and gives way to the report when the drill has ended.
func followed(t *testing.T, b *browser.Browser, dir, at string) {
	t.Helper()
	lines := bytes.SplitAfter(read(t, filepath.Join(dir, "fail", historyFile)), []byte("\n"))
	going := filepath.Join(dir, "going")
	must(t, os.Mkdir(going, 0o755))
	write(t, filepath.Join(going, experimentFile), read(t, filepath.Join(dir, "fail", experimentFile)))
	history, err := os.Create(filepath.Join(going, historyFile))
	must(t, err)
	defer history.Close()
	say := func(lines [][]byte) {
		if _, err := history.Write(bytes.Join(lines, nil)); err != nil {
			t.Fatal(err)
		}
	}
	third := len(lines) / 3
	say(lines[:third])
	until(t, "the drill to go on", func() bool {
		code, page := got(t, at+"/live/going")
		return code == http.StatusOK && strings.Contains(page, "RUNNING")
	})
	p := b.Open(t, at+"/live/going", browser.View{Width: 1280, Height: 900})
	rows := func() string {
		return browser.Eval[string](t, p, `document.querySelector("#story tbody")?.innerText ?? ""`)
	}
	until(t, "the page to tell", func() bool { return rows() != "" })
	before := rows()
	say(lines[third : 2*third])
	until(t, "the page to tell what was said since", func() bool { now := rows(); return now != "" && now != before })
	say(lines[2*third:])
	until(t, "the report", func() bool { return slices.Contains(p.Requests(), at+"/runs/going") })
	for _, c := range p.Complaints() {
		t.Errorf("/live/going: the browser complains: %s", c)
	}
	for _, asked := range p.Requests() {
		if !strings.HasPrefix(asked, at+"/") {
			t.Errorf("/live/going asked for %q", asked)
		}
	}
}

func got(t *testing.T, url string) (code int, body string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(data)
}
