package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/gameday"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

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

// A day whose leader is killed in the middle of a drill goes on: the drill is undone and run again, what was done is not.
func TestLiveGameDayIsResumed(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	dir := t.TempDir()
	day := filepath.Join(dir, "day")
	for name, text := range map[string]string{"good.yaml": goodDrill, "day.yaml": shortDay} {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	cmd := lockdrill("run", "day.yaml", "--out", "day", "--who", "ada")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the drill", inFile(func() string { return filepath.Join(day, "02-drill", historyFile) }, "the-loop"))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	write(t, filepath.Join(dir, "other.yaml"), []byte(shortDay+"\n"))
	if got := tryIn(t, dir, "run", "other.yaml", "--resume", "day"); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "another sheet") {
		t.Errorf("another sheet: %+v", got)
	}
	got := tryIn(t, dir, "run", "day.yaml", "--resume", "day", "--who", "ben")
	var doc gameday.Document
	data, err := os.ReadFile(filepath.Join(day, gameday.JSONFile))
	if err != nil || json.Unmarshal(data, &doc) != nil || doc.SchemaVersion != 1 || len(doc.Steps) != 2 {
		t.Fatalf("%v: %s\n%+v", err, data, got)
	}
	look, drill := doc.Steps[0], doc.Steps[1]
	if got.code != doc.ExitCode || got.code != verdict.WorstExit(verdict.ExitInconclusive, *drill.ExitCode) {
		t.Errorf("status %d, %+v", got.code, doc)
	}
	if look.Outcome != gameday.StepSkipped || look.Who != "ada" || drill.Outcome != gameday.StepDone || drill.Who != "ben" || len(drill.Aborted) != 1 || len(doc.Figures) == 0 {
		t.Errorf("%s", data)
	}
	if _, err := os.Stat(filepath.Join(day, drill.Folder, fullReport())); err != nil || drill.Folder == drill.Aborted[0] {
		t.Errorf("the page of the run: %v", err)
	}
	if left := tryIn(t, dir, "recover", filepath.Join("day", drill.Aborted[0])); left.code != verdict.ExitPass {
		t.Errorf("left behind: %+v", left)
	}
	write(t, filepath.Join(day, gameday.NotesFile), []byte("the pager |\nwas <silent>\n\neve was there\n"))
	if got := tryIn(t, dir, "judge", "day"); got.code != doc.ExitCode {
		t.Errorf("the report made anew: %+v", got)
	}
	for _, name := range []string{gameday.PageFile, gameday.TextFile, gameday.JSONFile} {
		if text := string(read(t, filepath.Join(day, name))); !strings.Contains(text, "eve") || strings.Contains(text, "<silent>") && name == gameday.PageFile {
			t.Errorf("%s does not have the note", name)
		}
	}
}

func TestGameDayRefusesBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"people.yaml": strings.Replace(shortDay, ", optional: true", "", 1), "missing.yaml": shortDay, "bad.yaml": strings.Replace(shortDay, "owner", "onwer", 1),
	} {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	for args, want := range map[string]string{
		"people.yaml": "there is no terminal", "missing.yaml": "good.yaml: read", "bad.yaml": "bad.yaml:5:1", "absent.yaml": "no such file",
		"first-gameday --resume .": "not the folder of a game day", "first-gameday --junit x.xml": "--junit does not go with it", "first-gameday first-drill": "run alone", "first-drill --who me": "first-drill is none",
	} {
		got := tryIn(t, dir, append([]string{"run"}, strings.Fields(args)...)...)
		if got.code != verdict.ExitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("run %s: %+v, want %q", args, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "gamedays")); err == nil {
		t.Error("a refused day has a folder")
	}
}
