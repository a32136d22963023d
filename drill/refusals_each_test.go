package drill

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// twins are a drill that exactly one guard refuses, and one that differs in nothing else and is let through, both in words.
// refusedBy names the guards that refuse the one or the other.
type twins struct {
	wrong, right string
	refusedBy    func(t *testing.T, wrong bool) []string
}

// either is what stands in the file of the one and of the other.
func either(wrong bool, no, yes string) string {
	if wrong {
		return no
	}
	return yes
}

// refuseRun are the guards that refuse a run; all that do not are asked, too.
func refuseRun(t *testing.T, sections string, c Consent) []string {
	t.Helper()
	return whoRefuses(t, Authorize(t.Context(), guarded(t, sections), c))
}

func whoRefuses(t *testing.T, err error) (names []string) {
	t.Helper()
	no, said := new(Refusal), new(Error)
	if err != nil && (!errors.As(err, &no) || !errors.As(err, &said) || said.Status != verdict.ExitRefused) {
		t.Fatalf("%v, want a refusal", err)
	}
	for _, g := range no.guards {
		if names = append(names, g.Name); !strings.Contains(err.Error(), g.Name+": "+g.Says) {
			t.Errorf("%s is not named: %v", g.Name, err)
		}
	}
	return names
}

// refusePlan are the guards that refuse a plan.
func refusePlan(t *testing.T, sections string, c Consent) (names []string) {
	t.Helper()
	plan, err := Plan(t.Context(), guarded(t, sections), c, func(string) {})
	testkit.Must(t, err)
	for _, g := range plan.Guards {
		if g.Refuses {
			t.Logf("%s: %s", g.Name, g.Says)
			names = append(names, g.Name)
		}
	}
	return names
}

// ofFile is of what a file says of a drill whose targets are all its own.
func ofFile(no, yes string) func(t *testing.T, wrong bool) []string {
	return func(t *testing.T, wrong bool) []string { return refuseRun(t, either(wrong, no, yes), Consent{}) }
}

// ofCluster is of a cluster for staging with two pods, after no has spoilt it; more is what the file adds to the usual sections.
func ofCluster(t *testing.T, more string, wrong bool, no func(*apiServer)) []string {
	t.Helper()
	api := &apiServer{environment: "staging", pods: []string{"web-a", "web-b"}}
	if wrong {
		no(api)
	}
	return refuseRun(t, podSections(t)+more, api.as(t))
}

