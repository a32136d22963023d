package experiments

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	_ "time/tzdata"
)

var update = flag.Bool("update", false, "rewrite the expected messages in testdata/bad")

// TestBadFiles holds every bad file against its exact messages. Read the diff after -update.
func TestBadFiles(t *testing.T) {
	for folder, parse := range map[string]func(file string, data []byte) error{
		"testdata/bad":          func(file string, data []byte) error { _, err := Parse(file, data); return err },
		"testdata/gamedays/bad": func(file string, data []byte) error { _, err := ParseGameDay(file, data, nil); return err },
	} {
		files, err := filepath.Glob(folder + "/*.yaml")
		if err != nil || len(files) < 3 {
			t.Fatalf("%d bad files: %v", len(files), err)
		}
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
				got := messages(t, file, parse)
				golden := strings.TrimSuffix(file, ".yaml") + ".txt"
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				if want, err := os.ReadFile(golden); err != nil || got != string(want) {
					t.Errorf("messages of %s (%v):\n%s\nwant:\n%s", file, err, got, want)
				}
				if strings.Contains(got, "hunter2") {
					t.Error("a message carries a secret")
				}
			})
		}
	}
}

// messages parses a bad file under its base name, so that the expected messages hold no path.
func messages(t *testing.T, file string, parse func(file string, data []byte) error) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var problems Problems
	if err := parse(filepath.Base(file), data); !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("%s gives %v, want Problems only", file, err)
	}
	place := regexp.MustCompile(`^[a-z/-]+\.yaml:[1-9]\d*:[1-9]\d*: `)
	for _, p := range problems {
		if !place.MatchString(p.String()) {
			t.Errorf("no file:line:column: %s", p.String())
		}
	}
	return problems.Error() + "\n"
}

func TestLoad(t *testing.T) {
	e, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if e.Name != "base" || len(e.System.Locks) != 2 {
		t.Errorf("loaded %+v", e)
	}
	var problems Problems
	if _, err := Load("testdata/no-such.yaml"); err == nil || errors.As(err, &problems) {
		t.Errorf("a file that is not there: %v, want an error other than Problems", err)
	}
	if _, err := Load("testdata/bad/unknown-field.yaml"); !errors.As(err, &problems) || problems[0].File != "testdata/bad/unknown-field.yaml" {
		t.Errorf("a bad file: %v, want Problems under the path given", err)
	}
}

func TestHugeFile(t *testing.T) {
	if _, err := Parse("huge", make([]byte, MaxFile+1)); err == nil || !strings.Contains(err.Error(), "over") {
		t.Errorf("a huge file: %v", err)
	}
}

// FuzzParse: no input makes the reader panic, and no problem is without a place.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "testdata/good.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Parse("fuzz.yaml", data)
		var problems Problems
		if err == nil {
			if _, err := Marshal(e); err != nil {
				t.Fatal(err)
			}
			return
		}
		if !errors.As(err, &problems) {
			t.Fatalf("%T: %v", err, err)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 {
				t.Fatalf("no place: %+v", p)
			}
		}
	})
}

// A recorded run is read although it asks for what is not asked any more.
func TestARecordedRunMayAskForWhatIsRefusedNow(t *testing.T) {
	const file = `
apiVersion: lockdrill/v1
kind: Experiment
name: names
environment: staging
redis: {mode: external, url: "redis://10.0.0.5:6379"}
system:
  mode: observe
  replicas: 2
  processes: {match: 'svc --name (?P<name>\S+)'}
  locks:
    - {name: loop, key: poller, policy: {ttl: 10s, renew_every: 1s, class: standard, op_timeout: 1s, stop_budget: 1s, release: {mode: none, attempts: 3}, acquire: {mode: try, timeout: 1s}, loop: {poll: 1s, mode: renewed, tick: 50ms}}}
faults:
  - {id: kill, kill: {holder_of: loop}}
slos:
  - {lock: loop, duplicate_epochs: {max: 0}}
`
	if _, err := Parse("names.yaml", []byte(file)); err == nil || !strings.Contains(err.Error(), "a name comes back by right") || !strings.Contains(err.Error(), "goes with mode bounded_retry, not none") {
		t.Errorf("refused with %v", err)
	}
	if _, err := ParseRun("names.yaml", []byte(file)); err != nil {
		t.Errorf("of a recorded run: %v", err)
	}
}

// Runs wrote beside a kill of all pods the pick that it has not: nothing else is read because a run is recorded.
func TestARecordedKillOfAllPodsMayHaveAPick(t *testing.T) {
	for kill, read := range map[string]bool{
		"{pods: {app: web}, all: true, pick: random}": true, "{topology_zone: a, all: true, pick: random}": true,
		"{pods: {app: web}, all: true, pick: oldest}": false, "{pods: {app: web}, all: true, pick: random, phase: random}": false,
	} {
		file := []byte(`
apiVersion: lockdrill/v1
kind: Experiment
name: zone
environment: staging
redis: {mode: external, url: "redis://10.0.0.5:6379"}
ledger: {url: "redis://10.0.0.6:6379"}
kubernetes: {namespace: a, selector: {app: web}}
system: {mode: embedded, replicas: 2, locks: [{name: loop, profile: cordum/scheduler-reconciler, key: loop}]}
faults: [{id: all, kill: ` + kill + `}]
slos: [{lock: loop, takeover: {max: 95s}}]
`)
		if _, err := Parse("zone.yaml", file); err == nil || !strings.Contains(err.Error(), "all: true strikes every one of them") {
			t.Errorf("%s: refused with %v", kill, err)
		}
		e, err := ParseRun("zone.yaml", file)
		if (err == nil) != read {
			t.Errorf("%s: of a recorded run: %v", kill, err)
		}
		if err != nil {
			continue
		}
		again, err := Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseRun("zone.yaml", again); err != nil {
			t.Errorf("%s: written again: %v", kill, err)
		}
	}
}
