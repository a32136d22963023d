package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/toxitest"
	"github.com/lockdrill/lockdrill/proxies/toxi"
)

// theirWay puts a proxy of somebody's own before a Redis, and says where it listens.
func theirWay(t *testing.T, api, name, redis string) (listen string) {
	t.Helper()
	p, err := toxi.New(api).Create(t.Context(), toxi.Proxy{Name: name, Listen: "127.0.0.1:0", Upstream: redis, Enabled: true})
	must(t, err)
	return p.Listen
}

// theirWayIs checks that somebody's proxy is as they made it.
func theirWayIs(t *testing.T, api, name, listen, redis string) {
	t.Helper()
	p, err := toxi.New(api).Proxy(t.Context(), name)
	if err != nil || !p.Enabled || p.Listen != listen || p.Upstream != redis || len(p.Toxics) > 0 {
		t.Errorf("their proxy is not as it was: %+v (%v)", p, err)
	}
}

// routed is the drill of electors behind proxies of their own, with another fault.
func routed(t *testing.T, api, route, redisPort, matched, lasts, fault string) string {
	t.Helper()
	return edit(t, fmt.Sprintf(foreignDrill, redisPort), "at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}", "at: 0s, for: "+lasts+", "+fault,
		"--redis "+redisPort, "--redis "+matched, "system:\n", fmt.Sprintf("proxy: {mode: external, url: %q, route: %q}\nsystem:\n", api, route))
}

// atSomebodysProxy is a drill of a service whose traffic passes a proxy of its own. Afterwards that is as it was.
func atSomebodysProxy(fault string) func(t *testing.T, lasts string) killable {
	return func(t *testing.T, lasts string) killable {
		redis, api := redistest.Start(t), toxitest.Start(t).URL
		listen := theirWay(t, api, "redis", redis)
		_, port, _ := net.SplitHostPort(redis)
		return killable{
			yaml:  routed(t, api, "redis", port, electorsAt(t, listen).port, lasts, fault),
			args:  foreignConsent,
			check: func(t *testing.T, _ string) { theirWayIs(t, api, "redis", listen, redis) },
		}
	}
}

// tapped is a service whose traffic passes a lockdrill proxy, and its drill with a fault that goes by it.
func tapped(t *testing.T, lasts, fault string) (yaml, api string) {
	t.Helper()
	redis := redistest.Start(t)
	clients, api := startProxy(t, "--upstream", redis)
	_, port, _ := net.SplitHostPort(redis)
	through := electorsAt(t, clients).port
	until(t, "an operation on a lock", func() bool {
		_, text := askProxy(t, "GET", api+"/stats", "")
		return !strings.Contains(text, `"acquire":0`)
	})
	return edit(t, fmt.Sprintf(foreignDrill, port), "at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}", "at: 0s, for: "+lasts+", "+fault,
		"--redis "+port, "--redis "+through, "system:\n", fmt.Sprintf("proxy: {api: %q}\nsystem:\n", api)), api
}

// atALockdrillProxy is such a drill. Afterwards no fault of it goes on.
func atALockdrillProxy(t *testing.T, lasts string) killable {
	yaml, api := tapped(t, lasts, "renew_failures: {holder_of: leader, mode: delay, delay: 20ms, via: proxy}")
	return killable{yaml: yaml, args: foreignConsent, check: func(t *testing.T, _ string) {
		if _, text := askProxy(t, "GET", api+"/faults", ""); strings.Contains(text, `"state":"armed"`) {
			t.Errorf("a fault goes on: %s", text)
		}
	}}
}

// Operations of a service that knows nothing of lockdrill fail on its way: what was hit is seen there, one by one, and another replica
// takes over.
func TestLiveOperationsFailAtTheServicesOwnProxy(t *testing.T) {
	besideDrills(t)
	yaml, _ := tapped(t, "5s", "renew_failures: {holder_of: leader, mode: error, count: 1, via: proxy}")
	o := runDrill(t, yaml, nil, foreignConsent...)
	s := readStruck(t, o)
	var hit, confirmed *history.Event
	for i, e := range s.events {
		switch e.Kind {
		case history.FaultHit:
			hit = &s.events[i]
		case history.FaultConfirmed:
			confirmed = &s.events[i]
		}
	}
	if o.code != verdict.ExitPass || confirmed == nil || confirmed.Fault.Hits != 1 || hit == nil || hit.Lock != "leader" || hit.Key != "sched:leader" || hit.Epoch == "" || hit.Epoch != confirmed.Epoch {
		t.Errorf("exit %d, hit %+v, confirmed %+v\n%s", o.code, hit, confirmed, o.text)
	}
}

