package e2e

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

// beliefDrill takes the leader's key away, and asks the replicas whether they lead, by a source; logs is the folder of their logs.
func beliefDrill(t *testing.T, port, source, logs string) string {
	t.Helper()
	return edit(t, fmt.Sprintf(foreignDrill, port), "\"}\nsystem:", "\", allow: [delete_key]}\nsystem:",
		`(?P<name>\S+)'}`, `(?P<name>\S+) .*--status (?P<port>\d+)', log: '`+logs+`/{name}.log', metrics: "http://127.0.0.1:{port}/metrics"}`,
		"      policy:\n", "      belief: {"+source+", every: 100ms, max_gap: 5s}\n      policy:\n",
		"id: crash, at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}", "id: lost, at: 0s, delete_key: {holder_of: leader}",
		"takeover: {max: 5s}}\n", "overlap: {level: belief, max: 1s}}\n  - {lock: leader, loss_to_fence: {max: 1s}}\n  - {lock: leader, leaderless: {max: 3s}}\n")
}

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
	must(t, err)
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
				for name, text := range map[string]string{"belief.yaml": beliefDrill(t, service.port, source, logs), "who-leads.sh": script} {
					must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
				}
				planned := tryIn(t, dir, append([]string{"plan", "belief.yaml"}, foreignConsent...)...)
				planned.ends(t, verdict.ExitPass, "leader  by "+word+": sched-", " says that it leads", " says that it does not", "keys and belief")
				got := tryIn(t, dir, append([]string{"run", "belief.yaml", "--out", "run"}, foreignConsent...)...)
				if c.code == verdict.ExitPass {
					skipIfTooLate(t, got.code, filepath.Join(dir, "run"))
				}
				got.ends(t, c.code)
				if c.code == verdict.ExitPass {
					continue
				}
				if !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), "both said that they held lock leader") || !strings.Contains(got.stdout, "sched-") {
					t.Errorf("%s: no word of who led beside whom:\n%s", word, got.stdout)
				}
			}
		})
	}
}
