package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const verdictDoc = `{"verdict":"pass","lacks":[],"slos":[
	{"lock":"leader","measure":"takeover.max","lo":1.5,"hi":2,"n":3,"verdict":"pass","why":"3 kills, worst 2s","lateness":0.25,"lacks":[],"evidence":[4,7]},
	{"lock":"leader","measure":"overlap.work","lo":0,"hi":0,"n":3,"verdict":"inconclusive","why":"no look","lacks":[{"code":"looks","why":"no look for 2s"}],"evidence":[]}],
	"findings":[{"code":"ghost","what":"r1 claims 2 holds","evidence":[9]}],"warnings":["look at 7"]}`

const (
	junitDoc = `<testsuites name="lockdrill"><testsuite name="a" id="0" time="3.000"><testcase classname="a.leader" name="takeover" time="2.000"><failure type="slo-failed" message="observed 2s">why: late</failure></testcase><testcase classname="a.leader" name="overlap" time="0.000"></testcase></testsuite></testsuites>`
	promDoc  = "# HELP lockdrill_x What it is.\nlockdrill_x{lock=\"a\"} 1\nlockdrill_x{lock=\"b\"} 2\n"
	csvDoc   = "lock,slo,lateness\nleader,takeover.max,0.25\n"
)

// saidOf compares documents of two trees, run by run, and gives what is said: row, old, new.
func saidOf(t *testing.T, runs ...[2]map[string]string) (all []string) {
	t.Helper()
	c := newComparison(func(string) bool { return false }, func(d difference) { all = append(all, fmt.Sprintf("%s: %s, %s", d.row, d.old, d.new)) })
	for i, r := range runs {
		name := fmt.Sprint("run ", i)
		if err := c.add(&result{Run: name, Docs: r[0]}, &result{Run: name, Docs: r[1]}); err != nil {
			t.Fatal(err)
		}
	}
	c.end()
	return all
}

// Each deliberate change of what a tree gives is named by its row, and words are not, unless a figure in them has changed.
func TestWhatDiffersIsNamed(t *testing.T) {
	places := `[["slos[0].lock","a.yaml:3:7"],["faults[0].at","a.yaml:9:5"]]`
	for _, c := range []struct {
		what, name, doc, from, to string
		want                      []string
	}{
		{"nothing", "verdict.json", verdictDoc, "3 kills", "3 kills", nil},
		{"a comparator", "verdict.json", verdictDoc, `"n":3,"verdict":"pass"`, `"n":3,"verdict":"fail"`, []string{"verdict.json slos[leader takeover.max].verdict: pass, fail"}},
		{"a figure without evidence", "verdict.json", verdictDoc, `"lateness":0.25,`, ``, []string{"verdict.json slos[leader takeover.max].lateness: 0.25, -"}},
		{"a figure that is small", "verdict.json", verdictDoc, `1.5`, `1.5000000001`, []string{"verdict.json slos[leader takeover.max].lo: 1.5, 1.5000000001"}},
		{"an open end", "verdict.json", verdictDoc, `"hi":2`, `"hi":null`, []string{"verdict.json slos[leader takeover.max].hi: 2, null"}},
		{"words", "verdict.json", verdictDoc, `3 kills, worst 2s`, `of 3 the worst took 2s`, nil},
		{"a figure in words", "verdict.json", verdictDoc, `worst 2s`, `worst 3s`, []string{"verdict.json slos[leader takeover.max].why: 3 2s, 3 3s"}},
		{"words of a finding", "verdict.json", verdictDoc, `r1 claims 2 holds`, `2 holds: r1`, []string{"verdict.json findings[ghost].what: r1 2, 2 r1"}},
		{"a finding's code", "verdict.json", verdictDoc, `"code":"ghost"`, `"code":"no_begin"`,
			[]string{"verdict.json findings[ghost]: there, -", "verdict.json findings[no_begin]: -, there"}},
		{"a code of what is missing", "verdict.json", verdictDoc, `"code":"looks"`, `"code":"horizon"`,
			[]string{"verdict.json slos[leader overlap.work].lacks[looks]: there, -", "verdict.json slos[leader overlap.work].lacks[horizon]: -, there"}},
		{"the order of evidence", "verdict.json", verdictDoc, `[4,7]`, `[7,4]`, []string{"verdict.json slos[leader takeover.max].evidence order: [4, 7], [7, 4]"}},
		{"evidence", "verdict.json", verdictDoc, `[4,7]`, `[4]`, []string{"verdict.json slos[leader takeover.max].evidence: [4, 7], [4]"}},
		{"a moved error", "places.pairs", places, "9:5", "9:9", []string{"places.pairs faults[0].at: a.yaml:9:5, a.yaml:9:9"}},
		{"an error that is gone", "places.pairs", places, `,["faults[0].at","a.yaml:9:5"]`, "", []string{"places.pairs faults[0].at: a.yaml:9:5, -"}},
		{"errors that are gone", "places.pairs", `[["slos[0]","a.yaml:3:7"],["slos[0].lock","a.yaml:3:9"],["x","a.yaml:4:1"]]`, `["slos[0]","a.yaml:3:7"],["slos[0].lock","a.yaml:3:9"],`, "",
			[]string{"places.pairs slos[0]: a.yaml:3:7, -", "places.pairs slos[0].lock: a.yaml:3:9, -"}},
		{"a text of JUnit", "junit.xml", junitDoc, "why: late", "why: too late", nil},
		{"a status of JUnit", "junit.xml", junitDoc, "failure", "error", []string{
			"junit.xml testsuites[1].testsuite[0].testcase[a.leader takeover].failure[1]: there, -",
			"junit.xml testsuites[1].testsuite[0].testcase[a.leader takeover].error[1]: -, there"}},
		{"a time of JUnit", "junit.xml", junitDoc, "2.000", "2.001", []string{"junit.xml testsuites[1].testsuite[0].testcase[a.leader takeover].time: 2.000, 2.001"}},
		{"a series", "metrics.prom", promDoc, "1\n", "3\n", []string{`metrics.prom lockdrill_x{lock="a"}: 1, 3`}},
		{"a help of metrics", "metrics.prom", promDoc, "What", "how", []string{"metrics.prom # HELP lockdrill_x: What it is., how it is."}},
		{"a blank of a table", "slos.csv", csvDoc, "leader,", `"leader",`, []string{"slos.csv line 2: leader,takeover.max,0.25\n, \"leader\",takeover.max,0.25\n"}},
		{"a cell", "slos.csv", csvDoc, "0.25", "", []string{"slos.csv [leader takeover.max].lateness: 0.25, "}},
		{"a description of the schema", "x.schema.json", `{"properties":{"description":{"type":"string","description":"what"}}}`, "what", "which", nil},
		{"a type of the schema", "x.schema.json", `{"properties":{"description":{"type":"string"}}}`, `"string"`, `"object"`,
			[]string{"x.schema.json properties.description.type: string, object"}},
	} {
		changed := strings.ReplaceAll(c.doc, c.from, c.to)
		if c.from != c.to && changed == c.doc {
			t.Errorf("%s: the document is not changed", c.what)
		}
		// A run in which both are there tells a field that is gone from one that is never there.
		whole := [2]map[string]string{{c.name: c.doc}, {c.name: c.doc}}
		other := [2]map[string]string{{c.name: changed}, {c.name: changed}}
		if got := saidOf(t, whole, [2]map[string]string{{c.name: c.doc}, {c.name: changed}}, other); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.what, got, c.want)
		}
	}
}

