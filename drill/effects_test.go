package drill

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// watchedJobs is an experiment about somebody's jobs, which are read from source.
func watchedJobs(t *testing.T, addr, source string) *experiments.Experiment {
	t.Helper()
	e, err := experiments.Parse("jobs.yaml", fmt.Appendf(nil, `
apiVersion: lockdrill/v1
kind: Experiment
name: jobs
environment: staging
redis: {mode: external, url: "redis://%s"}
system:
  mode: observe
  replicas: 2
  processes: {match: 'nobody (?P<name>\S+)'}
  locks:
    - {name: job, profile: cordum/scheduler-job, key_prefix: "j:"}
  effects:
    - {name: jobs, lock: job, %s, map: {job: job, state: state, terminal: [DONE], replica: who}}
faults:
  - {id: kill, kill: {holder_of: job}}
slos:
  - {lock: job, takeover: {max: 95s}}
`, addr, source))
	testkit.Must(t, err)
	return e
}

func TestPlanShowsTheLastEffectsAsTheyAreRead(t *testing.T) {
	addr := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	for _, state := range []string{"QUEUED", "RUNNING", "DONE"} {
		testkit.Must(t, c.XAdd(t.Context(), &redis.XAddArgs{Stream: "log", Values: []string{"job", "7", "state", state, "who", "w-1"}}).Err())
	}
	before, _ := c.Keys(t.Context(), "*").Result()
	var plan forecast.Plan
	testkit.Must(t, lookUpEffects(t.Context(), watchedJobs(t, addr, "stream: log"), Consent{}, &plan))
	if x := plan.Effects[0]; len(x.Last) != 3 || x.Last[2] != "job 7: DONE (ends it), key j:7, by w-1" || x.Last[1] != "job 7: RUNNING (at work), key j:7, by w-1" {
		t.Errorf("%+v", x)
	}
	if after, _ := c.Keys(t.Context(), "*").Result(); len(after) != len(before) {
		t.Errorf("keys were written: %v", after)
	}
}

func TestSourcesThatCannotBeRead(t *testing.T) {
	addr := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	c.Set(t.Context(), "text", "x", 0)
	c.XAdd(t.Context(), &redis.XAddArgs{Stream: "other", Values: []string{"id", "7"}})
	for source, want := range map[string]struct {
		status int
		says   string
	}{
		"stream: text":  {verdict.ExitUsage, "the key text is no stream"},
		"stream: other": {verdict.ExitUsage, "no entry has the column job that map names: there are id"},
		"sql: {driver: postgres, dsn_env: NOT_SET, query: 'SELECT id FROM t WHERE id > $1 ORDER BY id', cursor: id}": {verdict.ExitUsage, "NOT_SET"},
		"http: {url: 'http://127.0.0.1:1/jobs'}": {verdict.ExitRefused, "127.0.0.1:1"},
		"file: /nowhere/at/all/*.log":            {verdict.ExitUsage, "no file is there"},
	} {
		d := &Drill{e: watchedJobs(t, addr, source), clock: func() int64 { return 0 }}
		err := d.openEffects(t.Context())
		_ = d.closeProbes()
		refused := new(Error)
		if !errors.As(err, &refused) || refused.Status != want.status || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v (%+v), want %d with %q", source, err, refused, want.status, want.says)
		}
	}
}

