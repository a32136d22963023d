package e2e

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/toxitest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// recipeBugs are the mistakes of the columns of the table in docs/pause-longer-than-the-lease.md: of the witness in Python, and of that in Node.
var recipeBugs = [][2]string{{"short-ttl", "never-renews"}, {"renew-blind"}, {"no-stop", "no-stop"}, {"no-guard", "finishes-twice"}, {"release-blind"}}

// recipePromises are those that the page speaks of.
var recipePromises = []string{"duplicate_terminal_states: {max: 0}", "stale_writes: {max: 0}", "duplicate_epochs: {max: 0}", "logs: {pattern: lost_early, max: 0}", "stranded: {max: 0}", "takeover: {max: 5s}"}

// Each cell of the page's table is what a drill shows: the promises that it names are broken, and under a dash none is. Without a mistake none
// is either.
func TestAServiceOfSomebodysOwnInEachRecipe(t *testing.T) {
	onlyFor(t, witnessEnv, "all", "of make witness")
	recipes, rows := pauseRecipes(t), 0
	for line := range strings.Lines(string(read(t, "../../../docs/pause-longer-than-the-lease.md"))) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 8 {
			continue
		}
		recipe := strings.TrimSpace(cells[1])
		if recipes[recipe] == nil {
			continue
		}
		rows++
		cells[1] = "–" // the service as it is
		for i, cell := range cells[1:7] {
			bug := ""
			if i > 0 {
				bug = recipeBugs[i-1][0]
			}
			if recipe == "Fail-over" && i > 0 {
				bug = recipeBugs[i-1][1]
			}
			if cell = strings.TrimSpace(cell); cell == "not drilled" {
				continue
			}
			t.Run(strings.ReplaceAll(recipe, " ", "-")+"/"+bug, func(t *testing.T) {
				t.Parallel()
				drillCell(t, recipe, recipes[recipe], bug, cell)
			})
		}
	}
	if rows != len(recipes) {
		t.Errorf("the table has %d of %d recipes", rows, len(recipes))
	}
}

func drillCell(t *testing.T, recipe string, file map[string]any, bug, cell string) {
	promises := slices.Clone(recipePromises)
	if recipe != "Fail-over" { // what was granted twice there is nobody's fault
		promises = append(promises, "overlap: {level: effect, max: 0}")
	}
	cell = strings.NewReplacer("`", "", "overlap: {level: effect}", "overlap.effect", "logs", "logs.lost_early").Replace(cell)
	j := drillRecipe(t, recipe, file, promises, bug)
	for _, r := range j.SLOs {
		named := slices.Contains(strings.Split(cell, ", "), r.Name())
		if named != (r.Verdict == verdict.Fail) && (named || cell == "–") {
			t.Errorf("%s with %q, %s: the cell is %q:\n%s", recipe, bug, r.Name(), cell, allRows(j))
		}
	}
}

// drillRecipe drills a witness by a recipe, with other promises.
func drillRecipe(t *testing.T, recipe string, file map[string]any, promises []string, bug string) *verdict.Judgement {
	t.Helper()
	args := []string{"--scale", witnessScale}
	if bug != "" {
		args = append(args, "--bug", bug)
	}
	mine := map[string]any{} // the drills share the other
	if data, err := yaml.Marshal(file); err != nil || yaml.Unmarshal(data, &mine) != nil {
		t.Fatal(err)
	}
	var slos []any
	for _, p := range promises {
		var row any
		must(t, yaml.Unmarshal([]byte("{lock: job, "+p+"}"), &row))
		slos = append(slos, row)
	}
	mine["slos"] = slos
	var store, way string
	var edits []string
	switch recipe {
	case "Fail-over":
		sentinel, primary, _ := redistest.StartSentinel(t)
		ledger := redistest.Start(t)
		args = append(append(args, witnesstest.Node(t)...), "--sentinel", sentinel, "--ledger", ledger)
		_, at, _ := net.SplitHostPort(sentinel)
		store, way = primary, primary
		edits = append(edits, "26379", at, "scheduler\\.py", "scheduler\\.js")
		mine["system"].(map[string]any)["effects"].([]any)[0].(map[string]any)["redis"] = map[string]any{"url": "redis://" + ledger}
	case "Cut", "Slow":
		store = redistest.Start(t)
		api := toxitest.Start(t).URL
		way = theirWay(t, api, "redis", store)
		edits = append(edits, "http://127.0.0.1:8474", api)
	default:
		store = redistest.Start(t)
		way = store
	}
	client := redis.NewClient(&redis.Options{Addr: store})
	defer client.Close()
	must(t, client.Set(t.Context(), "lockdrill:environment", "staging", 0).Err())
	w, dir := witnesstest.Start(t, way, args...), t.TempDir()
	_, port, _ := net.SplitHostPort(way)
	_, at, _ := net.SplitHostPort(store)
	edits = append(edits, "127\\.0\\.0\\.1:6390", "127\\.0\\.0\\.1:"+port, "127.0.0.1:6390", "127.0.0.1:"+at, "/tmp/sched", w.Dir)
	data, err := yaml.Marshal(mine)
	must(t, err)
	path, text := filepath.Join(dir, "recipe.yaml"), strings.NewReplacer(edits...).Replace(string(data))
	write(t, path, []byte(text))
	got := tryIn(t, dir, "run", path, "--environment", "staging", "--confirm", "pauses")
	if got.code != verdict.ExitPass && got.code != verdict.ExitSLOFailed && got.code != verdict.ExitInconclusive {
		t.Fatalf("exit status %d\n%s\n%s\n%s", got.code, got.stdout, got.stderr, text)
	}
	return verdictIn(t, dir)
}
