package experiments

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What was accepted without a word, and meant something else or nothing.
func TestWhatIsNotAcceptedSilently(t *testing.T) {
	data, err := os.ReadFile("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	if _, err := Parse("x.yaml", data); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"system:\n", "limits: {kill_switch: \"\"}\nsystem:\n", "limits.kill_switch: is empty"},
		{"system:\n", "probes: {lock_keys: {every: 1ns, max_gap: 1s}}\nsystem:\n", "probes.lock_keys.every: 1ns is too short"},
		{"replicas: ", "replicas: 0", "begins with a zero"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Fatalf("%q is not in the file", c.from)
		}
		if _, err := Parse("x.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
}

// A file that is named as a policy sheet may be any file: its lines are not shown, only their places.
func TestTheLinesOfASheetAreNotShown(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{
		"root:secret:0:0\n", "password: secret\n", "- secret\n", "a: [secret\n", "a: *secret\n", "a: &secret b\n", "a: !secret b\n",
		"leader_election: secret\n", "leader_election: {}\ndb: secret\n", "leader_election: {a: {lock_key: k}} # secret\n", "db: {pass: secret}\nleader_election: {a: {}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, "any"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Parse(filepath.Join(dir, "x.yaml"), []byte("apiVersion: lockdrill/v1\nkind: Experiment\nname: x\nsystem: {policy_sheet: any}\n"))
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "any:") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
