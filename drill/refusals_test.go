package drill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/stores"
)

// guarded is a drill of one leader loop, with sections of its own.
func guarded(t *testing.T, sections string) *experiments.Experiment {
	t.Helper()
	text := "apiVersion: lockdrill/v1\nkind: Experiment\nname: guarded\n" + sections
	for section, usual := range map[string]string{
		"system:": "system: {mode: embedded, replicas: 2, locks: [{name: loop, key: the-loop, profile: cordum/scheduler-reconciler}]}\n",
		"faults:": "faults: [{id: slow, kill: {holder_of: loop}}]\n", "redis:": "redis: {mode: embedded}\n",
		"slos:": "slos: [{lock: loop, takeover: {max: 95s}}]\n",
	} {
		if !strings.Contains("\n"+sections, "\n"+section) {
			text += usual
		}
	}
	e, err := experiments.Parse("guarded.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return e
}

// refusal is what a guard says: to a run and to the plan of it. The plan ends with it, unless notYet: then it is of this hour, or of what an
// operator has not said yet.
type refusal struct {
	sections string
	consent  Consent
	notYet   bool
	says     []string // none: nothing refuses
}

func (r refusal) holds(t *testing.T) {
	t.Helper()
	e := guarded(t, r.sections)
	no := new(Error)
	err := Authorize(t.Context(), e, r.consent)
	plan, planned := Plan(t.Context(), guarded(t, r.sections), r.consent, func(string) {})
	switch {
	case planned != nil:
		t.Errorf("%+v: the plan: %v", r, planned)
		return
	case len(r.says) == 0:
		if err != nil || slices.ContainsFunc(plan.Guards, refuses) {
			t.Errorf("%+v: %v, planned %+v", r, err, plan.Guards)
		}
		return
	case !errors.As(err, &no) || no.Status != verdict.ExitRefused:
		t.Errorf("%+v: %v, want a refusal", r, err)
		return
	}
	for _, want := range r.says {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: it says %q, want %q in it", r, err, want)
		}
	}
	if !slices.ContainsFunc(plan.Guards, refuses) || slices.ContainsFunc(plan.Guards, stops) == r.notYet {
		t.Errorf("%+v: planned %+v", r, plan.Guards)
	}
}

func TestWhatTheFileSaysRefuses(t *testing.T) {
	t.Parallel()
	stop := filepath.Join(t.TempDir(), "stop")
	testkit.Must(t, os.WriteFile(stop, nil, 0o600))
	day := strings.ToLower(time.Now().UTC().AddDate(0, 0, 3).Weekday().String()[:3])
	hook := "faults: [{id: h, for: 1s, hook: {holder_of: loop, do: [touch, x], undo: ['true'], confirm: ['true'], dir: /}}]\n"
	proxy := "environment: staging\nproxy: {mode: external, url: 'http://127.0.0.1:8474'}\nfaults: [{id: slow, latency: {holder_of: loop, add: 1ms}, for: 1s}]\n"
	for _, r := range []refusal{
		{},
		{sections: "limits: {kill_switch: " + stop + ".not}\n"},
		{sections: "limits: {kill_switch: " + stop + "}\n", says: []string{"kill switch", stop}},
		{sections: "windows: [{days: [" + day + "], zone: UTC}]\n", notYet: true, says: []string{"calendar", "outside of the windows " + day, "it opens"}},
		{sections: "blackouts: [{from: '00:00', to: '00:00', zone: Europe/Berlin}]\n", notYet: true, says: []string{"calendar", "within the blackout", "does not open within"}},
		{sections: "environment: staging\n", says: []string{"environment", `"staging"`, `"local"`}},
		{sections: proxy, notYet: true, says: []string{"2 guards are not met\n  confirm: ", "toxiproxy http://127.0.0.1:8474", "--confirm guarded", "\n  environment: "}},
		{sections: proxy, consent: Consent{Confirm: []string{"guarded"}}, notYet: true, says: []string{"Toxiproxy does not say what it is for", "--environment staging"}},
		// Nobody else knows what a command strikes: it needs the operator's word.
		{sections: hook, notYet: true, says: []string{"add --confirm guarded"}},
		{sections: hook, consent: Consent{Confirm: []string{"guarded"}}, notYet: true, says: []string{"say --environment local"}},
		{sections: hook, consent: Consent{Confirm: []string{"guarded"}, Environment: "prod"}, says: []string{`and the target is "prod"`}},
	} {
		r.holds(t)
	}
}