// What one tree never gives is told once, and not for each run; an error, and a document, likewise by its run.
func TestANewFieldIsToldOnce(t *testing.T) {
	old := map[string]string{"history.pairs": `[["look","2 events"],["look .at","0a"]]`}
	new := map[string]string{"history.pairs": `[["look","2 events"],["look .at","0a"],["look .run","0b"]]`, "more.txt": "a"}
	want := []string{"field history.pairs look .run: -, 2 times, first in run 0", "field more.txt: -, 2 times, first in run 0"}
	if got := saidOf(t, [2]map[string]string{old, new}, [2]map[string]string{old, new}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An input that only this tree has, and the old one cannot read, is left out; one that both have is not, nor is a panic.
func TestWhatTheOldTreeCannotRead(t *testing.T) {
	var got []difference
	c := newComparison(func(input string) bool { return input == "fresh" }, func(d difference) { got = append(got, d) })
	docs := map[string]string{"marshal.txt": "a"}
	for _, r := range [][2]result{
		{{Run: "1", Input: "fresh", Error: "schema 3"}, {Run: "1", Input: "fresh", Docs: docs}},
		{{Run: "2", Input: "fresh", Docs: map[string]string{"places.pairs": `[["a","b:1:1"]]`}}, {Run: "2", Input: "fresh", Docs: docs}},
		{{Run: "3", Input: "both", Docs: docs}, {Run: "3", Input: "both", Error: "panic"}},
		{{Run: "4", Input: "both", Error: "no"}, {Run: "4", Input: "both", Error: "No"}},
		{{Run: "5", None: true}, {Run: "5", Docs: docs}},
	} {
		if err := c.add(&r[0], &r[1]); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 1 || got[0].run != "3" || got[0].new != "panic" {
		t.Errorf("told: %+v", got)
	}
	if c.leftOut[reasonUnread] != 2 || c.leftOut[reasonBroken] != 1 || c.leftOut[reasonUnknown] != 1 {
		t.Errorf("left out: %v", c.leftOut)
	}
	if err := c.add(&result{Run: "6"}, &result{Run: "7"}); err == nil {
		t.Error("two different runs are compared")
	}
}