// A drill of effects alone strikes the way to the store, and looks at a key there, although nobody there holds a lock.
func TestLiveEffectsAloneBehindTheServicesOwnProxy(t *testing.T) {
	besideDrills(t)
	redis, api := redistest.Start(t), toxitest.Start(t).URL
	listen := theirWay(t, api, "redis", redis)
	_, port, _ := net.SplitHostPort(redis)
	o := runDrill(t, fmt.Sprintf(`apiVersion: lockdrill/v1
kind: Experiment
name: foreign
environment: local
redis: {mode: external, url: "redis://127.0.0.1:%[1]s"}
proxy: {mode: external, url: %[2]q, route: redis}
system:
  mode: observe
  replicas: 3
  processes: {match: 'elector\.py --redis %[3]s --name (?P<name>\S+)'}
  effects:
    - {name: jobs, stream: ends, stranded_after: 1s, map: {job: job, state: state, terminal: [done], due: due}}
probes:
  metrics: [{name: queued, scrape: locks, key: queue, ask: length, every: 100ms}]
faults:
  - id: offer
    at: 0s
    hook:
      do: [redis-cli, -p, "%[1]s", XADD, ends, "*", job, j1, state, queued]
      confirm: [sh, -c, "redis-cli -p %[1]s XLEN ends | grep 1"]
  - {id: cut, after: offer, for: 1s, down: {}}
  - id: job
    after: cut
    hook:
      do: [redis-cli, -p, "%[1]s", XADD, ends, "*", job, j1, state, done]
      confirm: [sh, -c, "redis-cli -p %[1]s XLEN ends | grep 2"]
slos:
  - {lock: jobs, stranded: {max: 0}}
  - {lock: jobs, metric: {name: queued, max: 5}}
`, port, api, electorsAt(t, listen).port), nil, foreignConsent...)
	s := readStruck(t, o)
	confirmed := slices.ContainsFunc(s.events, func(e history.Event) bool { return e.Kind == history.FaultConfirmed && e.Fault.ID == "cut" })
	if o.code != verdict.ExitPass || !confirmed {
		t.Errorf("exit %d, confirmed %v\n%s", o.code, confirmed, o.text)
	}
	theirWayIs(t, api, "redis", listen, redis)
}

// page is what somebody's service says of itself at one address; its answer may change.
type page struct {
	url    string
	answer atomic.Pointer[string] // nil = none, the connection is closed
	turned atomic.Int64           // when the answer was asked for the first time after a change, by the wall clock
}

func newPage(t *testing.T, answer string) *page {
	p := &page{}
	p.answer.Store(&answer)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := p.answer.Load()
		if text == nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, *text)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// turn changes the answer once a process stands.
func (p *page) turn(t *testing.T, dir string, answer *string) {
	file := filepath.Join(dir, "runs", "latest", "history.jsonl")
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); <-again.C {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), `"kind":"fault.applied"`) {
			p.answer.Store(answer)
			p.turned.Store(time.Now().UnixNano())
			return
		}
	}
	t.Error("nothing was struck within two minutes")
}

// What somebody's own system says ends the run, and what struck it is undone: a process that stands goes on at once.
func TestWhatAnObservedSystemSaysEndsTheRun(t *testing.T) {
	good, bad := "errors_total 1\n", "errors_total 9\n"
	quiet, loud := `{"status":"success","data":{"resultType":"vector","result":[]}}`, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"7"]}]}}`
	metric := "probes: {lock_keys: {every: 5ms, max_gap: 3s}, metrics: [{name: errors, scrape: %q, series: errors_total, every: 500ms}]}\nabort_when: [{name: errors, metric: errors, above: 5"
	query := "probes: {lock_keys: {every: 5ms, max_gap: 3s}}\nabort_when: [{name: query, promql: {url: %q, query: 'rate > 5'}"
	for _, c := range []struct {
		what, sections, before string
		after                  *string
		within                 time.Duration // of the change
		says                   string
	}{
		{"a metric", metric + "}]", good, &bad, time.Second, "abort_when: errors: endpoint gives 9"},
		{"a metric that is away", metric + ", for: 1s}]", good, nil, 12 * time.Second, "abort_when: errors could not be asked for 10s: endpoint: refused"},
		{"a query", query + ", for: 1s}]", quiet, &loud, 3 * time.Second, "abort_when: query: the query gives 7, for 1s"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			service := startElectors(t)
			at := newPage(t, c.before)
			yaml := edit(t, fmt.Sprintf(foreignDrill, service.port),
				"at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}", "at: 0s, for: 50s, pause: {holder_of: leader}",
				"probes: {lock_keys: {every: 5ms, max_gap: 3s}} # this machine may be busy", fmt.Sprintf(c.sections, at.url))
			dir := folder(t, "foreign.yaml", yaml)
			tryIn(t, dir, append([]string{"plan", "foreign.yaml"}, foreignConsent...)...).ends(t, verdict.ExitPass, "the run ends at ")
			go at.turn(t, dir, c.after)
			got := tryIn(t, dir, append([]string{"run", "foreign.yaml"}, foreignConsent...)...)
			ended := time.Now()
			why, took, undone := "", time.Duration(0), false
			for _, e := range historyIn(t, filepath.Join(dir, "runs", "latest")).Events {
				switch e.Kind {
				case history.RunAbort:
					why = e.Note.What + ": " + e.Note.Why
				case history.FaultVerified:
					undone = true
				case history.RunEnd:
					took = ended.Sub(time.Unix(0, at.turned.Load()))
				}
			}
			if got.code != verdict.ExitAborted || !strings.HasPrefix(why, "condition: "+c.says) || !undone {
				t.Errorf("exit %d, aborted by %q, undone %v, want %q\n%s", got.code, why, undone, c.says, got.stderr)
			}
			if strings.Contains(c.says, "could not be asked") && !strings.Contains(got.stderr, "cannot be asked") {
				t.Errorf("nobody was told:\n%s", got.stderr)
			}
			if took > c.within+10*time.Second { // stopping and judging take their time here
				t.Errorf("it ended %s after the change, want %s", took, c.within)
			}
			service.goOn(t)
		})
	}
}
