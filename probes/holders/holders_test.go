package holders

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/command"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// fleet is some lives.
type fleet []Life

func (f fleet) lives() []Life { return f }

func begins(l Life, name string) bool { return strings.HasPrefix(name, l.Name) }

var two = fleet{
	{Incarnation: "r1.1", Name: "sched-a", PID: 101, Known: map[string]string{"name": "sched-a"}},
	{Incarnation: "r2.1", Name: "sched-b", PID: 102, Known: map[string]string{"name": "sched-b"}},
}

func TestAValueNamesItsHolder(t *testing.T) {
	holder := regexp.MustCompile(`^v1:(?P<holder>[^:]+):`)
	for _, c := range []struct {
		source Value
		value  string
		want   string
	}{
		{Value{}, "sched-a", "[r1.1]"},
		{Value{}, "sched-b-7f3", "[r2.1]"},
		{Value{}, "5b1f0c1e-93f0-4d0a", "[]"},
		{Value{}, "", "[]"},
		{Value{Field: "owner.host"}, `{"owner":{"host":"sched-b"},"at":1}`, "[r2.1]"},
		{Value{Field: "owner.host"}, `{"owner":"sched-b"}`, "[]"},
		{Value{Field: "owner.host"}, `sched-b`, "[]"},
		{Value{Field: "pid", Is: func(l Life, name string) bool { return name == strconv.Itoa(l.PID) }}, `{"pid":101}`, "[r1.1]"},
		{Value{Pattern: holder}, "v1:sched-a:token", "[r1.1]"},
		{Value{Pattern: holder}, "v2:sched-a:token", "[]"},
		{Value{Is: func(Life, string) bool { return true }}, "x", "[r1.1 r2.1]"},
	} {
		c.source.Lives = two.lives
		if c.source.Is == nil {
			c.source.Is = begins
		}
		a := c.source.Ask(t.Context(), Question{Key: "k", Value: c.value})
		if got := fmt.Sprint(a.Holders); got != c.want || len(a.Holders) == 0 && (a.Why == "" || c.value != "" && strings.Contains(a.Why, c.value)) {
			t.Errorf("%+v of %q: %s (%s), want %s", c.source, c.value, got, a.Why, c.want)
		}
	}
}

