package analysis

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// suppressor is a change of the judge's source in a copy of it: at each place the answer that LOCKDRILL_SUPPRESS names is dropped.
var suppressor = []struct{ file, was, now string }{
	{"verdict/missing.go", "import (\n", "import (\n\t\"os\"\n\t\"slices\"\n"},
	{"verdict/missing.go", "// MissingCode says", `// Dropped reports that the answer is the one that is to be dropped.
func Dropped(kind, code string) bool { return os.Getenv("LOCKDRILL_SUPPRESS") == kind+" "+code }

// Unsaid reports that a finding without a code is the one that is to be dropped.
func Unsaid(what string) bool {
	said, found := strings.CutPrefix(os.Getenv("LOCKDRILL_SUPPRESS"), "sentence ")
	return found && strings.Contains(what, said)
}

// Kept is what is left of ms.
func Kept(ms []Missing) []Missing {
	return slices.DeleteFunc(slices.Clone(ms), func(m Missing) bool { return Dropped("lack", string(m.Code)) })
}

// MissingCode says`},
	{"verdict/void.go", "// VoidOf is", `// KeptVoid is v, or nothing.
func KeptVoid(v Void) Void {
	if Dropped("void", string(v.Code)) {
		return Void{}
	}
	return v
}

// VoidOf is`},
	{"facts/facts.go", "{ ix.findAs(\"\", what, evidence...) }", "{\n\tif !verdict.Unsaid(what) {\n\t\tix.findAs(\"\", what, evidence...)\n\t}\n}"},
	{"judge.go", "j.runMissing()...)", "verdict.Kept(j.runMissing())...)"},
	{"judge.go", "\tout.Lints = j.lints(out)\n", `	out.Findings = slices.DeleteFunc(out.Findings, func(f verdict.Finding) bool {
		return verdict.Dropped("finding", string(f.Code)) || f.Code == "" && verdict.Unsaid(f.What)
	})
	out.Lints = j.lints(out)
`},
	{"row.go", "lacks := slices.Concat(j.missingOf(l.Lock), a.lacks)", "lacks := verdict.Kept(slices.Concat(j.missingOf(l.Lock), a.lacks))"},
	{"row.go", "\t\tlacks = a.unsure\n", "\t\tlacks = verdict.Kept(a.unsure)\n"},
	{"expect.go", "\tr.Verdict, r.Why, r.Next, r.Missing = verdict.Inconclusive", "\tif verdict.Dropped(\"lack\", string(m.Code)) {\n\t\treturn\n\t}\n\tr.Verdict, r.Why, r.Next, r.Missing = verdict.Inconclusive"},
	{"unknown.go", "\t\t\tif len(lacks) > 0 {\n", "\t\t\tif lacks = verdict.Kept(lacks); len(lacks) > 0 {\n"},
	{"row.go", "\ta.lacks = j.needsOf(l, m, &a.figure)\n", "\ta.lacks = verdict.Kept(j.needsOf(l, m, &a.figure))\n"},
	{"row.go", "a.undecided(j.advice())...)\n", "verdict.Kept(a.undecided(j.advice()))...)\n"},
	{"row.go", "\treturn a\n}\n\n// beside", `	for name, of := range j.measures {
		if of == m && a.word == verdict.Fail && (verdict.Dropped("measure", name) || verdict.Dropped("measure", l.Figure())) {
			a.word, a.broken = verdict.Pass, ""
		}
	}
	return a
}

// beside`},
	{"facts/exposure.go", "\t\ts.WhyVoid = s.ReasonVoid()\n\t\treturn\n", "\t\ts.WhyVoid = verdict.KeptVoid(s.ReasonVoid())\n\t\treturn\n"},
	{"facts/exposure.go", "\tif !s.Valid() {\n\t\ts.WhyVoid = s.ReasonVoid()\n", "\tif !s.Valid() {\n\t\ts.WhyVoid = verdict.KeptVoid(s.ReasonVoid())\n"},
	{"facts/pods.go", "t.Void = verdict.Void{Code: verdict.VoidWrongVictim}", "t.Void = verdict.KeptVoid(verdict.Void{Code: verdict.VoidWrongVictim})"},
	{"facts/takeover.go", "t.Void = verdict.Void{Code: verdict.VoidNoDemand}", "t.Void = verdict.KeptVoid(verdict.Void{Code: verdict.VoidNoDemand})"},
	{"facts/takeover.go", "t.Void = verdict.Void{Code: verdict.VoidUndecided}", "t.Void = verdict.KeptVoid(verdict.Void{Code: verdict.VoidUndecided})"},
}

