package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The pages are made of the data, and of nothing else: whoever changes one of them runs `make wild ONLY=page`.
func TestThePagesAreMadeOfTheData(t *testing.T) {
	all, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	made := all.pages()
	for file, want := range made {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is not what wild.json gives: %v", file, err)
		}
	}
	there, err := filepath.Glob(docs + "/wild/*")
	if err != nil || len(there) != len(made)-1 {
		t.Errorf("%d pages are there, want %d: %v", len(there), len(made)-1, err)
	}
}

// A table with holes, or with a control that missed a limit, is not published.
func TestTheTableIsWhole(t *testing.T) {
	all, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	want := cells()
	for _, c := range want {
		runs := all.Cells[c.name()]
		if r := all.Recorded[c.name()]; len(runs) == 0 || r.Date == "" || r.Commit == "" {
			t.Errorf("%s: %d runs, %s", c.name(), len(runs), r)
		}
		for _, f := range runs {
			if f.Error != "" || f.Blind || c.l.control && len(f.Broken) > 0 {
				t.Errorf("%s: %s", c.name(), f)
			}
		}
	}
	if len(all.Cells) != len(want) {
		t.Errorf("%d cells are kept, want %d", len(all.Cells), len(want))
	}
}

// Every thread's file says what it shows, and was seen to show it.
func TestThreadsWereReproduced(t *testing.T) {
	all, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	threads, err := readThreads()
	if err != nil {
		t.Fatal(err)
	}
	if len(threads) == 0 {
		t.Error("no threads")
	}
	for _, x := range threads {
		if r := all.Recorded["wild/"+x.name]; !x.ok(all.Threads[x.name]) || r.Date == "" || r.Commit == "" {
			t.Errorf("%s: %s, %s", x.name, all.Threads[x.name], r)
		}
		if n := len(workerLine.FindAllString(x.text, -1)); n != 1 {
			t.Errorf("%s: %d workers", x.name, n)
		}
	}
}

func TestRangesOfSeveralRuns(t *testing.T) {
	at := func(lo, hi float64) span { return span{Lo: lo, Hi: &hi} }
	for _, c := range []struct {
		all  []span
		want string
	}{
		{nil, ""}, {[]span{at(1, 1.02)}, "1.0 s"}, {[]span{at(1, 1.5), at(0.01, 0.2)}, "0.01 to 1.5 s"},
		{[]span{at(1, 2), {Lo: 3}}, "1.0 to 2.0 s or not in the run"}, {[]span{{}}, "not in the run"},
	} {
		if got := ranges(c.all); got != c.want {
			t.Errorf("%v: %q, want %q", c.all, got, c.want)
		}
	}
	b := func(broken ...string) figures { return figures{Broken: broken} }
	if got := row([]figures{b("overlap.effect", "unowned_work"), b("overlap.effect")}); !slices.Equal(got[6:], []string{"overlap effect, unowned work (1 of 2 runs)"}) {
		t.Errorf("%q", got)
	}
	other := slices.IndexFunc(libraries, func(l library) bool { return !l.control })
	if words := experiment(libraries[other], drills[0]); strings.Contains(words, "fence_regressions") || !strings.Contains(experiment(libraries[0], drills[0]), "fence_regressions") {
		t.Error("fences are asked for of those who have none, or not of those who have them")
	}
}

// A record is held against an earlier one by what is broken: a measure that was broken now and then, or is not answered, is no news.
func TestOtherwiseThanRecorded(t *testing.T) {
	before := table{Cells: map[string][]figures{"c": {{Broken: []string{"always", "sometimes"}}, {Broken: []string{"always"}}}}, Recorded: map[string]recorded{"c": {"then", "abc"}}}
	for _, c := range []struct {
		now  figures
		want string
	}{
		{figures{Broken: []string{"always", "sometimes"}}, ""},
		{figures{Broken: []string{"always"}}, ""},
		{figures{Open: []string{"always"}}, ""},
		{figures{Error: "no verdict"}, ""},
		{figures{}, "c: always holds, and was broken (recorded then at abc)"},
		{figures{Broken: []string{"always", "new"}}, "c: new is broken, and was not (recorded then at abc)"},
	} {
		if got := strings.Join(before.otherwise("c", []figures{c.now, c.now}), "; "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.now, got, c.want)
		}
	}
	if got := before.otherwise("d", []figures{{Broken: []string{"new"}}}); got != nil {
		t.Errorf("of a cell that was not recorded: %q", got)
	}
}