// A line names the token itself. One that is older than the grant may be of the same token's grant before.
func TestALineOfALogNamesItsHolder(t *testing.T) {
	dir, now := t.TempDir(), int64(0)
	a, b := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
	lives := fleet{{Incarnation: "r1.1", Name: "a", Log: a}, {Incarnation: "r2.1", Name: "b", Log: b}}
	write := func(path, text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		testkit.Must(t, err)
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	leases := map[string]time.Duration{"short": 1, "long": 1_000_000}
	write(a, "acquired key=k token=before\n")
	write(b, "")
	g := NewLog(regexp.MustCompile(`acquired key=(?P<key>\S+) token=(?P<token>\S+)`), nil, filepath.Join(dir, "*.log"), lives.lives, func(lock string) time.Duration { return leases[lock] }, func() int64 { now += 10; return now })
	defer g.Close()
	ask := func(q Question, want string) {
		t.Helper()
		if got := g.Ask(t.Context(), q); fmt.Sprint(got.Holders) != want || strings.Contains(got.Why, q.Value) {
			t.Errorf("%+v: %v (%s), want %s", q, got.Holders, got.Why, want)
		}
	}
	ask(Question{Key: "k", Value: "before"}, "[]") // a life before r1.1 may have said so, and how long its lease lasts is not known
	ask(Question{Lock: "long", Key: "k", Value: "before"}, "[]")
	ask(Question{Lock: "short", Key: "k", Value: "before"}, "[r1.1]") // it would be over: r1.1 is older than a lease
	ask(Question{Key: "k", Value: "before", Since: 10_000}, "[]")
	ask(Question{Key: "other", Value: "before"}, "[]")
	since := now
	write(b, "tick\nacquired key=k token=now\n")
	ask(Question{Key: "k", Value: "now", Since: since}, "[r2.1]")
	ask(Question{Key: "k", Value: "now2", Since: since}, "[]")
	g.lives = fleet{lives[0]}.lives
	ask(Question{Key: "k", Value: "now", Since: since}, "[]") // it is dead
}

func TestAGaugeNamesItsHolder(t *testing.T) {
	text := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.ReplaceAll(text, "ME", r.URL.Query().Get("name")))
	}))
	defer server.Close()
	labels := func(l Life, q Question) map[string]string { return map[string]string{"pod": l.Name, "lock": q.Key} }
	all := func(Life) string { return server.URL }
	each := func(l Life) string { return server.URL + "?name=" + l.Name }
	for _, c := range []struct {
		text   string
		url    func(Life) string
		labels func(Life, Question) map[string]string
		want   string
	}{
		{"leader{pod=\"sched-a\",lock=\"k\"} 0\nleader{pod=\"sched-b\",lock=\"k\"} 1\n", all, labels, "[r2.1]"},
		{"leader{pod=\"sched-a\",lock=\"k\"} 1\nleader{pod=\"sched-b\",lock=\"k\"} 1\n", all, labels, "[r1.1 r2.1]"},
		{"leader{pod=\"sched-a\",lock=\"other\"} 1\n", all, labels, "[]"},
		{"other 1\n", all, labels, "[]"},
		{"leader{is=\"ME\"} 1\n", each, func(Life, Question) map[string]string { return map[string]string{"is": "sched-a"} }, "[r1.1]"},
		{"leader 1\n", func(Life) string { return "http://127.0.0.1:1" }, func(Life, Question) map[string]string { return nil }, "[]"},
	} {
		text = c.text
		m := &Metric{Lives: two.lives, Series: "leader", URL: c.url, Labels: c.labels}
		if a := m.Ask(t.Context(), Question{Key: "k", Value: "t"}); fmt.Sprint(a.Holders) != c.want || len(a.Holders) == 0 && a.Why == "" {
			t.Errorf("%s: %v (%s), want %s", c.text, a.Holders, a.Why, c.want)
		}
	}
}

// A gauge that could not be read is not one that is 0.
func TestAGaugeThatCannotBeReadIsNotZero(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "leader 0\n") }))
	defer server.Close()
	secured := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer secured.Close()
	none := func(Life, Question) map[string]string { return nil }
	why := func(urls map[string]string) string {
		m := &Metric{Lives: two.lives, Series: "leader", URL: func(l Life) string { return urls[l.Name] }, Labels: none}
		return m.Ask(t.Context(), Question{Key: "k", Value: "t"}).Why
	}
	for want, urls := range map[string]map[string]string{
		"leader is above 0 of none of 2 replicas":                                                     {"sched-a": server.URL, "sched-b": server.URL},
		"leader could not be read of any of 2 replicas (HTTP 401 Unauthorized)":                       {"sched-a": secured.URL, "sched-b": secured.URL},
		"leader is above 0 of none of 1 replicas, and could not be read of 1 (HTTP 401 Unauthorized)": {"sched-a": server.URL, "sched-b": secured.URL},
	} {
		if got := why(urls); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestACommandNamesTheHolder(t *testing.T) {
	for script, want := range map[string]string{
		"echo sched-b": "[r2.1]", "echo 101": "[r1.1]", "echo sched-a 102": "[r1.1 r2.1]", "echo nobody": "[]", "true": "[]", "exit 3": "[]", "sleep 60": "[]",
	} {
		c := &Command{Lives: two.lives, Run: func(Question) command.Command {
			return command.Command{Words: []string{"sh", "-c", script}, Within: 300 * time.Millisecond}
		}}
		if a := c.Ask(t.Context(), Question{Key: "k"}); fmt.Sprint(a.Holders) != want || len(a.Holders) == 0 && a.Why == "" {
			t.Errorf("%s: %v (%s), want %s", script, a.Holders, a.Why, want)
		}
	}
}

func TestAnArgumentIsFoundAsMonitorWritesIt(t *testing.T) {
	c := startRedis(t)
	c.Ping(t.Context()) // so that it has introduced itself
	conn, in := monitoring(t, c)
	defer conn()
	for _, arg := range []string{"plain", `a"b\c`, "line\nend\r\t\a\b", "\x00\x7f\xff é", " "} {
		testkit.Must(t, c.Set(t.Context(), "k", arg, 0).Err())
		line, err := in.ReadBytes('\n')
		testkit.Must(t, err)
		w := &want{key: quoted("k"), arg: quoted(arg)}
		if _, ok := caller(line, 0); !ok || !w.in(line) {
			t.Errorf("%q is not found in %q: looked for %q", arg, line, w.arg)
		}
	}
}

func startRedis(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: redistest.Start(t)})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// monitoring is a connection that is told all commands.
func monitoring(t *testing.T, c *redis.Client) (closing func(), in *bufio.Reader) {
	t.Helper()
	s := NewClient(ClientOptions{Redis: c.Options(), Lives: two.lives, Window: time.Second, Commands: 10, Clock: monotime.Now})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	conn, in, err := s.dial(ctx)
	testkit.Must(t, err)
	return func() { cancel(); _ = conn.Close(); _ = s.Close() }, in
}

