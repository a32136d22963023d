package experiments

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

// The articles' sheet as it stands gives the same locks as the shipped profiles of the same keys, and a takeover row for each.
func TestPolicySheet(t *testing.T) {
	e, err := Load("testdata/sheet/drill.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.System.Locks) != 4 || len(e.SLOs) != 4 || e.System.PolicySheet.File != "" {
		t.Fatalf("%d locks, %d SLOs, sheet %q", len(e.System.Locks), len(e.SLOs), e.System.PolicySheet.File)
	}
	profiles := []string{"cordum/scheduler-reconciler", "cordum/pending-replayer", "cordum/workflow-reconciler", "cordum/snapshot-writer"}
	limits := []time.Duration{96 * time.Second, 96 * time.Second, 21 * time.Second, 41 * time.Second}
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		want, err := Profile(profiles[i])
		if err != nil {
			t.Fatal(err)
		}
		if got, loop := l.Policy, *l.Policy.Loop; l.Key != want.Key || loop != *want.Policy.Loop || withoutLoop(got) != withoutLoop(want.Policy) {
			t.Errorf("%s is %+v %+v, the profile %s is %+v %+v", l.Name, got, loop, profiles[i], want.Policy, *want.Policy.Loop)
		}
		if l.Unfenced != want.Unfenced || !slices.Equal(l.Beyond, want.Beyond) {
			t.Errorf("%s is unfenced: %v, beyond its policy: %q; the profile is %v, %q", l.Name, l.Unfenced, l.Beyond, want.Unfenced, want.Beyond)
		}
		if s := e.SLOs[i]; s.Lock != l.Name || *s.Takeover.Max != limits[i] {
			t.Errorf("row of %s: %+v, want takeover max %s", l.Name, s, limits[i])
		}
		if want := 2 + 6*i; l.Place.Line != want || filepath.Base(l.Place.File) != "leader_election.yaml" {
			t.Errorf("%s stands at %+v, want line %d of the sheet", l.Name, l.Place, want)
		}
	}
	standsAlone(t, e)
}

// The loops of a sheet may be those of a system of somebody's own: each is promised its takeover, and killed while it leads.
func TestPolicySheetOfAnObservedSystem(t *testing.T) {
	e, err := Load("../scenarios/witness/sheet.lockdrill.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.System.Locks) != 3 || len(e.SLOs) != 3 || len(e.Faults) != 3 || e.System.PolicySheet.File != "" {
		t.Fatalf("%d locks, %d SLOs, %d faults", len(e.System.Locks), len(e.SLOs), len(e.Faults))
	}
	for i := range e.System.Locks {
		l, kill := &e.System.Locks[i], e.Faults[i].Spec.(*fault.Kill)
		if l.Unfenced || kill.HolderOf != l.Name || kill.Phase != fault.AfterGrant || kill.On != "" || e.SLOs[i].Lock != l.Name || *e.SLOs[i].Takeover.Max != l.Policy.TTL+l.Policy.Loop.Poll+6*time.Second {
			t.Errorf("%+v\n%+v\n%+v", l, kill, e.SLOs[i].Takeover)
		}
	}
	standsAlone(t, e)
}

func withoutLoop(p lockcore.Policy) lockcore.Policy { p.Loop = nil; return p }

