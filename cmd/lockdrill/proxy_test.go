package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// proxyWithin bounds every wait of these tests.
const proxyWithin = 20 * time.Second

// startProxy runs `lockdrill proxy` until the test ends, and returns where clients and the API find it. Its end is checked.
func startProxy(t *testing.T, args ...string) (clients, api string) {
	t.Helper()
	cmd := lockdrill(append([]string{"proxy", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"}, args...)...)
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	limit := time.AfterFunc(3*proxyWithin, func() { _ = cmd.Process.Kill() }) // of its beginning, and of its end
	lines := bufio.NewScanner(stderr)
	var said []string
	for api == "" && lines.Scan() {
		said = append(said, lines.Text())
		if m := regexp.MustCompile(`point them at (\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			clients = m[1]
		}
		if m := regexp.MustCompile(`http://\S+/stats`).FindString(lines.Text()); m != "" {
			api = strings.TrimSuffix(m, "/stats")
		}
	}
	if clients == "" || api == "" {
		t.Fatalf("the proxy does not say how to use it: %q", said)
	}
	limit.Stop()
	t.Cleanup(func() {
		limit.Reset(3 * proxyWithin)
		_ = cmd.Process.Signal(syscall.SIGINT)
		for lines.Scan() {
			said = append(said, lines.Text())
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %q", err, said)
		}
		limit.Stop()
	})
	return clients, api
}

func askProxy(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proxyWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(text)
}

func clientOf(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true, ReadTimeout: proxyWithin})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A lock as most are made, SET NX and a script that compares before it deletes: its release fails as told over the API, and not again.
func TestTheProxyByItself(t *testing.T) {
	t.Parallel()
	upstream := redistest.Start(t)
	misused(t, t.TempDir(), "proxy --upstream "+upstream, map[string]string{
		"--api 0.0.0.0:0 --listen 127.0.0.1:0":                            "loopback",
		"--api 127.0.0.1:0 --listen a=127.0.0.1:0 --listen a=127.0.0.1:0": "taken",
		"--api 127.0.0.1:0 --listen nowhere":                              "--listen",
	})
	try(t, "proxy", "--upstream", "127.0.0.1:1").ends(t, verdict.ExitError, "cannot be reached")
	clients, api := startProxy(t, "--upstream", upstream)
	c, release := clientOf(t, clients), redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)
	cycle := func() (released bool, err error) {
		if err := c.SetArgs(t.Context(), "lock:a", "t", redis.SetArgs{Mode: "NX", TTL: time.Minute}).Err(); err != nil && !errors.Is(err, redis.Nil) {
			return false, err
		}
		n, err := release.Run(t.Context(), c, []string{"lock:a"}, "t").Int()
		return n == 1, err
	}
	if ok, err := cycle(); !ok || err != nil {
		t.Fatalf("without a fault: %v, %v", ok, err)
	}
	if code, text := askProxy(t, http.MethodPost, api+"/faults", `{"id": "x", "op": "release", "mode": "error", "count": 1, "for": "20s"}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	if _, err := cycle(); err == nil || !strings.Contains(err.Error(), "made to fail by x") {
		t.Errorf("the fault was not felt: %v", err)
	}
	if ok, err := cycle(); !ok || err != nil {
		t.Errorf("after the fault: %v, %v", ok, err)
	}
	if _, text := askProxy(t, http.MethodGet, api+"/stats", ""); !strings.Contains(text, `"acquire":3`) || !strings.Contains(text, `"release":3`) {
		t.Errorf("seen: %s", text)
	}
}

// The proxy speaks TLS to the Redis, and plain text to its clients.
func TestTheProxySpeaksTLSToTheRedis(t *testing.T) {
	t.Parallel()
	addr, authority, _ := redistest.StartTLS(t)
	clients, _ := startProxy(t, "--upstream", "rediss://"+addr, "--ca", authority)
	if err := clientOf(t, clients).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	if r := try(t, "proxy", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0", "--upstream", "rediss://"+addr); r.code != verdict.ExitError || !strings.Contains(r.stderr, "certificate") {
		t.Errorf("an authority that nobody knows: exit %d, %s", r.code, r.stderr)
	}
}

// The rules that the documentation shows are rules.
func TestTheRulesInTheDocumentation(t *testing.T) {
	t.Parallel()
	page := read(t, "../../docs/faults.md")
	m := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/faults.md shows no rules")
	}
	path := filepath.Join(t.TempDir(), "rules.json")
	write(t, path, m[1])
	if rules, err := readRules(path); err != nil || len(rules.Commands) != 2 || len(rules.Scripts) < 3 {
		t.Errorf("%+v, %v", rules, err)
	}
}