func TestOnlyACommandThatWritesTheTokenCarriesIt(t *testing.T) {
	w := &want{key: quoted("lock"), arg: quoted("tok")}
	for line, want := range map[string]string{
		`+1.2 [0 10.0.0.1:5] "SET" "lock" "tok" "NX" "PX" "9"`:     "10.0.0.1:5",
		`+1.2 [0 [::1]:5] "evalsha" "abc" "1" "lock" "tok"`:        "[::1]:5",
		`+1.2 [0 10.0.0.1:5] "PEXPIRE" "lock" "9"`:                 "", // a loser sends that too
		`+1.2 [0 10.0.0.1:5] "SET" "lock" "other" "NX"`:            "",
		`+1.2 [0 10.0.0.1:5] "SET" "lock2" "tok"`:                  "",
		`+1.2 [0 10.0.0.1:5] "PUBLISH" "lock" "tok"`:               "",
		`+1.2 [3 10.0.0.1:5] "SET" "lock" "tok"`:                   "",
		`+1.2 [0 lua] "set" "lock" "tok"`:                          "",
		`+1.2 [0 10.0.0.1:5] "SET" "x" "says \"lock\" \"tok\" so"`: "",
		`+OK`: "",
	} {
		addr, ok := caller([]byte(line), 0)
		if ok = ok && w.in([]byte(line)); ok != (want != "") || ok && addr != want {
			t.Errorf("%s: %q, %v; want %q", line, addr, ok, want)
		}
	}
}

// holderScript is a replica in another language: it takes a lock, renews it every 100 ms by a script that compares, and says so.
const holderScript = `
import socket, sys, time, os
host, port, key, token = "127.0.0.1", int(sys.argv[1]), sys.argv[2], sys.argv[3]
s = socket.create_connection((host, port)); f = s.makefile("rb")
def do(*args):
    s.sendall(("*%d\r\n" % len(args) + "".join("$%d\r\n%s\r\n" % (len(a), a) for a in args)).encode())
    return f.readline().strip()
renew = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0"
if "resp3" in sys.argv:
    reply = do("HELLO", "3"); s.sendall(b"PING\r\n")
    while reply != b"+PONG": reply = f.readline().strip()
do("SET", key, token, "PX", "2000")
if "share" in sys.argv:
    os.set_inheritable(s.fileno(), True)
    import subprocess; subprocess.Popen(["sleep", "3600"], close_fds=False)
print("held", flush=True)
while True:
    do("EVAL", renew, "1", key, token, "2000"); time.sleep(0.1)
`

