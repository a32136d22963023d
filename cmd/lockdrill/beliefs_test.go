package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// beliefDrill takes the leader's key away, and asks the replicas whether they lead: %[1]s is the port of their Redis, %[2]s what tells it,
// %[3]s the folder of their logs.
const beliefDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: foreign
environment: local
redis: {mode: external, url: "redis://127.0.0.1:%[1]s", allow: [delete_key]}
system:
  mode: observe
  replicas: 3
  processes:
    match: 'elector\.py --redis %[1]s --name (?P<name>\S+) .*--status (?P<port>\d+)'
    log: '%[3]s/{name}.log'
    metrics: "http://127.0.0.1:{port}/metrics"
  locks:
    - name: leader
      key: sched:leader
      belief: {%[2]s, every: 100ms, max_gap: 5s}
      policy:
        ttl: 1s
        renew_every: 300ms
        class: standard
        op_timeout: 200ms
        release: {mode: none}
        acquire: {mode: try, timeout: 200ms}
        loop: {poll: 100ms, mode: renewed}
probes: {lock_keys: {every: 5ms, max_gap: 3s}} # this machine may be busy
steady_state: {for: 300ms, timeout: 2m}
faults:
  - {id: lost, at: 0s, delete_key: {holder_of: leader}}
slos:
  - {lock: leader, overlap: {level: belief, max: 1s}}
  - {lock: leader, loss_to_fence: {max: 1s}}
  - {lock: leader, leaderless: {max: 3s}}
`

// leadersWhoSay are electors that say whether they lead, and that go on to lead for so many milliseconds when their key is gone.
func leadersWhoSay(t *testing.T, stubborn int) (s *electors, logs string) {
	t.Helper()
	port := witnesstest.FreePorts(t, 3)
	logs = t.TempDir()
	return electorsWith(t, redistest.Start(t), nil, func(name string) []string {
		return []string{"--log", filepath.Join(logs, name+".log"), "--status", strconv.Itoa(port + int(name[len(name)-1]-'a')), "--stubborn", strconv.Itoa(stubborn)}
	}), logs
}

// leadersBy is how many of them say last that they lead.
func leadersBy(t *testing.T, logs string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(logs, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(string(read(t, f)), "became leader\n") {
			n++
		}
	}
	return n
}

// Two leaders are caught by what they say of themselves, whichever way they say it, and without anybody who gathers that; a leader that steps
// down when its key is gone keeps the same promises.
func TestLiveTwoLeadersAreCaughtByWhatTheySay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		stubborn int
		sources  []string
		code     int
	}{
		{"stubborn", 4000, []string{"metric: {series: leads}", `http: {url: "http://127.0.0.1:{port}/leader"}`, "log: {gain: became leader, lose: leads no more}", "command: {run: [./who-leads.sh]}"}, verdict.ExitSLOFailed},
		{"obedient", 0, []string{`http: {url: "http://127.0.0.1:{port}/leader", leads: leader}`, "log: {gain: became leader, lose: leads no more}"}, verdict.ExitPass},
	} {
		t.Run(c.name, func(t *testing.T) {
			service, logs := leadersWhoSay(t, c.stubborn)
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + service.port})
			defer client.Close()
			for _, source := range c.sources {
				until(t, "one leader", func() bool {
					return client.Exists(context.Background(), "sched:leader").Val() == 1 && leadersBy(t, logs) == 1
				})
				dir := t.TempDir()
				word, _, _ := strings.Cut(source, ":")
				// Of each log the last line that tells of a change; the name is that of the file.
				script := "#!/bin/sh\ncd '" + logs + "' && for f in *.log; do tail -n 1 $f | grep -q 'became leader' && basename $f .log; done; true\n"
				for name, text := range map[string]string{"belief.yaml": fmt.Sprintf(beliefDrill, service.port, source, logs), "who-leads.sh": script} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				got := tryIn(t, dir, append([]string{"run", "belief.yaml", "--out", "run"}, foreignConsent...)...)
				if c.code == verdict.ExitPass {
					skipIfTooLate(t, got.code, filepath.Join(dir, "run"))
				}
				if got.code != c.code {
					t.Fatalf("%s: exit status %d, want %d\n%s\n%s", word, got.code, c.code, got.stdout, got.stderr)
				}
				if c.code == verdict.ExitPass {
					continue
				}
				if !strings.Contains(got.stdout, "both said that they held lock leader") || !strings.Contains(got.stdout, "sched-") {
					t.Errorf("%s: no word of who led beside whom:\n%s", word, got.stdout)
				}
			}
		})
	}
}
