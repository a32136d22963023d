package experiments

import (
	"os"
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
		{"system:\n", "limits: {kill_switch: \"/tmp/stop\\0\"}\nsystem:\n", "limits.kill_switch: has a NUL character"},
		{"system:\n", "description: \"a\\0\"\nsystem:\n", "description: has a NUL character"},
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
