package tap

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// ask makes one request of the API, and reads its answer into into.
func ask(t *testing.T, server *httptest.Server, method, path, body string, into any) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	testkit.Must(t, err)
	r.Header.Set("Content-Type", "application/json")
	return do(t, server, r, into)
}

func do(t *testing.T, server *httptest.Server, r *http.Request, into any) int {
	t.Helper()
	answer, err := server.Client().Do(r)
	testkit.Must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	testkit.Must(t, err)
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s %s: %q: %v", r.Method, r.URL.Path, text, err)
	}
	return answer.StatusCode
}

func TestAFaultOverTheAPI(t *testing.T) {
	tap, _, _, r1, _ := realTap(t)
	server := httptest.NewServer(tap.API())
	t.Cleanup(server.Close)
	c := dial(t, r1)
	c.send("SET lock:a mine", "SET lock:b other")
	c.want("+OK", "+OK")
	var v faultView
	status := ask(t, server, "POST", "/faults", `{"op": "release", "mode": "error", "count": 2, "for": "20s", "holder_of": "lock:a"}`, &v)
	if status != http.StatusCreated || v.State != burst.Armed || !v.OneOnly || v.Key != "lock:a" || v.For != "20s" {
		t.Fatalf("%d %+v", status, v)
	}
	script := `EVAL return(redis.call('del',KEYS[1])) 1 `
	c.send(script+"lock:b other", script+"lock:a theirs", script+"lock:a mine")
	c.want(":1", ":1", "-ERR made to fail by "+v.ID)
	if status = ask(t, server, "GET", "/faults/"+v.ID, "", &v); status != http.StatusOK || v.Hits != 1 || v.State != burst.Armed || v.First == nil || v.Ended != nil {
		t.Errorf("%d %+v", status, v)
	}
	if status = ask(t, server, "DELETE", "/faults/"+v.ID, "", &v); status != http.StatusOK || v.State != burst.Ended || v.Ended == nil {
		t.Errorf("%d %+v", status, v)
	}
	var list struct{ Faults []faultView }
	if status = ask(t, server, "GET", "/faults", "", &list); status != http.StatusOK || len(list.Faults) != 1 || list.Faults[0].Hits != 1 {
		t.Errorf("%d %+v", status, list)
	}
	var s Stats
	if status = ask(t, server, "GET", "/stats", "", &s); status != http.StatusOK || s.Names["r1"].Release != 3 || s.Names["r1"].Other != 2 {
		t.Errorf("%d %+v", status, s)
	}
	if status = ask(t, server, "POST", "/faults", `{"op": "acquire", "mode": "timeout"}`, &v); status != http.StatusCreated || v.For != defaultFor.String() {
		t.Errorf("a fault without a duration lasts %s: %d", v.For, status)
	}
}

