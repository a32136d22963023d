package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"

	parser "github.com/joshdk/go-junit"
)

// everyRun is a run of every kind: recorded ones, made ones, and one without a question.
func everyRun(t *testing.T) map[string]Run {
	t.Helper()
	all := map[string]Run{}
	for name := range recordedRuns {
		all[name] = recorded(t, name)
	}
	noQuestion := inconclusive()
	noQuestion.SLOs, noQuestion.Missing, noQuestion.Run.Steady = nil, nil, true
	noQuestion.Faults = passed().Faults
	for name, j := range map[string]*verdict.Judgement{"made pass": passed(), "made fail": failed(), "made inconclusive": inconclusive(), "made aborted": aborted(),
		"made dirty": dirty(), "error": broken(), "no SLO": noQuestion} {
		e := &experiments.Experiment{Name: "first-drill", Faults: []experiments.Fault{{ID: "kill-holder", Spec: &fault.Kill{}}}}
		all[name] = Run{Experiment: e, Record: RecordOf(e, &history.History{Header: history.Header{Tool: "lockdrill test"}}), Judgement: j}
	}
	return all
}

// An independent parser reads what was written: a green file is a pass, and nothing else is; nothing is ever skipped.
func TestJUnitIsGreenForAPassAlone(t *testing.T) {
	for name, r := range everyRun(t) {
		suites, err := parser.Ingest([]byte(written(t, JUnit, r)))
		if err != nil || len(suites) != 1 {
			t.Fatalf("%s: %v, %d suites", name, err, len(suites))
		}
		n := suites[0].Totals
		if green, pass := n.Failed+n.Error == 0, r.Judgement.Verdict == "pass"; green != pass || n.Skipped != 0 {
			t.Errorf("%s, verdict %s: %d failed, %d errors, %d skipped", name, r.Judgement.Verdict, n.Failed, n.Error, n.Skipped)
		}
		violated := 0
		for _, s := range r.Judgement.SLOs {
			if s.Verdict == verdict.Fail {
				violated++
			}
		}
		if n.Failed != violated || n.Tests != len(r.Judgement.SLOs)+3 {
			t.Errorf("%s: %d failures of %d tests, want %d of %d", name, n.Failed, n.Tests, violated, len(r.Judgement.SLOs)+3)
		}
	}
}

func TestJUnitOfSeveralDrills(t *testing.T) {
	var s Suites
	s.Add(recorded(t, "pass-1"))
	s.AddUnjudged("second", "refused", "windows: closed until Monday")
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	suites, err := parser.Ingest(b.Bytes())
	if err != nil || len(suites) != 2 || suites[1].Totals.Error != 1 || suites[1].Tests[0].Message != "no verdict: refused" || suites[1].Tests[0].Error == nil && !strings.Contains(b.String(), "windows: closed until Monday") {
		t.Fatalf("%v: %+v\n%s", err, suites, b.String())
	}
	checkDialects(t, "two suites", b.String())
}

// What is written can be read whatever stands in the keys, and by every reader in the same way.
func TestJUnitDialects(t *testing.T) {
	for name, r := range everyRun(t) {
		checkDialects(t, name, written(t, JUnit, r))
	}
	for _, attack := range attacks {
		text := written(t, JUnit, hostile(attack))
		checkDialects(t, strconv.Quote(attack), text)
		if suites, err := parser.Ingest([]byte(text)); err != nil || suites[0].Totals.Tests != len(failed().SLOs)+3 {
			t.Errorf("%q: %v\n%s", attack, err, text)
		}
	}
}

type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []element  `xml:",any"`
}

func (e element) attr(name string) (string, bool) {
	i := slices.IndexFunc(e.Attrs, func(a xml.Attr) bool { return a.Name.Local == name })
	if i < 0 {
		return "", false
	}
	return e.Attrs[i].Value, true
}

