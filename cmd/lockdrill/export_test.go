package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// exportDir holds the files that the examples of the documents name.
func exportDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "drill.yaml"), []byte(goodDrill))
	_, rest, ok := strings.Cut(string(read(t, "../../docs/alerts.md")), "```yaml ignore\n")
	if !ok {
		t.Fatal("docs/alerts.md has no mapping between ```yaml ignore and ```")
	}
	mapping, _, _ := strings.Cut(rest, "```")
	write(t, filepath.Join(dir, "mapping.yaml"), []byte(mapping))
	write(t, filepath.Join(dir, "game-day.yaml"), []byte(edit(t, podDrillYAML(t), "pods: apply", "pods: use")))
	return dir
}

// Each example prints a document on stdout and nothing else there.
func TestExportExamples(t *testing.T) {
	t.Parallel()
	dir := exportDir(t)
	examples := 0
	for _, page := range []string{"../../docs/alerts.md", "../../docs/gating.md", "../../docs/kubernetes.md"} {
		_, rest, _ := strings.Cut(string(read(t, page)), "<!-- examples:export -->\n```\n")
		block, _, ok := strings.Cut(rest, "```\n<!-- /examples -->")
		if !ok {
			t.Fatalf("%s has no examples", page)
		}
		for line := range strings.Lines(block) {
			command, _, _ := strings.Cut(line, "#")
			var args []string
			for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(command, -1) {
				args = append(args, strings.Trim(word, `"`))
			}
			got := tryIn(t, dir, args[1:]...)
			if got.code != verdict.ExitPass || !strings.HasSuffix(got.stdout, "\n") || len(got.stdout) < 200 {
				t.Errorf("%s: %+v", command, got)
			}
			for said := range strings.Lines(got.stderr) {
				if !strings.Contains(said, " is left out: the mapping has no ") {
					t.Errorf("%s: stderr %q", command, said)
				}
			}
			examples++
		}
	}
	if examples < 10 {
		t.Errorf("only %d examples", examples)
	}
}

func TestExportMisuse(t *testing.T) {
	t.Parallel()
	dir := exportDir(t)
	write(t, filepath.Join(dir, "bad.yaml"), []byte("signals: {abandonned: {series: x}}\n"))
	write(t, filepath.Join(dir, "useless.yaml"), []byte("signals: {renewals: {series: x}}\n"))
	write(t, filepath.Join(dir, "no-drill.yaml"), []byte("kind: Nothing\n"))
	outside := filepath.Join(t.TempDir(), "drill.yaml")
	write(t, outside, []byte(goodDrill))
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"export":                                                    `lockdrill export: which kind\? There are alerts, ci, cronjob, dashboard, deployment, `,
		"export alert":                                              `lockdrill export: unknown kind "alert", did you mean "alerts"\?; there are `,
		"export alerts --metrics lockcor":                           `lockcor: read: no such file or directory; shipped mappings are lockcore, cordum, watch, did you mean "lockcore"\?`,
		"export alerts --metrics folder":                            `folder: read: is a directory`,
		"export alerts --metrics bad.yaml":                          `bad.yaml: signals.abandonned: unknown signal, did you mean "abandoned"\?`,
		"export alerts --metrics useless.yaml":                      `useless.yaml: no rule has the signals that it needs`,
		"export mapping --metrics x":                                `lockdrill export mapping: no mapping "x"`,
		"export alerts x":                                           `lockdrill export alerts: takes no argument, and "x" is one`,
		"export ci":                                                 `lockdrill export ci: no argument given, usage: lockdrill export ci `,
		"export ci gitlub":                                          `lockdrill export ci: unknown system "gitlub", did you mean "github"\?; there are argo-rollouts, github, `,
		"export ci github frist-drill":                              `frist-drill: no such scenario, did you mean "first-drill"\?`,
		"export ci github no-drill.yaml":                            `no-drill.yaml:1`,
		"export ci github --on-inconclusive maybe":                  `--on-inconclusive "maybe": want fail or pass`,
		"export ci github " + outside:                               `a CI job knows the files of its checkout only: give a path inside it, from its root`,
		"export ci github ../" + filepath.Base(dir) + "/drill.yaml": `give a path inside it, from its root`,
	} {
		got := tryIn(t, dir, strings.Fields(args)...)
		if got.code != verdict.ExitUsage || got.stdout != "" || !regexp.MustCompile(want).MatchString(got.stderr) {
			t.Errorf("%s: %+v\nwant %s", args, got, want)
		}
	}
}

// A drill on a Redis that exists needs consent in every run: export says so where the step is made.
func TestExportCISpeaksOfConsent(t *testing.T) {
	t.Parallel()
	dir := exportDir(t)
	write(t, filepath.Join(dir, "external.yaml"), []byte(edit(t, goodDrill, "redis: {mode: spawn}", `redis: {mode: external, url: "redis://127.0.0.1:1"}`)))
	got := tryIn(t, dir, "export", "ci", "gitlab", "external.yaml")
	if got.code != verdict.ExitPass || !strings.Contains(got.stderr, "--confirm ") {
		t.Errorf("%+v", got)
	}
}
