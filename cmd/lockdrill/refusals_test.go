package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/golden"
)

var update = flag.Bool("update", false, "rewrite the book of refusals")

// shortDay is a game day with a step of people, and a drill.
const shortDay = `apiVersion: lockdrill/v1
kind: GameDay
name: short
hypothesis: h
owner: Ada
stop_criterion: never
steps:
  - {name: look, manual: look, optional: true}
  - {name: drill, drill: good.yaml}
`

// refusable makes the folder in which the commands of the book are given, and what they name there.
func refusable(t *testing.T) (dir string) {
	t.Helper()
	dir = comparedIn(t)
	recordedRun(t, dir, "fail")
	storedRun(t, dir, "stored")
	pods, ledger := string(read(t, "../../deploy/testdata/game-day.yaml")), `ledger: {url: "redis://ledger.staging.svc:6380"}`
	tls := strings.Replace(ledger, `redis://ledger.staging.svc:6380"`, `rediss://ledger.staging.svc:6380", ca: `, 1)
	buckets := func(name string, le ...string) (text string) {
		text = "# TYPE " + name + " histogram\n"
		for _, bound := range append(le, "+Inf") {
			text += name + "_bucket{le=\"" + bound + "\"} 100\n"
		}
		return text + name + "_sum 3\n" + name + "_count 100\n"
	}
	for name, text := range map[string]string{
		"empty/.none": "", "folder/.none": "", "broken/one/experiment.yaml": "name: x", "rules.json": `{"keys": ["lock:*"], "scripts": [{"op": "renew"}]}`,
		"bad.yaml": "signals: {abandonned: {series: x}}\n", "useless.yaml": "signals: {renewals: {series: x}}\n", "no-drill.yaml": "kind: Nothing\n",
		"processes.yaml": goodDrill, "../outside.yaml": goodDrill, "pods.yaml": pods, "outlived.yaml": sweptDrill(t),
		"no-image.yaml": edit(t, pods, `pods: apply, image: "registry.example/lockdrill:1.0.0", `, "pods: use, "), "elsewhere.yaml": edit(t, pods, "limits: {", "limits: {namespaces: [staging], "),
		"no-namespace.yaml": edit(t, pods, "namespace: staging, ", ""), "any-ca.yaml": edit(t, pods, ledger, strings.Replace(tls, "ca: ", "ca: pods.yaml", 1)),
		"no-ca.yaml": edit(t, pods, ledger, strings.Replace(tls, "ca: ", "ca: none.pem", 1)), "kee.yaml": edit(t, pods, "kubernetes: {", "kubernetes: {pod: {tolerations: [{kee: drills}]}, "),
		"people.yaml": strings.NewReplacer(", optional: true", "", "good.yaml", "first-drill").Replace(shortDay), "missing.yaml": shortDay + "  - {name: again, drill: first-dril}\n", "onwer.yaml": strings.Replace(shortDay, "owner", "onwer", 1),
		"none.txt": "# TYPE lockcore_held_seconds histogram\n", "scrape.txt": buckets("lockcore_held_seconds", "1"), "bound-5.txt": buckets("lockcore_held_seconds", "-5"),
		"bound0.txt": buckets("lockcore_held_seconds", "0"), "bound9e7.txt": buckets("lockcore_held_seconds", "90000000"), "bound1e300.txt": buckets("lockcore_held_seconds", "1e300"),
		"observed.yaml": string(read(t, "../../scenarios/testdata/pods-observed-lease/experiment.yaml")), "tokens": "a read proxy\n", "node.prom": "node_boot_time_seconds 1\n", "theirs.yaml": theirDrill(t),
	} {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		write(t, path, []byte(text))
	}
	for name, spoil := range map[string][3]string{ // of a run: a file, and what is replaced in it
		"no-experiment": {experimentFile}, "no-history": {historyFile}, "damaged": {historyFile, "\n{", "\nx{"}, "changed": {experimentFile, "name: first-drill", "name: first-drill # a later thought"},
		"another-scale": {historyFile, `"time_scale":1`, `"time_scale":1e300`}, "another-drill": {historyFile, `"experiment":"`, `"experiment":"other-`},
	} {
		path := filepath.Join(storedRun(t, dir, name), spoil[0])
		if spoil[1] == "" {
			must(t, os.Remove(path))
			continue
		}
		write(t, path, []byte(edit(t, string(read(t, path)), spoil[1], spoil[2])))
	}
	must(t, os.Symlink(".", filepath.Join(dir, "here")))
	must(t, os.Chmod(filepath.Join(dir, "tokens"), 0o644))
	return dir
}

// inFolder are all files of a folder, with what is in them.
func inFolder(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files[path] = string(read(t, path))
		}
		return err
	}))
	return files
}

// inTime is what a command says on a machine that is in time: what it waits for is told after a while.
func inTime(stderr string) string {
	return regexp.MustCompile(`(?m)^(.*: reading the file and asking the guards|read \d+ of .*|rehearsed \d+ of .*|writing the reports of .*|metrics at http:.*)\n`).ReplaceAllString(stderr, "")
}

// The book of refusals: each command line that is wrong has status 2, nothing on standard output and on standard error what the book says, with
// its place first and what to do last; none touches a file, and none tells a password. A new one is a line "$ ..." of the book, and -update.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const file = "testdata/refusals.txt"
	dir := refusable(t)
	before := inFolder(t, dir)
	lines := regexp.MustCompile(`(?m)^\$ .*$`).FindAllString(string(read(t, file)), -1)
	if len(lines) < 200 {
		t.Errorf("%d refusals: is the test looking?", len(lines))
	}
	var work sync.WaitGroup
	said, atOnce := make([]string, len(lines)), make(chan struct{}, 4)
	for i, line := range lines {
		work.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			var args []string
			for _, word := range regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\S+`).FindAllString(strings.ReplaceAll(line[2:], "DIR", dir), -1) {
				if plain, err := strconv.Unquote(word); err == nil {
					word = plain
				}
				args = append(args, word)
			}
			got := tryIn(t, dir, args...)
			if got.code != verdict.ExitUsage || got.stdout != "" || strings.Contains(got.stderr, "hunter2") {
				t.Errorf("%s: %+v", line, got)
			}
			text := regexp.MustCompile(`sha256:\w+`).ReplaceAllString(strings.ReplaceAll(inTime(got.stderr), dir, "DIR"), "sha256:#")
			said[i] = fmt.Sprintf("%s\n%.400s\n", line, strings.TrimSuffix(text, "\n"))
		})
	}
	work.Wait()
	for _, s := range successors { // can be typed as it stands
		cmd, rest, err := testRoot().Find(strings.Fields(s.now))
		if !strings.HasPrefix(s.now, "--version") && (err != nil || !cmd.HasParent() || cmd.ParseFlags(rest) != nil) {
			t.Errorf("%s: what is named instead does not parse: %v", s.was, err)
		}
	}
	golden.Compare(t, file, strings.Join(said, ""), *update)
	must(t, os.Remove(filepath.Join(dir, "x.xml"))) // what a gate reads of a run that was refused
	if after := inFolder(t, dir); !maps.Equal(before, after) {
		t.Errorf("files before: %q, afterwards: %q", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
}
