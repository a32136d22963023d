package experiments

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// merged is a file with the lines of another: entries of lists are those of the same name.
func merged(into, more any) any {
	switch m := more.(type) {
	case map[string]any:
		all, _ := into.(map[string]any)
		if all == nil {
			all = map[string]any{}
		}
		all = maps.Clone(all)
		for k, v := range m {
			all[k] = merged(all[k], v)
		}
		return all
	case []any:
		all, _ := into.([]any)
		for _, x := range m {
			at := -1
			for i := range all {
				if a, is := all[i].(map[string]any); is && a["name"] != nil && a["name"] == x.(map[string]any)["name"] {
					at = i
				}
			}
			if at < 0 {
				all = append(all, x)
			} else {
				all[at] = merged(all[at], x)
			}
		}
		return all
	}
	return more
}

// What cannot be answered for want of a source is answered once the lines stand in the file that the refusal shows.
func TestTheLinesOfARefusalAddWhatIsMissing(t *testing.T) {
	const base = `{apiVersion: lockdrill/v1, kind: Experiment, name: base, environment: staging, redis: {mode: external, url: "redis://127.0.0.1:6379"},
system: {mode: observe, replicas: 3, processes: {match: 'sched --name (?P<name>\S+) --port (?P<port>\d+)'%s}, holder: [value: {}],
  locks: [{name: loop, ttl: 10s, poll: 2s}, {name: job, ttl: 10s}], effects: [{name: others, lock: job, stream: others, map: {job: id, state: state, terminal: [DONE]}}]},
faults: [{id: crash, kill: {holder_of: loop}}], slos: [{lock: loop, takeover: {max: 120s}}]}`
	added := map[string]bool{}
	for _, where := range []string{"", ", log: '/var/log/{name}.log'", `, metrics: "http://127.0.0.1:{port}/metrics"`} {
		file := strings.Replace(base, "%s", where, 1)
		e, err := Parse("base.yaml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range tellers() {
			for _, lock := range []string{"loop", "job"} {
				g := e.untold(lock, row.measure)
				of := lock == "loop" && row.loops || lock == "job" && row.jobs
				if g.why == "" || !of {
					if g.adds != "" {
						t.Errorf("%s of %s: %q adds what is not asked for", row.measure, lock, g.adds)
					}
					continue
				}
				if n := strings.Count(g.adds, "\n"); g.adds == "" || n > 2 || strings.ContainsAny(g.why+g.next, "\n") {
					t.Errorf("%s of %s: %d lines, %q", row.measure, lock, n+1, g.adds)
					continue
				}
				var doc, more any
				if err := yaml.Unmarshal([]byte(file), &doc); err != nil {
					t.Fatal(err)
				}
				if err := yaml.Unmarshal([]byte(g.adds), &more); err != nil {
					t.Errorf("%s of %s: %v", row.measure, lock, err)
					continue
				}
				data, err := yaml.Marshal(merged(doc, more))
				if err != nil {
					t.Fatal(err)
				}
				with, err := Parse("with.yaml", data)
				if err != nil {
					t.Errorf("%s of %s: with %q the file is wrong: %v", row.measure, lock, g.adds, err)
				} else if again := with.untold(lock, row.measure); again.why != "" {
					t.Errorf("%s of %s: with %q it is still not answered: %s", row.measure, lock, g.adds, again.why)
				}
				added[row.measure] = true
			}
		}
	}
	for _, measure := range []string{"abandonments", "busy.count", "not_owned.renew", "not_owned.release", "failed_releases.calls", "wait", "duplicate_epochs", "overlap.belief", "loss_to_fence", "overlap.effect", "stale_writes", "unowned_work", "tick_gap"} {
		if !added[measure] {
			t.Errorf("no file lacked the source of %s", measure)
		}
	}
}

// What plan says can be promised of a lock is what validate takes, and the rest is what it refuses.
func TestWhatIsAnsweredIsWhatValidateTakes(t *testing.T) {
	e, err := Parse("x.yaml", []byte(`
apiVersion: lockdrill/v1
kind: Experiment
name: x
environment: staging
redis: {mode: external, url: "redis://127.0.0.1:1"}
system:
  mode: observe
  replicas: 2
  processes: {match: 'x (?P<name>\S+)', metrics: "http://127.0.0.1:{pid}/metrics"}
  locks:
    - {name: leader, key: leader, ttl: 10s, poll: 2s, belief: {metric: {series: leads}}}
    - {name: job, key_prefix: "job:", ttl: 10s}
  effects: [{name: jobs, lock: job, stream: jobs, map: {job: id, state: state, terminal: [done], token: token}}]
faults: [{id: kill, kill: {holder_of: leader}}]
slos: [{lock: leader, takeover: {max: 30s}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for lock, want := range map[string][]string{
		"leader": {"keys: takeover vanished held overlap.lease", "belief: leaderless overlap.belief", "keys and belief: loss_to_fence"},
		"job":    {"keys and effects: takeover overlap.effect stale_writes unowned_work lock_debt.max lock_debt.total", "effects: stranded duplicate_terminal_states re_executed"},
	} {
		var got []string
		for _, a := range e.Answered(e.Lock(lock)) {
			for _, measure := range a.Measures {
				if why, _ := e.Untold(lock, measure); (why == "") != (a.By != "") {
					t.Errorf("%s of %s: by %q, and validate says %q", measure, lock, a.By, why)
				}
			}
			got = append(got, a.By+": "+strings.Join(a.Measures, " "))
		}
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("%s: no %q in\n%s", lock, line, strings.Join(got, "\n"))
			}
		}
		if last := got[len(got)-1]; !strings.HasPrefix(last, ": abandonments") {
			t.Errorf("%s: what nothing tells is %q", lock, last)
		}
	}
}