// replica starts one, and gives it as a life.
func replica(t *testing.T, c *redis.Client, incarnation, key, token string, more ...string) Life {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil || runtime.GOOS != "linux" {
		if os.Getenv("CI") == "true" {
			t.Fatal("python3 and Linux are needed")
		}
		t.Skip("SKIPPED: no python3, or no /proc")
	}
	_, port, _ := strings.Cut(c.Options().Addr, ":")
	cmd := exec.Command(python, append([]string{"-c", holderScript, port, key, token}, more...)...)
	cmd.SysProcAttr = ownGroup()
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { endGroup(cmd.Process.Pid); _ = out.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the replica says %q, %v", line, err)
	}
	return Life{Incarnation: incarnation, Name: incarnation, PID: cmd.Process.Pid}
}

// watcher is a client source of some lives. Who asks for what nobody does waits for the whole window.
func watcher(t *testing.T, c *redis.Client, window time.Duration, lives func() []Life) (s *Client, costs func() []Cost) {
	t.Helper()
	var mu sync.Mutex
	var all []Cost
	s = NewClient(ClientOptions{
		Redis: c.Options(), Lives: lives, Window: window, Commands: 10_000, Clock: monotime.Now,
		Renews:   func(string) time.Duration { return 100 * time.Millisecond },
		OnWindow: func(cost Cost) { mu.Lock(); defer mu.Unlock(); all = append(all, cost) },
	})
	t.Cleanup(func() { _ = s.Close() })
	return s, func() []Cost { mu.Lock(); defer mu.Unlock(); return slices.Clone(all) }
}

// The connection that renews leads to its process, and is looked at again: whatever has it then is asked.
func TestTheConnectionThatRenewsLeadsToItsProcess(t *testing.T) {
	t.Parallel()
	c := startRedis(t)
	a := replica(t, c, "r1.1", "lock:a", "tok-a")
	b := replica(t, c, "r2.1", "lock:b", "tok-b", "resp3")
	lives := []Life{a, b}
	const long = 20 * time.Second // however busy the machine
	s, costs := watcher(t, c, long, func() []Life { return lives })
	for key, want := range map[string]string{"lock:a": "[r1.1]", "lock:b": "[r2.1]"} {
		q := Question{Lock: "l", Key: key, Value: "tok-" + key[5:]}
		for range 2 { // found, and looked at again
			if got := s.Ask(t.Context(), q); fmt.Sprint(got.Holders) != want {
				t.Fatalf("%s: %v (%s), want %s", key, got.Holders, got.Why, want)
			}
		}
	}
	windows := costs()
	if len(windows) != 2 || windows[0].Commands == 0 || windows[0].Took > long*9/10 || windows[0].CPU < 0 {
		t.Errorf("windows %+v: each ends as soon as it knows, and says what it cost", windows)
	}
	short, _ := watcher(t, c, time.Second, func() []Life { return lives })
	if got := short.Ask(t.Context(), Question{Lock: "l", Key: "lock:a", Value: "tok-of-nobody"}); len(got.Holders) != 0 || !strings.Contains(got.Why, "no command") {
		t.Errorf("another token: %v (%s)", got.Holders, got.Why)
	}
	endGroup(a.PID)
	gone := func() bool {
		return s.Ask(t.Context(), Question{Lock: "l", Key: "lock:b", Value: "tok-b"}).Holders != nil
	}
	if !gone() {
		t.Error("the other's end takes b's holder away")
	}
	lives = []Life{b}
	if got := s.Recall(Question{Lock: "l", Key: "lock:a", Value: "tok-a"}); len(got.Holders) != 0 {
		t.Errorf("a dead one holds: %v", got.Holders)
	}
}

// Whoever may not list connections does not know that one is closed.
func TestAConnectionThatCannotBeListedIsNotCalledClosed(t *testing.T) {
	t.Parallel()
	c := startRedis(t)
	a := replica(t, c, "r1.1", "lock:a", "tok-a")
	s, _ := watcher(t, c, 20*time.Second, func() []Life { return []Life{a} })
	q := Question{Lock: "l", Key: "lock:a", Value: "tok-a"}
	if got := s.Ask(t.Context(), q); fmt.Sprint(got.Holders) != "[r1.1]" {
		t.Fatalf("%v (%s)", got.Holders, got.Why)
	}
	if err := c.Do(t.Context(), "ACL", "SETUSER", "default", "-client|list").Err(); err != nil {
		t.Skip("LOUD SKIP: a server that cannot forbid a single command: ", err)
	}
	if got := s.Ask(t.Context(), q); len(got.Holders) > 0 || strings.Contains(got.Why, "is closed") || !strings.Contains(got.Why, "NOPERM") {
		t.Errorf("%v (%s)", got.Holders, got.Why)
	}
}

