package archtest

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A golden file holds figures and codes; what is said stands in one file for each form in which it is said: the judge's list of
// sentences, and a book for each format of a report. So a new wording touches a handful of files, and its difference can be read.
const (
	sentenceWords = 6 // words behind one another without a figure or a code between them
	mostGoldens   = 7 // golden files that such words may stand in

	mostTestdata = 400 << 10 // bytes of a file: a longer run shows nothing that a rehearsal in memory does not
)

// golden says whether a file is one that a test writes under -update. What tests read is none: histories, experiments, mutants, scripts.
func golden(name string) bool {
	return strings.Contains(name, "/testdata/") && slices.Contains([]string{".txt", ".html", ".json", ".golden"}, path.Ext(name))
}

var (
	saidWord = regexp.MustCompile(`\pL[\pL'’-]*`)
	saidRun  = regexp.MustCompile(`\pL[\pL'’-]*(?:[,;:]? \pL[\pL'’-]*)*`)
)

// sentences gives all runs of so many words in a text.
func sentences(text string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		for _, run := range saidRun.FindAllString(line, -1) {
			words := saidWord.FindAllString(run, -1)
			for i := range len(words) - sentenceWords + 1 {
				found[strings.Join(words[i:i+sentenceWords], " ")] = true
			}
		}
	}
	return found
}

// repeated gives the sentences that stand in too many of the files, one for each set of files.
func repeated(files map[string]string) []string {
	where := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for s := range sentences(files[name]) {
			where[s] = append(where[s], name)
		}
	}
	told, out := map[string]bool{}, []string{}
	for _, s := range slices.Sorted(maps.Keys(where)) {
		if at := strings.Join(where[s], ", "); len(where[s]) > mostGoldens && !told[at] {
			told[at] = true
			out = append(out, fmt.Sprintf("%q stands in %d golden files, at most %d: %s", s, len(where[s]), mostGoldens, at))
		}
	}
	return out
}

func TestASentenceStandsInFewGoldenFiles(t *testing.T) {
	files := map[string]string{}
	walk(t, func(name string, data []byte) {
		if golden(name) {
			files[name] = string(data)
		}
	})
	if len(files) < 50 {
		t.Fatalf("%d golden files: this test looks in the wrong place", len(files))
	}
	for _, problem := range repeated(files) {
		t.Errorf("%s: leave its figures, and let one file say it (internal/golden: Verdict, Sentences, Book)", problem)
	}
}

// A recorded run is as small as its point allows.
func TestFixturesAreSmall(t *testing.T) {
	walk(t, func(name string, data []byte) {
		if strings.Contains(name, "/testdata/") && len(data) > mostTestdata {
			t.Errorf("%s has %d bytes, at most %d: fewer kills, slower polls, fewer stretches of coverage (docs/testing.md)", name, len(data), mostTestdata)
		}
	})
}

// What the judge says is its own: no report's golden file says it again. Lints are the judge's warnings and a plan's lines; the ledger of
// oracles names what has no code by a piece of it.
func TestTheJudgesSentencesStandInOneGoldenFile(t *testing.T) {
	const list, plans, ledger = "analysis/testdata/sentences.txt", "reports/testdata/plans.txt", "analysis/testdata/oracles.txt"
	own := sentences(read(t, list))
	if len(own) < 100 {
		t.Fatalf("%d sentences in %s", len(own), list)
	}
	walk(t, func(name string, data []byte) {
		if !golden(name) || name == list || name == plans || name == ledger || strings.HasPrefix(name, "experiments/") {
			return
		}
		for s := range sentences(string(data)) {
			if own[s] {
				t.Errorf("%q is the judge's and stands in %s as well as in %s", s, name, list)
			}
		}
	})
}

// The guard itself is tried on what it must refuse.
func TestRepeated(t *testing.T) {
	files := map[string]string{}
	for i := range mostGoldens + 1 {
		files[fmt.Sprintf("%d.txt", i)] = fmt.Sprintf("%d kills: the key was never seen to go, at %ds\nthe key was seen\n", i, i)
	}
	if got := repeated(files); len(got) != 1 || !strings.Contains(got[0], `"key was never seen to go"`) {
		t.Errorf("%q", got)
	}
	files["0.txt"] = "0 6s\n"
	if got := repeated(files); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
