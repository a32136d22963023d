package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/toxitest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// nodeCases are the bugs of the witness in Node, and by which row each drill finds them out. A dead holder writes nothing, so no kill shows
// that it would not have stopped: that drill passes.
var nodeCases = []witnessCase{
	{"", "node-kills", "", "", false},
	{"", "node-pauses", "", "", false},
	{"", "node-cuts", "", "", true},
	{"never-renews", "node-kills", "job", "not_owned.release", true},
	{"never-renews", "node-pauses", "job", "overlap.effect", false},
	{"never-renews", "node-cuts", "reconciler", "overlap.belief", false},
	{"no-stop", "node-kills", "", "", false},
	{"no-stop", "node-pauses", "reconciler", "loss_to_fence", false},
	{"no-stop", "node-cuts", "reconciler", "overlap.belief", true},
	{"finishes-twice", "node-kills", "job", "duplicate_terminal_states", false},
	{"finishes-twice", "node-pauses", "job", "duplicate_terminal_states", false},
	{"finishes-twice", "node-cuts", "job", "duplicate_terminal_states", false},
}

// A second service, with the timing habits of Node, passes as it is in drills of kills, pauses and cuts, and each of its bugs is found out by a
// row in each drill that can show it, without anybody who gathers what its replicas say.
func TestLiveAServiceOfSomebodysOwnInNodePassesAndItsBugsDoNot(t *testing.T) {
	atLength(t, "drills of twenty seconds")
	redistest.Need(t)
	witnesstest.Python(t)
	witnesstest.Node(t)
	drillCases(t, nodeCases, func(t *testing.T, file, bug string, code int) *verdict.Judgement {
		return drillNode(t, file, bug, code)
	})
	for _, bug := range witnesstest.NodeBugs {
		for _, file := range []string{"node-kills", "node-pauses", "node-cuts"} {
			if !slices.ContainsFunc(nodeCases, func(c witnessCase) bool { return c.bug == bug && c.file == file }) {
				t.Errorf("%s is not drilled by %s", bug, file)
			}
		}
	}
}

// drillNode drills the witness in Node by one of its files.
func drillNode(t *testing.T, file, bug string, code int, args ...string) *verdict.Judgement {
	t.Helper()
	d := witnessDrill{file: file, args: append(witnesstest.Node(t), args...)}
	if bug != "" {
		d.args = append(d.args, "--bug", bug)
	}
	if file == "node-cuts" {
		d.before = func(addr string) (args, change []string) { return ownWays(t, addr) }
	}
	j, _ := d.run(t, code)
	return j
}

// ownWays gives each replica a proxy of its own before a Redis.
func ownWays(t *testing.T, addr string) (args, change []string) {
	t.Helper()
	api := toxitest.Start(t).URL
	var ways []string
	for i := range witnesstest.Replicas {
		listen := theirWay(t, api, fmt.Sprintf("redis-s%d", i+1), addr)
		_, port, err := net.SplitHostPort(listen)
		must(t, err)
		ways, change = append(ways, listen), append(change, fmt.Sprint(6391+i), port)
	}
	return []string{"--ways", strings.Join(ways, ",")}, append(change, "http://127.0.0.1:8474", api)
}

// The witness in Node speaks to Redis by itself, with the habits of ioredis. With ioredis itself, of npm, it passes the same drills.
func TestAServiceOfSomebodysOwnOnIoredis(t *testing.T) {
	onlyFor(t, witnessEnv, "all", "of make witness")
	var locks struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	must(t, json.Unmarshal(read(t, "../../../internal/wild/node/package.json"), &locks))
	dir := t.TempDir()
	install := exec.Command("npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "ioredis@"+locks.Dependencies["ioredis"])
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: npm does not install ioredis: %v\n%s", err, out)
	}
	for _, file := range []string{"node-kills", "node-pauses", "node-cuts"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			drillNode(t, file, "", verdict.ExitPass, "--ioredis", filepath.Join(dir, "node_modules", "ioredis"))
		})
	}
}