// While locks come and go, a window tells of those that come meanwhile, waits for none that is gone, and the server has peace after it.
func TestWindowsOfLocksThatComeAndGo(t *testing.T) {
	t.Parallel()
	c := startRedis(t)
	r := replica(t, c, "r1.1", "lock:a", "tok-a")
	s, costs := watcher(t, c, time.Second, fleet{r}.lives)
	later := Question{Lock: "l", Key: "lock:a", Value: "tok-a", Since: s.o.Clock() + int64(time.Hour)} // not due by itself
	s.Want(later, false)
	testkit.Must(t, c.Set(t.Context(), "lock:b", "tok-b", 0).Err())
	s.Ask(t.Context(), Question{Lock: "l", Key: "lock:b", Value: "tok-b"}) // nobody renews that
	if got := s.Recall(later); fmt.Sprint(got.Holders) != "[r1.1]" {
		t.Errorf("a token that was carried meanwhile: %v (%s)", got.Holders, got.Why)
	}
	s.Ask(t.Context(), Question{Lock: "l", Key: "lock:gone", Value: "tok-gone"})
	if n := len(costs()); n != 1 {
		t.Errorf("%d windows, want none for a key that is gone", n)
	}
	s.Want(Question{Lock: "l", Key: "lock:b", Value: "tok-b2"}, false)
	if next, some := s.due(); !some || next < s.o.Clock()+int64(time.Second) {
		t.Errorf("the next window is due in %v, %v: twice the length of the last one is peace", time.Duration(next-s.o.Clock()), some)
	}
}

// A connection that two processes have, or one that is no replica's, names nobody.
func TestASharedOrForeignConnectionNamesNobody(t *testing.T) {
	t.Parallel()
	c := startRedis(t)
	shared := replica(t, c, "r1.1", "lock:shared", "tok-shared", "share")
	replica(t, c, "", "lock:foreign", "tok-foreign")
	s, _ := watcher(t, c, time.Second, fleet{shared}.lives)
	for key, want := range map[string]string{"shared": "share the connection", "foreign": "is no replica"} {
		got := s.Ask(t.Context(), Question{Lock: "l", Key: "lock:" + key, Value: "tok-" + key})
		if len(got.Holders) != 0 || !strings.Contains(got.Why, want) || strings.Contains(got.Why, "tok-") {
			t.Errorf("%s: %v (%s), want %q", key, got.Holders, got.Why, want)
		}
	}
}

// A window is over after so many commands, and a server that refuses MONITOR is named.
func TestAWindowIsBounded(t *testing.T) {
	c := startRedis(t)
	a := replica(t, c, "r1.1", "lock", "tok")
	s, costs := watcher(t, c, time.Second, fleet{a}.lives)
	s.o.Commands = 3
	s.Ask(t.Context(), Question{Lock: "l", Key: "lock", Value: "nobody"})
	if all := costs(); len(all) != 1 || !all[0].Cut || all[0].Took > 900*time.Millisecond {
		t.Errorf("windows %+v, want one that was cut", all)
	}
	testkit.Must(t, c.Do(t.Context(), "ACL", "SETUSER", "weak", "on", ">pw", "~*", "+@all", "-monitor").Err())
	s.o.Redis.Username, s.o.Redis.Password = "weak", "pw"
	if got := s.Ask(t.Context(), Question{Lock: "l", Key: "lock", Value: "nobody2"}); !strings.Contains(got.Why, "NOPERM") {
		t.Errorf("without leave: %v (%s)", got.Holders, got.Why)
	}
}
