package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
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
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func clientOf(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true, ReadTimeout: proxyWithin})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A lock as most are made, SET NX and a script that compares before it deletes: its releases fail as told, and again not once the
// fault, which nobody takes back, has ended by itself.
func TestTheProxyByItself(t *testing.T) {
	t.Parallel()
	clients, api := startProxy(t, "--upstream", redistest.Start(t))
	ctx := t.Context()
	release := redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)
	cycle := func(c *redis.Client, token string) (released bool, err error) {
		if err := c.SetArgs(ctx, "lock:a", token, redis.SetArgs{Mode: "NX", TTL: time.Minute}).Err(); err != nil && !errors.Is(err, redis.Nil) {
			return false, err
		}
		n, err := release.Run(ctx, c, []string{"lock:a"}, token).Int()
		return n == 1, err
	}
	c := clientOf(t, clients)
	if ok, err := cycle(c, "t1"); !ok || err != nil {
		t.Fatalf("without a fault: %v, %v", ok, err)
	}
	code, text := askProxy(t, http.MethodPost, api+"/faults", `{"id": "x", "op": "release", "mode": "lost_reply", "count": 1, "for": "20s"}`)
	if code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	waits, gaveUp := clientOf(t, clients), make(chan error, 1)
	go func() {
		_, err := cycle(waits, "t2")
		gaveUp <- err
	}()
	until(t, "the release whose reply is lost, executed", func() bool {
		_, all := askProxy(t, http.MethodGet, api+"/faults", "")
		n, err := c.Exists(ctx, "lock:a").Result()
		return err == nil && n == 0 && strings.Contains(all, `"state":"spent"`)
	})
	_ = waits.Close() // it would wait for as long as the fault lasts
	if err := <-gaveUp; err == nil {
		t.Error("a lost reply was not felt")
	}
	code, text = askProxy(t, http.MethodPost, api+"/faults", `{"op": "acquire", "mode": "error", "for": "100ms"}`)
	if code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	until(t, "the end of the fault", func() bool {
		_, all := askProxy(t, http.MethodGet, api+"/faults", "")
		return strings.Count(all, `"state":"ended"`) == 2
	})
	if ok, err := cycle(c, "t3"); !ok || err != nil {
		t.Errorf("after the faults: %v, %v", ok, err)
	}
	if _, text = askProxy(t, http.MethodGet, api+"/stats", ""); !strings.Contains(text, `"acquire":3`) || !strings.Contains(text, `"release":3`) {
		t.Errorf("seen: %s", text)
	}
}

// The proxy speaks TLS to the Redis, and plain text to its clients.
func TestTheProxySpeaksTLSToTheRedis(t *testing.T) {
	t.Parallel()
	addr, authority := tlsInFrontOf(t, redistest.Start(t))
	clients, _ := startProxy(t, "--upstream", "rediss://"+addr, "--ca", authority)
	if err := clientOf(t, clients).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	if r := try(t, "proxy", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0", "--upstream", "rediss://"+addr); r.code != verdict.ExitError || !strings.Contains(r.stderr, "certificate") {
		t.Errorf("an authority that nobody knows: exit %d, %s", r.code, r.stderr)
	}
}

// ownCertificate is one of this host that has signed itself, and its key.
func ownCertificate(t *testing.T) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err = x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// tlsInFrontOf ends TLS in front of a Redis, and returns its address and the file of the authority that signed for it.
func tlsInFrontOf(t *testing.T, redisAddr string) (addr, authority string) {
	t.Helper()
	der, key := ownCertificate(t)
	authority = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", redisAddr)
			if err != nil {
				_ = front.Close()
				continue
			}
			go func() { _, _ = io.Copy(back, front); _ = back.Close() }()
			go func() { _, _ = io.Copy(front, back); _ = front.Close() }()
		}
	}()
	return l.Addr().String(), authority
}

func TestTheProxyRefusesBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.json")
	if err := os.WriteFile(rules, []byte(`{"keys": ["lock:*"], "scripts": [{"op": "renew"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		says string
	}{
		{"", "--upstream is missing"},
		{"--upstream http://h:1", "--upstream: want"},
		{"--upstream redis://user:secret@h:1", "clients introduce themselves"},
		{"--upstream h:1 --ca x.pem", "--ca is for"},
		{"--upstream rediss://h:1 --ca " + filepath.Join(dir, "none.pem"), "--ca"},
		{"--upstream h:1 --rules " + filepath.Join(dir, "none.json"), "--rules"},
		{"--upstream h:1 --rules " + rules, "scripts[0]: needs either sha1 or contains"},
		{"--upstream h:1 extra", `takes no argument, and "extra" is one`},
	} {
		if r := try(t, append([]string{"proxy"}, strings.Fields(c.args)...)...); r.code != verdict.ExitUsage || !strings.Contains(r.stderr, c.says) || strings.Contains(r.stderr, "secret") {
			t.Errorf("%s: exit %d, %s, want %q", c.args, r.code, r.stderr, c.says)
		}
	}
	redisAddr := redistest.Start(t)
	for _, c := range []struct{ args, says string }{
		{"--api 0.0.0.0:0 --listen 127.0.0.1:0", "loopback"},
		{"--api 127.0.0.1:0 --listen a=127.0.0.1:0 --listen a=127.0.0.1:0", "taken"},
		{"--api 127.0.0.1:0 --listen nowhere", "--listen"},
	} {
		if r := try(t, append([]string{"proxy", "--upstream", redisAddr}, strings.Fields(c.args)...)...); r.code != verdict.ExitUsage || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s: exit %d, %s, want %q", c.args, r.code, r.stderr, c.says)
		}
	}
	if r := try(t, "proxy", "--upstream", "127.0.0.1:1"); r.code != verdict.ExitError || !strings.Contains(r.stderr, "cannot be reached") {
		t.Errorf("nobody there: exit %d, %s", r.code, r.stderr)
	}
}

// The rules that the documentation shows are rules.
func TestTheRulesInTheDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/faults.md shows no rules")
	}
	path := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(path, m[1], 0o600); err != nil {
		t.Fatal(err)
	}
	if rules, err := readRules(path); err != nil || len(rules.Commands) != 2 || len(rules.Scripts) < 3 {
		t.Errorf("%+v, %v", rules, err)
	}
}