// suppressed is the judge's source with the suppressor in it, by path.
func suppressed() (map[string]string, error) {
	changed := map[string]string{}
	for _, s := range suppressor {
		path, err := filepath.Abs(s.file)
		if err != nil {
			return nil, err
		}
		if changed[path] == "" {
			src, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			changed[path] = string(src)
		}
		if n := strings.Count(changed[path], s.was); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, not once: mend the suppressor", s.file, s.was, n)
		}
		changed[path] = strings.Replace(changed[path], s.was, s.now, 1)
	}
	return changed, nil
}

func TestTheSuppressorFits(t *testing.T) {
	if _, err := suppressed(); err != nil {
		t.Error(err)
	}
}

// TestOracles is make oracles: it drops each answer in turn, and writes which tests of this package notice. LOCKDRILL_ORACLES is a regular
// expression of those to try; what is known of the others stays.
func TestOracles(t *testing.T) {
	which := os.Getenv("LOCKDRILL_ORACLES")
	if which == "" {
		t.Skip("a quarter of an hour: make oracles")
	}
	tried, known := regexp.MustCompile(which), noticedBy(t)
	sources, err := suppressed()
	if err != nil {
		t.Fatal(err)
	}
	dir, overlay := t.TempDir(), struct{ Replace map[string]string }{map[string]string{}}
	for path, src := range sources {
		copied := filepath.Join(dir, strings.ReplaceAll(path, string(filepath.Separator), "_"))
		if err := os.WriteFile(copied, []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = copied
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "judge.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("the suppressor does not build: %v\n%s", err, out)
	}
	fails := regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	notice := func(answer string) []string {
		cmd := exec.CommandContext(t.Context(), bin, "-test.skip", "^TestAnEventLessMakesNoPassAppear$|^TestTheLedgerOfOracles$|^TestTheSuppressorFits$")
		cmd.Env = append(os.Environ(), "LOCKDRILL_ORACLES=", "LOCKDRILL_SUPPRESS="+answer)
		out, _ := cmd.CombinedOutput() // that it fails is the point
		var tests []string
		for _, m := range fails.FindAllStringSubmatch(string(out), -1) {
			name := m[1]
			if top, _, sub := strings.Cut(name, "/"); sub && top != "TestRecordedHistories" || name == "TestRecordedHistories" {
				continue
			}
			tests = append(tests, name)
		}
		if len(tests) == 0 && strings.Contains(string(out), "panic:") {
			t.Fatalf("%s dropped: %s", answer, out)
		}
		slices.Sort(tests)
		return slices.Compact(tests)
	}
	if wrong := notice(""); len(wrong) > 0 {
		t.Fatalf("with nothing dropped %q fail: the table would mean nothing", wrong)
	}
	var b strings.Builder
	for _, answer := range answers(t) {
		tests := known[answer]
		if tried.MatchString(answer) {
			tests = notice(answer)
		}
		t.Logf("%s: %d", answer, len(tests))
		fmt.Fprintf(&b, "%s: %s\n", answer, strings.Join(tests, " "))
	}
	if err := os.WriteFile(oraclesFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// answers are all that the judge can give: KIND CODE.
func answers(t *testing.T) []string {
	var all []string
	for _, name := range rowNames(measures()) {
		all = append(all, "measure "+name)
	}
	for _, k := range answerKinds(t) {
		for _, code := range slices.Compact(slices.Sorted(maps.Values(k.codes))) {
			all = append(all, k.key+" "+code)
		}
	}
	for _, said := range uncoded(t) {
		all = append(all, "sentence "+said)
	}
	return all
}
