package experiments

import (
	"regexp"
	"strings"
	"testing"
)

// A file that is named as a policy sheet may be any file, by mistake or because somebody wants to see it. Whatever is in it, its words are
// not said: only places, and what is wanted there. The faults are made from it, and rows name one of them, so that what a sheet brings
// into an experiment is not said there either.
func TestNoWordOfAWrongSheetIsSaid(t *testing.T) {
	const longFault = "a name that is too long for its fault"
	const loop = "{poll_interval: 30s, lock_key: k, lock_ttl: 60s, release_mode: ttl_hold}"
	for name, text := range map[string]string{
		"lines of colons":     "root:*:20228:0:99999:7:::\nhunter2:$6$hunter2:20228:0:99999:7:::\ndaemon:hunter2\n",
		"keys":                "hunter2: 1\nhunter2two:\n  a: 1\n",
		"a telling key":       "password: hunter2\n",
		"a list":              "- hunter2\n",
		"a text":              "hunter2\n",
		"no YAML":             "a: [hunter2\n",
		"no YAML, by a word":  "\"hunter2\\q\"\n",
		"a tab":               "a:\n\thunter2: b\n",
		"a tag":               "a: !hunter2 b\n",
		"an anchor":           "a: &hunter2 b\n",
		"an alias":            "a: *hunter2\n",
		"two documents":       "leader_election: {a: " + loop + "}\n---\nhunter2: 1\n",
		"a key beside":        "leader_election: {a: " + loop + "}\nhunter2: 1\n",
		"no loops":            "leader_election: hunter2\n",
		"no section":          "leader_election: {hunter2loop: hunter2password}\n",
		"a list of them":      "leader_election: {hunter2loop: [hunter2]}\n",
		"nothing in it":       "leader_election: {hunter2loop: }\n",
		"a loop's name":       "leader_election: {hunter2 loop: " + loop + "}\n",
		"a field":             "leader_election: {hunter2loop: {hunter2: 1, hunter2: 1, lock_keyhunter2: hunter2}}\n",
		"a missing field":     "leader_election: {hunter2loop: {lock_key: hunter2}}\n",
		"a word":              "leader_election: {hunter2loop: " + strings.Replace(loop, "ttl_hold", "hunter2mode", 1) + "}\n",
		"a word nearby":       "leader_election: {a: " + strings.Replace(loop, "ttl_hold", "ttl_hunter2", 1) + "}\n",
		"a duration":          "leader_election: {hunter2loop: " + strings.Replace(loop, "60s", "hunter2", 1) + "}\n",
		"a duration's number": "leader_election: {a: " + strings.Replace(loop, "60s", "4815162342", 1) + "}\n",
		"a leading zero":      "leader_election: {a: " + strings.Replace(loop, "60s", "04815162342", 1) + "}\n",
		"a long duration":     "leader_election: {a: " + strings.Replace(loop, "60s", "4815162342s", 1) + "}\n",
		"a section for a key": "leader_election: {a: " + strings.Replace(loop, "lock_key: k", "lock_key: {hunter2: hunter2}", 1) + "}\n",
		"a number for a key":  "leader_election: {a: " + strings.Replace(loop, "lock_key: k", "lock_key: 4815162342", 1) + "}\n",
		"a key of no lock":    "leader_election: {hunter2loop: " + strings.Replace(loop, "lock_key: k", "lock_key: hunter2 key", 1) + "}\n",
		"the key of another":  "leader_election: {hunter2a: " + strings.Replace(loop, "lock_key: k", "lock_key: hunter2", 1) + ", hunter2b: " + strings.Replace(loop, "lock_key: k", "lock_key: hunter2", 1) + "}\n",
		"the same loop twice": "leader_election: {hunter2: " + loop + ", hunter2: " + loop + "}\n",
		"a sum":               "leader_election: {hunter2loop: " + strings.Replace(loop, "lock_ttl: 60s", "lock_ttl: 48151ms, renew_every: 62342ms", 1) + "}\n",
		"one right loop":      "leader_election: {hunter2loop: " + loop + ", b: {}}\n",
		"a very long name":    "leader_election: {hunter2" + strings.Repeat("a", 57) + ": " + loop + "}\n",
		longFault:             "leader_election: {hunter2" + strings.Repeat("a", 55) + ": " + loop + "}\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, faults := range []string{
				"faults: {from: policy_sheet, each: once}\nexpect: {fault: kill-a, lock: a, busy: {count: {min: 1}}}\n",
				"faults:\n  - {id: kill, kill: {holder_of: some, phase: after_grant}}\nslos:\n  - {lock: other, takeover: {max: 9s}}\n",
			} {
				if name == longFault && !strings.Contains(faults, "from:") {
					continue // such a sheet is right
				}
				_, err := withSheet(t, "apiVersion: lockdrill/v1\nkind: Experiment\nname: x\nsystem: {mode: embedded, replicas: 3, policy_sheet: leader_election.yaml}\n"+faults, text)
				if err == nil {
					t.Fatal("the sheet is not refused")
				}
				if strings.Contains(strings.ToLower(err.Error()), "hunter2") || regexp.MustCompile(`48\D*15|62.?342`).MatchString(err.Error()) {
					t.Errorf("a word of the sheet is said:\n%v", err)
				}
				if !regexp.MustCompile(`(?m)^leader_election.yaml:\d+:\d+: `).MatchString(err.Error()) {
					t.Errorf("no place in the sheet:\n%v", err)
				}
				if strings.Contains(err.Error(), "no lock is called") || strings.Contains(err.Error(), "no fault is called") {
					t.Errorf("a wrong sheet is blamed on the experiment:\n%v", err)
				}
			}
		})
	}
}
