package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// The locks of a queue's jobs are those keys that fit its pattern, hash tag and all. What stands beside them, a record without expiry and a
// key with one, is no lock: nobody is struck for it, and no event is about it.
func TestLiveJobsOfAQueueAreDrilledByThePatternOfTheirKeys(t *testing.T) {
	t.Parallel()
	service := electorsBy(t, redistest.Start(t), nil, "--queue", "bull:{mail}")
	dir := t.TempDir()
	yaml := edit(t, fmt.Sprintf(foreignDrill, service.port),
		"name: leader\n      key: sched:leader", "name: job\n      key_pattern: 'bull:{mail}:*:lock'",
		"        release: {mode: none}\n", "        release: {mode: single, timeout: 200ms}\n",
		"        loop: {poll: 100ms, mode: renewed}\n", "  effects:\n    - {name: jobs, lock: job, stream: 'bull:{mail}:log', map: {job: job, state: state, terminal: [done], token: token}}\n",
		"holder_of: leader", "holder_of: job", "lock: leader, takeover: {max: 5s}}\n", "lock: job, takeover: {max: 20s}}\n  - {lock: job, duplicate_terminal_states: {max: 0}}\n")
	write(t, filepath.Join(dir, "foreign.yaml"), []byte(yaml))
	if got := tryIn(t, dir, append([]string{"plan", "foreign.yaml"}, foreignConsent...)...); got.code != verdict.ExitPass || !strings.Contains(got.stdout, "bull:{mail}:") {
		t.Errorf("plan: %+v", got)
	}
	if got := tryIn(t, dir, append([]string{"run", "foreign.yaml", "--out", "run"}, foreignConsent...)...); got.code != verdict.ExitPass || !strings.Contains(got.stdout, "3 kills") {
		t.Fatalf("%+v", got)
	}
	h, err := readHistory(filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	for _, e := range h.Events {
		if e.Kind != history.LookKind {
			continue
		}
		looks++
		if !strings.HasPrefix(e.Key, "bull:{mail}:") || !strings.HasSuffix(e.Key, ":lock") || e.Lock != "job" {
			t.Errorf("it is no lock: %+v", e)
		}
	}
	if looks < 10 {
		t.Errorf("%d looks at locks", looks)
	}
	if got := tryIn(t, dir, "judge", "run"); got.code != verdict.ExitPass {
		t.Errorf("judge: %+v", got)
	}
	if got := tryIn(t, dir, "rehearse", "foreign.yaml"); got.code != verdict.ExitUsage {
		t.Errorf("rehearse: %+v", got)
	}
	if got := tryIn(t, dir, "watch", "--redis", "redis://127.0.0.1:"+service.port, "--keys", "bull:{mail}:*:lock", "--for", "3s", "--draft", "draft.yaml"); got.code != verdict.ExitPass {
		t.Errorf("watch: %+v", got)
	}
	draft, err := os.ReadFile(filepath.Join(dir, "draft.yaml"))
	if err != nil || !strings.Contains(string(draft), `key_suffix: ":lock"`) {
		t.Errorf("%v\n%s", err, draft)
	}
}