func TestTheAPIRefusesWhatItDoesNotUnderstand(t *testing.T) {
	tap, _, _, r1, _ := realTap(t)
	server := httptest.NewServer(tap.API())
	t.Cleanup(server.Close)
	c := dial(t, r1)
	c.send("HSET lock:h a b")
	c.want(":1")
	for _, x := range []struct {
		method, path, body string
		status             int
		field              string
	}{
		{"POST", "/faults", `{"op": "renw", "mode": "error"}`, 400, "op"},
		{"POST", "/faults", `{"op": "renew", "mode": "eror"}`, 400, "mode"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "modus": 1}`, 400, "modus"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "count": "3"}`, 400, "count"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "count": -3}`, 400, "count"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "for": "3"}`, 400, "for"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "for": "0s"}`, 400, "for"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "for": "2h"}`, 400, "for"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "share": 2}`, 400, "share"},
		{"POST", "/faults", `{"op": "renew", "mode": "delay"}`, 400, "delay"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "delay": "1s"}`, 400, "delay"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "names": ["r9"]}`, 400, "names"},
		{"POST", "/faults", `{"op": "acquire", "mode": "error", "holder_of": "lock:a"}`, 400, "holder_of"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "holder_of": "lock:a", "key": "*"}`, 400, "holder_of"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "holder_of": "lock:a"}`, 409, "holder_of"},
		{"POST", "/faults", `{"op": "renew", "mode": "error", "holder_of": "lock:h"}`, 409, "holder_of"},
		{"POST", "/faults", "{\"op\": \"renew\",\n \"mode\" }", 400, "line 2:9"},
		{"POST", "/faults", `{"op": "renew", "mode": "error"} {}`, 400, "line 1:33"},
		{"POST", "/faults", ``, 400, "line 1:1"},
		{"DELETE", "/faults/f9", ``, 404, "id"},
		{"GET", "/faults/f9", ``, 404, "id"},
		{"PUT", "/faults", ``, 404, ""},
	} {
		var answer struct{ Errors []Problem }
		status := ask(t, server, x.method, x.path, x.body, &answer)
		if status != x.status || len(answer.Errors) == 0 || answer.Errors[0].Field != x.field || answer.Errors[0].Remedy == "" {
			t.Errorf("%s %s %s: %d %+v, want %d for %q", x.method, x.path, x.body, status, answer, x.status, x.field)
		}
	}
	if n := len(tap.Faults()); n != 0 {
		t.Errorf("%d faults were armed", n)
	}
	var answer struct{ Errors []Problem }
	foreign, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/stats", nil)
	foreign.Host = "rebound.example"
	if status := do(t, server, foreign, &answer); status != http.StatusForbidden {
		t.Errorf("a foreign host name: %d", status)
	}
	form, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/faults", strings.NewReader(`{"op": "renew", "mode": "error"}`))
	form.Header.Set("Content-Type", "text/plain")
	if status := do(t, server, form, &answer); status != http.StatusUnsupportedMediaType {
		t.Errorf("what a web page could send: %d", status)
	}
	for _, kind := range []string{"application/jsonp", "application/json-patch+json", "application/jsonanything", "", "text/plain; x=application/json"} {
		near, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/faults", strings.NewReader(`{"op": "renew", "mode": "error"}`))
		near.Header.Set("Content-Type", kind)
		if status := do(t, server, near, &answer); status != http.StatusUnsupportedMediaType {
			t.Errorf("Content-Type %q: %d", kind, status)
		}
	}
	for _, origin := range []string{server.URL, "null", "https://example.org", ""} {
		page, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/stats", nil)
		page.Header["Origin"] = []string{origin}
		if status := do(t, server, page, &answer); status != http.StatusForbidden {
			t.Errorf("a page of %q: %d", origin, status)
		}
	}
	for _, addr := range []string{"unix:", "0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:0", "x"} {
		if l, err := ListenAPI(addr); err == nil {
			_ = l.Close()
			t.Errorf("the API listens at %s", addr)
		}
	}
	l, err := ListenAPI("127.0.0.1:0")
	testkit.Must(t, err)
	_ = l.Close()
}

func TestRulesAreChecked(t *testing.T) {
	for _, c := range []struct{ text, field string }{
		{`{"keys": ["lock:*"], "commands": [{"command": "SET", "with": ["XX"], "op": "renew", "key": 1, "token": 2}], "scripts": [{"contains": "unlock", "op": "release"}]}`, ""},
		{`{"keys": [""]}`, "keys[0]"},
		{`{"commands": [{"op": "renew"}]}`, "commands[0].command"},
		{`{"commands": [{"command": "SET", "op": "x"}]}`, "commands[0].op"},
		{`{"commands": [{"command": "SET", "op": "none", "key": -1}]}`, "commands[0].key"},
		{`{"scripts": [{"op": "renew"}]}`, "scripts[0]"},
		{`{"scripts": [{"op": "renew", "sha1": "abc"}]}`, "scripts[0].sha1"},
		{`{"keyz": []}`, "keyz"},
	} {
		var r Rules
		var all []Problem
		if p := DecodeStrict([]byte(c.text), &r); p != nil {
			all = append(all, *p)
		} else {
			all = r.Check()
		}
		if c.field == "" && len(all) > 0 || c.field != "" && (len(all) == 0 || all[0].Field != c.field) {
			t.Errorf("%s: %+v, want %q", c.text, all, c.field)
		}
	}
}

// A socket is asked by its owner only, from its first moment on; it takes no name that is taken, and leaves none behind.
func TestTheAPIOnASocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "api")
	l, err := ListenAPI("unix:" + path)
	testkit.Must(t, err)
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if again, err := ListenAPI("unix:" + path); err == nil {
		_ = again.Close()
		t.Error("a name that is taken was taken")
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: New(Options{}).API()}}
	server.Start()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	answer, err := client.Get("http://localhost/stats")
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", answer, err)
	} else {
		_ = answer.Body.Close()
	}
	client.CloseIdleConnections()
	server.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A killed proxy leaves its socket: the next one takes the name. What is no socket stays as it is.
func TestASocketThatAKilledProxyLeft(t *testing.T) {
	dir := t.TempDir()
	path, file := filepath.Join(dir, "api"), filepath.Join(dir, "file")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	testkit.Must(t, err)
	dead.SetUnlinkOnClose(false)
	testkit.Must(t, dead.Close())
	l, err := ListenAPI("unix:" + path)
	testkit.Must(t, err)
	defer l.Close()
	testkit.Must(t, os.WriteFile(file, []byte("mine"), 0o600))
	if l, err := ListenAPI("unix:" + file); err == nil {
		_ = l.Close()
		t.Error("a file was taken for a socket")
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
}