// What says of itself that it is a gauge is refused before anything is touched where a counter is wanted, at the row or the lock that wants
// it. A counter is taken, a highest value too, and what does not answer yet.
func TestAGaugeIsNotCounted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics":
			fmt.Fprint(w, "# TYPE queue gauge\nqueue 1\n# TYPE lost counter\nlost_total 1\n")
		case r.URL.Path == "/api/v1/metadata":
			fmt.Fprintf(w, `{"status":"success","data":{%q:[{"type":%q}]}}`, r.FormValue("metric"), map[bool]string{true: "gauge", false: "counter"}[r.FormValue("metric") == "queue"])
		case r.FormValue("query") == "time()":
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1.5,"1.5"]}}`)
		default:
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1.5,"1"]]}]}}`)
		}
	}))
	defer server.Close()
	for _, c := range []struct{ probe, lock, row, says string }{
		{"metrics: [{name: m, scrape: 'URL/metrics', series: queue}]", "", "{metric: {name: m, delta: 2}}", "drill.yaml:12:5: delta of metric m needs a counter, and queue at URL/metrics says that it is a gauge"},
		{"metrics: [{name: m, scrape: 'URL/metrics', series: queue}]", "", "{metric: {name: m, max: 2}}", ""},
		{"metrics: [{name: m, scrape: 'URL/metrics', series: lost_total}]", "", "{metric: {name: m, delta: 2}}", ""},
		{"metrics: [{name: m, scrape: 'URL/metrics', series: absent}]", "", "{metric: {name: m, rate: 2}}", ""},
		{"metrics: [{name: m, scrape: 'URL/metrics', series: queue}]", ", abandoned_by: {metric: m}", "{abandonments: {max: 2}}", "drill.yaml:8:14: what tells of lock job by the count of metric m needs a counter"},
		{"promql: [{name: m, url: 'URL', query: queue, step: 1s}]", "", "{metric: {name: m, rate: 2}}", "drill.yaml:12:5: rate of metric m needs a counter, and queue at URL says"},
		{"promql: [{name: m, url: 'URL', query: lost_total, step: 1s}]", "", "{metric: {name: m, rate: 2}}", ""},
		{"promql: [{name: m, url: 'URL', query: queue, step: 1s}]", "", "{metric: {name: m, max: 2}}", ""},
	} {
		text := strings.NewReplacer("URL", server.URL).Replace(`apiVersion: lockdrill/v1
kind: Experiment
name: base
redis: {mode: external, url: "redis://127.0.0.1:6379"}
system:
  mode: observe
  replicas: 3
  locks: [   {name: job, key: job, ttl: 12s, poll: 2s` + c.lock + `}]
  processes: {match: 'sched --name (?P<name>\S+)'}
probes: {` + c.probe + `}
slos:
  - {lock: job, ` + strings.TrimPrefix(c.row, "{") + "\n")
		e, err := experiments.Parse("drill.yaml", []byte(text))
		testkit.Must(t, err)
		d := &Drill{e: e, clock: func() int64 { return 0 }}
		err = errors.Join(d.findAskers(t.Context()), d.openQueries(t.Context()))
		_ = d.closeProbes()
		says, refused := strings.ReplaceAll(c.says, "URL", server.URL), new(Error)
		if (err != nil) != (says != "") || err != nil && (!errors.As(err, &refused) || refused.Status != verdict.ExitUsage || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s, %s: %v, want %q", c.probe, c.row, err, says)
		}
	}
}

// A metric whose target did not answer is not one that is not there.
func TestPlanDoesNotCallASeriesAbsentThatItCouldNotRead(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, "other 1\n")
	}))
	defer server.Close()
	m := &experiments.Metric{Name: "leader", Series: "leader", Scrape: server.URL}
	if got := lookUpMetric(t.Context(), m, nil).Why; !strings.HasPrefix(got, "no such series now") {
		t.Errorf("of a page without the series: %s", got)
	}
	status = http.StatusUnauthorized
	if got := lookUpMetric(t.Context(), m, nil).Why; !strings.HasPrefix(got, "cannot be read now") {
		t.Errorf("of a page that is refused: %s", got)
	}
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "other 1\n") }))
	defer open.Close()
	m.Scrape = experiments.ScrapeReplicas
	two := []testbed.Found{{Name: "a", Metrics: open.URL}, {Name: "b", Metrics: server.URL}}
	if got := lookUpMetric(t.Context(), m, two); !strings.Contains(got.Why, "1 of 2 did not") || !slices.Contains(got.First, "b: no answer (HTTP 401 Unauthorized)") {
		t.Errorf("of two pages, of which one is refused: %+v", got)
	}
}

// A program that is to tell who leads, and is not there, refuses plan and run: a run would find out by nobody's answer, after half a minute.
func TestAProgramThatIsNotThereIsRefused(t *testing.T) {
	for _, c := range []struct{ lock, holder, says string }{
		{"belief: {command: {run: [./who-leads]}}", "", "drill.yaml:8:14: belief of lock job: ./who-leads cannot be run: no such file or directory"},
		{"belief: {command: {run: [echo]}}", "", ""},
		{"", "holder: [{command: {run: [no-such-program, '{key}']}}]", "system.holder: no-such-program cannot be run: executable file not found"},
		{"", "holder: [{command: {run: [echo, '{key}']}}]", ""},
	} {
		e, err := experiments.Parse("drill.yaml", []byte(`apiVersion: lockdrill/v1
kind: Experiment
name: base
redis: {mode: external, url: "redis://127.0.0.1:6379"}
system:
  mode: observe
  replicas: 3
  locks: [   {name: job, key: job, ttl: 12s, poll: 2s, `+c.lock+`}]
  processes: {match: 'sched --name (?P<name>\S+)'}
  `+c.holder+`
slos:
  - {lock: job, held: {max: 20s}}
`))
		testkit.Must(t, err)
		d := &Drill{e: e, clock: func() int64 { return 0 }}
		refused := new(Error)
		err = d.findPrograms(t.Context())
		if (err != nil) != (c.says != "") || err != nil && (!errors.As(err, &refused) || refused.Status != verdict.ExitUsage || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}
