package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Whoever may say which experiment is run does not read other files by it: no command says a word of a file that is named as a policy
// sheet and is none.
func TestNoCommandSaysWhatIsInAWrongSheet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for sheet, text := range map[string]string{
		"shadow":  "root:*:20228:0:99999:7:::\nhunter2:$6$hunter2salt$hunter2hash:20228:0:99999:7:::\n",
		"secrets": "leader_election:\n  hunter2loop: hunter2password\n  hunter2 loop: {}\n  a: {poll_interval: hunter2, lock_key: {hunter2: hunter2}, lock_ttl: hunter2, release_mode: hunter2mode, hunter2: 1}\nhunter2: 1\n",
	} {
		drill := "apiVersion: lockdrill/v1\nkind: Experiment\nname: x\nsystem: {mode: embedded, replicas: 3, policy_sheet: " + sheet + "}\nfaults: {from: policy_sheet, each: once}\n"
		for name, data := range map[string]string{sheet: text, sheet + ".yaml": drill} {
			write(t, filepath.Join(dir, name), []byte(data))
		}
		for _, command := range []string{"validate", "validate -f json", "run --out out", "plan", "rehearse --seeds 1"} {
			got := tryIn(t, dir, append(strings.Fields(command), sheet+".yaml")...)
			if got.code != verdict.ExitUsage {
				t.Errorf("%s of %s: %+v", command, sheet, got)
			}
			if all := got.stdout + got.stderr; strings.Contains(all, "hunter2") || strings.Contains(all, "root") || !strings.Contains(all, "leader_election") {
				t.Errorf("%s of %s says\n%s", command, sheet, all)
			}
		}
	}
}