// answers serves one text, of a proxy that stands by itself.
func answers(t *testing.T, text string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// ownProcesses are the sections of two living processes that somebody else has started, and the consent to drill them.
func ownProcesses(t *testing.T, replicas int, addr string) (string, Consent) {
	t.Helper()
	folder := t.TempDir()
	owner := exec.Command("sh", "-c", "cd '"+folder+"'; for n in a b; do sleep 600 >&2 & echo $! >$n.pid; done; echo; wait")
	owner.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started, err := owner.StdoutPipe()
	if err == nil {
		err = owner.Start()
	}
	testkit.Must(t, err)
	t.Cleanup(func() { _ = syscall.Kill(-owner.Process.Pid, syscall.SIGKILL); _ = owner.Wait() })
	if _, err := started.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("environment: staging\nredis: {mode: external, url: 'redis://%s'}\n"+
		"system: {mode: observe, replicas: %d, processes: {pid_files: '%s/{name}.pid'}, locks: [{name: loop, key: the-loop, profile: cordum/scheduler-reconciler}]}\n",
		addr, replicas, folder), Consent{Confirm: []string{"guarded"}, Environment: "staging"}
}

var eachGuard = map[guardName]twins{
	killSwitchGuardName: {"`limits.kill_switch` is a file that is there", "it is not there", ofFile("limits: {kill_switch: /}\n", "limits: {kill_switch: /no-such-file}\n")},
	calendarGuardName:   {"a blackout lasts all day", "there is none", ofFile("blackouts: [{from: '00:00', to: '00:00', zone: UTC}]\n", "")},
	machineGuardName: {"the runner may open 200 files", "it may open 1,024", func(t *testing.T, wrong bool) (names []string) {
		host := machine{cores: 2, memory: 8 << 30, files: 1024}
		if wrong {
			host.files = filesRunner
		}
		if g := host.guard(guarded(t, "")); g.Refuses {
			names = append(names, g.Name)
		}
		return names
	}},
	storeGuardName: {"`redis.mode` is `auto`, there is no redis-server, and the store is to be frozen", "there is one", func(t *testing.T, wrong bool) []string {
		if _ = redistest.Start(t); wrong { // which skips where there is none
			t.Setenv("PATH", t.TempDir())
		}
		return refuseRun(t, "redis: {mode: auto}\nfaults: [{id: gone, for: 1s, store: {do: freeze}}]\n", Consent{})
	}},
	confirmGuardName: {"the Redis is somebody's own", "so it is, with `--confirm`", func(t *testing.T, wrong bool) []string {
		c := Consent{Environment: "staging", Confirm: []string{"guarded"}}
		if wrong {
			c.Confirm = nil
		}
		return refuseRun(t, "environment: staging\nredis: {mode: external, url: 'redis://"+redistest.Start(t)+"'}\n", c)
	}},
	environmentGuardName: {"the file is for `staging`, and the run starts everything itself", "it is for `local`", ofFile("environment: staging\n", "environment: local\n")},
	namespaceGuardName: {"`limits.namespaces` has another one", "it has that one", func(t *testing.T, wrong bool) []string {
		return ofCluster(t, "limits: {namespaces: ["+either(wrong, "other", "locks")+"]}\n", wrong, func(*apiServer) {})
	}},
	permissionsGuardName: {"the logs of pods may not be read", "they may", func(t *testing.T, wrong bool) []string {
		return ofCluster(t, "", wrong, func(a *apiServer) { a.denied = "pods/log" })
	}},
	podsGuardName: {"one pod is ready, of two replicas", "two are", func(t *testing.T, wrong bool) []string {
		return ofCluster(t, "", wrong, func(a *apiServer) { a.pods = a.pods[:1] })
	}},
	processesGuardName: {"two processes are found, of three replicas", "two, of two", func(t *testing.T, wrong bool) []string {
		replicas := 2
		if wrong {
			replicas = 3
		}
		sections, c := ownProcesses(t, replicas, redistest.Start(t))
		return refuseRun(t, sections, c)
	}},
	rightsGuardName: {"the Redis has no memory left", "it has", func(t *testing.T, wrong bool) []string {
		addr := redistest.Start(t)
		c := redis.NewClient(&redis.Options{Addr: addr})
		defer c.Close()
		testkit.Must(t, c.ConfigSet(t.Context(), "maxmemory", either(wrong, "1", "0")).Err())
		return refuseRun(t, "environment: staging\nredis: {mode: external, url: 'redis://"+addr+"'}\n", Consent{Environment: "staging", Confirm: []string{"guarded"}})
	}},
	routeGuardName: {"the Toxiproxy's proxy is disabled", "it is enabled", func(t *testing.T, wrong bool) []string {
		addr := redistest.Start(t)
		sections, c := ownProcesses(t, 2, addr)
		proxy := answers(t, fmt.Sprintf(`{"way": {"name": "way", "listen": %q, "upstream": %[1]q, "enabled": %[2]t, "toxics": []}}`, addr, !wrong))
		return refuseRun(t, sections+"proxy: {mode: external, url: '"+proxy+"', route: way}\nfaults: [{id: slow, for: 1s, latency: {all: true, add: 1ms}}]\n", c)
	}},
	tapGuardName: {"no operation has passed the proxy", "one has", func(t *testing.T, wrong bool) []string {
		sections, c := ownProcesses(t, 2, redistest.Start(t))
		api := answers(t, `{"names": {"a": {"acquire": `+either(wrong, "0", "1")+`}}}`)
		return refuseRun(t, sections+"proxy: {api: '"+api+"'}\nfaults: [{id: lost, for: 1s, acquire_failures: {all: true, lock: loop, count: 1, via: proxy}}]\n", c)
	}},
	apiProxyGuardName: {"nobody has connected through the proxy", "one has", func(t *testing.T, wrong bool) []string {
		api := answers(t, `{"sources": {`+either(wrong, "", `"127.0.0.1": 1`)+`}, "ends_tls": true}`)
		return refuseRun(t, "environment: staging\nkubernetes: {selector: {app: web}, api_proxy: '"+api+"'}\n"+
			"system: {mode: observe, replicas: 2, locks: [{name: loop, lease: the-loop, profile: kubernetes/leader-election}]}\n"+
			"faults: [{id: gone, for: 1s, api_server: {all: true, do: away}}]\n", (&apiServer{environment: "staging", pods: []string{"web-a", "web-b"}}).as(t))
	}},
	blockGuardName: {"the file of `blocked_by` is there", "it is not there", ofFile("blocked_by: [{file: /}]\n", "blocked_by: [{file: /no-such-file}]\n")},
	sourcesGuardName: {"the Prometheus of a query does not answer", "it answers", func(t *testing.T, wrong bool) []string {
		at := either(wrong, "http://127.0.0.1:1", answers(t, `{"status": "success", "data": {"resultType": "vector", "result": []}}`))
		return refusePlan(t, "probes: {promql: [{name: up, url: '"+at+"', query: count(up), step: 1s}]}\nslos: [{lock: loop, metric: {name: up, max: 2}}]\n", Consent{})
	}},
	targetGuardName: {"a killed run has not given the Redis back", "it had another one", func(t *testing.T, wrong bool) []string {
		t.Chdir(t.TempDir())
		addr := redistest.Start(t)
		_ = testkit.LeftBy(t, "runs/killed", undo.Header{Run: "killed", Targets: []string{"redis://" + either(wrong, addr, "10.0.0.9:6379")}, Runner: testkit.Dead(t)},
			undo.Record{Kind: "pause"}).Close() // it is not undone
		return refusePlan(t, "environment: staging\nredis: {mode: external, url: 'redis://"+addr+"'}\n", Consent{Environment: "staging", Confirm: []string{"guarded"}})
	}},
	folderGuardName: {"everybody may write to the folder", "only its owner may", func(t *testing.T, wrong bool) []string {
		d := &Drill{e: guarded(t, ""), dir: filepath.Join(t.TempDir(), "run")}
		mode := os.FileMode(0o755)
		if wrong {
			mode = 0o777
		}
		testkit.Must(t, errors.Join(os.Mkdir(d.dir, mode), os.Chmod(d.dir, mode)))
		return whoRefuses(t, d.trustFolder())
	}},
	planGuardName: {"`--plan` has the hash of another file", "it has the hash of this one", func(t *testing.T, wrong bool) []string {
		hash, err := PlanHash(t.Context(), guarded(t, either(wrong, "seed: 7\n", "")), Consent{}, "lockdrill 1")
		testkit.Must(t, err)
		return whoRefuses(t, AsApproved(t.Context(), guarded(t, ""), Consent{}, "lockdrill 1", hash))
	}},
}

// docs/oracles.md lists them, and misses a guard that is not here.
func TestEachGuardRefusesAloneAndLetsItsTwinThrough(t *testing.T) {
	for name, c := range eachGuard {
		t.Run(name, func(t *testing.T) {
			if got := c.refusedBy(t, true); !slices.Equal(got, []string{name}) {
				t.Errorf("%s: refused by %q, want that alone", c.wrong, got)
			}
		})
		t.Run(name+" lets through", func(t *testing.T) {
			if got := c.refusedBy(t, false); len(got) > 0 {
				t.Errorf("%s: refused by %q", c.right, got)
			}
		})
	}
}