var (
	decimalForm = regexp.MustCompile(`^\d+\.\d+$`)
	stampForm   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$`)
)

// checkDialects holds a document against what its readers need. The rules, and where they stand:
//   - GitLab (lib/gitlab/ci/parsers/test/junit.rb): testsuites or testsuite at the root; of a testcase classname, name, time; the outcome is
//     the element failure, error or skipped, and what is shown is that element's text; an attribute status is ignored. A case is
//     followed over time by classname and name, so they are unique.
//   - Jenkins' junit plugin (hudson.tasks.junit.SuiteResult, CaseResult): testsuite has a name; testcase a name and a classname, which is
//     split into package and class at the last dot; the text of error, else of failure, is the stack trace; time is a plain decimal.
//   - GitHub, dorny/test-reporter (java-junit parser): testsuites with testsuite elements that have name, tests, errors, failures, time;
//     failure and error have text, message and type. publish-unit-test-result-action reads the same by junitparser, which wants numbers
//     as counts.
//   - The schema that most of them quote (windyroad/JUnit-Schema): properties before testcases, timestamp without a zone, message and
//     type on failure and error.
//   - XML 1.0: no control characters, in attributes and CDATA alike, and no "]]>" within CDATA.
func checkDialects(t *testing.T, what, text string) {
	t.Helper()
	bad := func(format string, args ...any) {
		t.Errorf("%s: %s\n%s", what, fmt.Sprintf(format, args...), text)
	}
	if !strings.HasPrefix(text, `<?xml version="1.0" encoding="UTF-8"?>`) {
		bad("no XML declaration")
	}
	for _, r := range text {
		if r == '\uFFFE' || r == '\uFFFF' || r < ' ' && r != '\t' && r != '\n' && r != '\r' {
			bad("character %U is illegal", r)
		}
	}
	var root element
	if err := xml.Unmarshal([]byte(text), &root); err != nil {
		bad("%v", err)
		return
	}
	if root.XMLName.Local != "testsuites" || len(root.Children) == 0 {
		bad("the root is %s with %d children", root.XMLName.Local, len(root.Children))
	}
	for _, suite := range root.Children {
		if name, ok := suite.attr("name"); suite.XMLName.Local != "testsuite" || !ok || strings.TrimSpace(name) == "" && what != `""` {
			bad("a %s named %q", suite.XMLName.Local, name)
		}
		checkSuite(suite, bad)
	}
}

func checkSuite(suite element, bad func(string, ...any)) {
	counts := map[string]int{}
	seen := map[string]bool{}
	for i, c := range suite.Children {
		switch c.XMLName.Local {
		case "properties":
			if i != 0 {
				bad("properties come after testcases")
			}
			continue
		case "testcase":
			counts["tests"]++
		default:
			bad("a %s in a testsuite", c.XMLName.Local)
		}
		name, named := c.attr("name")
		class, classed := c.attr("classname")
		if !named || !classed || name == "" || class == "" || seen[class+"\x00"+name] {
			bad("case %q of class %q: missing, or there twice", name, class)
		}
		seen[class+"\x00"+name] = true
		if v, _ := c.attr("time"); !decimalForm.MatchString(v) {
			bad("time %q", v)
		}
		checkOutcome(c, counts, bad)
	}
	for _, kind := range []string{"tests", "failures", "errors"} {
		if v, _ := suite.attr(kind); v != strconv.Itoa(counts[kind]) {
			bad("%s=%q, there are %d", kind, v, counts[kind])
		}
	}
	if v, _ := suite.attr("time"); !decimalForm.MatchString(v) {
		bad("time of the suite %q", v)
	}
	if v, ok := suite.attr("timestamp"); ok && !stampForm.MatchString(v) {
		bad("timestamp %q", v)
	}
}

func checkOutcome(c element, counts map[string]int, bad func(string, ...any)) {
	outcomes := 0
	for _, o := range c.Children {
		switch kind := o.XMLName.Local; kind {
		case "failure", "error":
			counts[kind+"s"]++
			outcomes++
			message, _ := o.attr("message")
			if of, _ := o.attr("type"); of == "" || message == "" || strings.TrimSpace(o.Text) == "" {
				bad("a %s of type %q with message %q and text %q", kind, of, message, o.Text)
			}
		case "system-out":
		default:
			bad("a %s in a testcase", kind)
		}
	}
	if outcomes > 1 {
		bad("a case with %d outcomes", outcomes)
	}
}