// A Redis that is not the run's own says what it is for, in any of its databases, or the operator does; and one who may touch it says so too.
func TestSomebodysRedisRefuses(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	set := func(db int, environment string) {
		t.Helper()
		c := redis.NewClient(&redis.Options{Addr: addr, DB: db})
		defer c.Close()
		testkit.Must(t, c.Set(t.Context(), stores.EnvironmentKey, environment, 0).Err())
	}
	at := func(db string) string {
		return "environment: staging\nredis: {mode: external, url: 'redis://" + addr + db + "'}\n"
	}
	confirmed := Consent{Confirm: []string{"guarded"}}
	said := func(environment string) Consent { return Consent{Confirm: confirmed.Confirm, Environment: environment} }
	for _, step := range []struct {
		set  func()
		want []refusal
	}{
		{func() {}, []refusal{
			{at(""), Consent{Environment: "staging"}, true, []string{"confirm", "redis://" + addr, "--confirm guarded"}},
			{at(""), Consent{Environment: "staging", Confirm: []string{"staging"}}, true, []string{"--confirm guarded", "not staging"}},
			{at(""), confirmed, true, []string{"does not say what it is", stores.EnvironmentKey, "--environment staging"}},
			{at(""), said("production"), false, []string{`for "staging"`, `"production"`}},
		}},
		{func() { set(0, "production") }, []refusal{ // also of another database, as redis-cli SET has it without -n
			{at(""), confirmed, false, []string{`for "staging"`, `"production"`, stores.EnvironmentKey}},
			{at("/2"), said("staging"), false, []string{`says it is "production"`, `--environment says "staging"`}},
		}},
		{func() { set(2, "staging") }, []refusal{{at("/2"), confirmed, false, []string{"environment", `"staging"`, `"production"`, "database 0"}}}},
		{func() { set(0, "staging") }, []refusal{{at("/2"), confirmed, false, nil}, {at(""), confirmed, false, nil}}},
	} {
		step.set()
		for _, r := range step.want {
			r.holds(t)
		}
	}
	nobody := "environment: staging\nredis: {mode: external, url: 'redis://127.0.0.1:1'}\n"
	refusal{nobody, confirmed, false, []string{"environment", "could not be asked"}}.holds(t)
	refusal{nobody, Consent{}, false, []string{"confirm"}}.holds(t) // a plan asks on
	no := new(Error)
	unset := guarded(t, strings.Replace(nobody, "'}", "', password_env: NOT_SET_HERE}", 1))
	if err := Authorize(t.Context(), unset, confirmed); !errors.As(err, &no) || no.Status != verdict.ExitUsage || !strings.Contains(err.Error(), "NOT_SET_HERE") {
		t.Errorf("without the variable: %v", err)
	}
	if _, err := Plan(t.Context(), unset, confirmed, func(string) {}); err == nil || !strings.Contains(err.Error(), "NOT_SET_HERE") {
		t.Errorf("a plan without the variable: %v", err)
	}
}

// Somebody's processes are all found before one is struck, and none of them is the drill's own.
func TestSomebodysProcessesRefuse(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	_, self := testkit.Sleeper(t)
	_, other := testkit.Sleeper(t)
	folder := t.TempDir()
	for name, pid := range map[string]int{"a": self.PID, "b": other.PID, "me": os.Getpid()} {
		testkit.Must(t, os.WriteFile(filepath.Join(folder, name+".pid"), fmt.Append(nil, pid), 0o600))
	}
	with := func(processes string, replicas int) string {
		return fmt.Sprintf("environment: staging\nredis: {mode: external, url: 'redis://%s'}\nsystem: {mode: observe, replicas: %d, processes: {%s}, locks: [{name: loop, key: the-loop, profile: cordum/scheduler-reconciler}]}\n",
			addr, replicas, processes)
	}
	yes := Consent{Confirm: []string{"guarded"}, Environment: "staging"}
	for _, r := range []refusal{
		{with("match: 'no-such-(?P<name>program)'", 2), yes, false, []string{"processes", "0 processes (command line matches no-such-"}},
		{with("pid_files: '"+folder+"/{name}.pid'", 4), yes, false, []string{"processes", "system.replicas is 4"}},
		{with("pid_files: '"+folder+"/{name}.pid'", 3), yes, false, []string{"processes", "lockdrill's own"}}, // this very process
	} {
		r.holds(t)
	}
}