// standsAlone: the resolved file needs the sheet no more.
func standsAlone(t *testing.T, e *Experiment) {
	t.Helper()
	data, err := Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse("resolved.yaml", data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if last := len(e.System.Locks) - 1; len(back.System.Locks) != last+1 || len(back.SLOs) != len(e.SLOs) || *back.System.Locks[last].Policy.Loop != *e.System.Locks[last].Policy.Loop {
		t.Errorf("the resolved file gives\n%s", data)
	}
}

// withSheet loads the drill beside a sheet of the given text.
func withSheet(t *testing.T, drill, sheet string) (*Experiment, error) {
	t.Helper()
	dir := t.TempDir()
	if drill == "" {
		data, err := os.ReadFile("testdata/sheet/drill.yaml")
		if err != nil {
			t.Fatal(err)
		}
		drill = string(data)
	}
	for name, text := range map[string]string{"drill.yaml": drill, "leader_election.yaml": sheet} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := Load(filepath.Join(dir, "drill.yaml"))
	if err != nil {
		return nil, &cut{strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")}
	}
	return e, nil
}

// cut is an error without the test's folder.
type cut struct{ text string }

func (c *cut) Error() string { return c.text }

// A row that the file declares stays as it is, and the file's own locks come first.
func TestPolicySheetBesideOwnLocksAndRows(t *testing.T) {
	drill := `apiVersion: lockdrill/v1
kind: Experiment
name: both
system:
  mode: embedded
  replicas: 3
  policy_sheet: leader_election.yaml
  locks:
    - {name: mine, profile: cordum/delay-poller}
faults:
  - id: kill
    kill: {holder_of: theirs}
slos:
  - {lock: theirs, takeover: {max: 99s}}
`
	e, err := withSheet(t, drill, "leader_election:\n  theirs: {poll_interval: 5s, lock_key: k, lock_ttl: 10s, release_mode: explicit}\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.System.Locks) != 2 || e.System.Locks[0].Name != "mine" || len(e.SLOs) != 1 || *e.SLOs[0].Takeover.Max != 99*time.Second {
		t.Errorf("locks %+v, SLOs %+v", e.System.Locks, e.SLOs)
	}
}

// Faults made from a sheet: each loop's holder is killed once while it leads, and each kill leaves the one before the time to find its
// moment and to be got over by every loop. A sheet in the file says the same as one beside it, and the resolved file stands alone.
func TestFaultsMadeFromTheSheet(t *testing.T) {
	drill, err := os.ReadFile("testdata/sheet/drill.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sheet, err := os.ReadFile("testdata/sheet/leader_election.yaml")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(drill), "faults:")
	made := head + "faults: {from: policy_sheet, each: once}\n"
	indented := "\n    " + strings.ReplaceAll(strings.TrimSpace(string(sheet)), "\n", "\n    ")
	for name, text := range map[string]string{"beside": made, "inside": strings.Replace(made, " leader_election.yaml", indented, 1)} {
		e, err := withSheet(t, text, string(sheet))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		standsAlone(t, e)
		var got []string
		for i := range e.Faults {
			f := &e.Faults[i]
			got = append(got, fmt.Sprintf("%s %s %s %s x%d", f.ID, f.At, f.Lock(), f.Moment(), f.Repeat.Count))
		}
		want := []string{
			"kill-scheduler_reconciler 0s scheduler_reconciler after_grant x1",
			"kill-scheduler_pending_replayer 3m6s scheduler_pending_replayer after_grant x1", // TTL 60s + poll 30s, and the slowest takeover: 96s
			"kill-workflow_reconciler 6m12s workflow_reconciler after_grant x1",
			"kill-snapshot_writer 8m3s snapshot_writer acquired x1",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A lock is written so that it can be pasted into a file, whatever profile it came from.
func TestMarshalLock(t *testing.T) {
	for _, name := range ProfileNames() {
		l, err := Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		l.Name = "pasted"
		data, err := MarshalLock(l)
		if err != nil {
			t.Fatal(err)
		}
		text := "apiVersion: lockdrill/v1\nkind: Experiment\nname: n\nsystem:\n  mode: embedded\n  replicas: 2\n" +
			"  " + strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "\n  ") + "\n"
		if !l.Loop() {
			text += "  work:\n    - {lock: pasted, jobs: 5, rate: 1/s, hold: {p50: 4s}, redeliver: 5s}\n"
		}
		text += "faults:\n  - {id: k, kill: {holder_of: pasted}}\nslos:\n  - {lock: pasted, abandonments: {max: 0}}\n"
		e, err := Parse("pasted.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s:\n%v", name, err)
			continue
		}
		back := e.System.Locks[0]
		if withoutLoop(back.Policy) != withoutLoop(l.Policy) || l.Loop() && *back.Policy.Loop != *l.Policy.Loop || back.Key != l.Key || back.KeyPrefix != l.KeyPrefix {
			t.Errorf("%s comes back as %+v", name, back)
		}
	}
}
