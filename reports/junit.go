package reports

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/reports/doc"

	"github.com/jstemmer/go-junit-report/v2/junit"
)

// JUnit writes junit.xml of one run.
func JUnit(w io.Writer, r Run) error {
	var s Suites
	s.Add(r)
	return s.Write(w)
}

// Suites collects the drills of one command for one JUnit file, a suite each. A testcase is an SLO, or one of three about the drill
// itself: that each fault was injected, that the run came to its end, that clean-up was verified. A violated SLO is a failure;
// whatever was not answered is an error, and nothing is ever skipped, which CI systems count as fine. A suite without failure and
// error is a pass, and nothing else is.
type Suites struct{ all junit.Testsuites }

// The words of lockdrill's own testcases.
const (
	caseFaults  = "every fault was injected"
	caseEnd     = "the run came to its end"
	caseRun     = "the drill was run and judged"
	caseCleanUp = "clean-up was verified"
)

// Add adds the suite of a judged run.
func (s *Suites) Add(r Run) {
	j := r.Judgement
	name := j.Run.Experiment
	if !j.Run.Live {
		name = "REHEARSAL " + name
	}
	suite := s.suite(name)
	suite.Time = seconds3(j.Run.Seconds)
	if at, err := time.Parse(time.RFC3339Nano, j.Run.Started); err == nil {
		suite.Timestamp = at.UTC().Format("2006-01-02T15:04:05") // the form of the published schema, without a zone
	}
	for _, p := range [][2]string{
		{"run", j.Run.ID}, {"verdict", j.Verdict}, {"exitStatus", strconv.Itoa(j.ExitCode)}, {"seed", strconv.FormatInt(j.Run.Seed, 10)},
		{"timeScale", factor(j.Run.TimeScale)}, {"tool", r.Record.Header.Tool}, {"experimentDigest", r.Record.Header.Digest},
	} {
		suite.AddProperty(p[0], doc.Clean(p[1]))
	}
	for _, row := range numbered(j) {
		suite.AddTestcase(row)
	}
	for _, c := range drillCases(r) {
		suite.AddTestcase(c)
	}
	s.all.AddSuite(suite)
}

// AddUnjudged adds the suite of a drill that has no verdict: refused, interrupted before it began, a bad file, or the tool broke.
func (s *Suites) AddUnjudged(experiment, word, why string) {
	suite := s.suite(experiment)
	suite.Time = seconds3(0)
	suite.AddTestcase(outcome(experiment+".drill", caseRun, &junit.Result{Type: word, Message: "no verdict: " + word, Data: why}, nil))
	s.all.AddSuite(suite)
}

func (s *Suites) suite(name string) junit.Testsuite {
	return junit.Testsuite{ID: len(s.all.Suites), Name: doc.Clean(name)}
}

// Write writes the collected suites as one document.
func (s *Suites) Write(w io.Writer) error {
	all := s.all
	all.Name = "lockdrill"
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("write junit.xml: %w", err)
	}
	if err := all.WriteXML(w); err != nil {
		return fmt.Errorf("write junit.xml: %w", err)
	}
	return nil
}

// boundText explains the rate of a row that has one.
func boundText(s verdict.SLOResult) string {
	if !bounded(s) {
		return ""
	}
	return "\nwith 95% confidence; more faults lower it"
}

// numbered are the testcases of the SLOs, in the order of the file. CI systems follow a case by class and name, so names are of what
// was promised and not of what was observed, and two equal ones are numbered.
func numbered(j *verdict.Judgement) []junit.Testcase {
	var cases []junit.Testcase
	n := map[string]int{}
	for _, s := range j.Rows() {
		row := rowOf(s, j)
		class, name := j.Run.Experiment+"."+cmp.Or(row.Lock, "run"), caseName(row, j.Run.TimeScale)
		if n[class+"\x00"+name]++; n[class+"\x00"+name] > 1 {
			name += fmt.Sprintf(" (%d)", n[class+"\x00"+name])
		}
		var failure, err *junit.Result
		switch row.Verdict {
		case verdict.Pass:
		case verdict.Fail:
			failure = told(row, "slo-failed")
		default:
			err = told(row, "inconclusive")
		}
		c := outcome(class, name, err, failure)
		if row.Verdict == verdict.Pass {
			c.SystemOut = &junit.Output{Data: doc.Clean("observed " + row.observed + ", " + row.sample + boundText(row.SLOResult))}
		}
		if row.Unit == verdict.UnitSeconds { // so a CI system's chart of durations is one of takeovers
			c.Time = seconds3(*cmp.Or(row.Hi, &row.Lo))
		}
		cases = append(cases, c)
	}
	return cases
}

// caseName is the promise, of a scaled run with the limit as it was run: a CI system knows the case by it.
func caseName(row sloRow, scale float64) string {
	if row.Declared == row.Limit || row.Unit == verdict.UnitCount || row.Against != nil {
		return row.promise
	}
	words, sign := verdict.MeasureWords(row.Measure), asks(row.Ask)
	if row.Fault != "" {
		words = row.Fault + " provokes " + words
	}
	return fmt.Sprintf("%s %s %s (%s at %s)", words, sign, exact(row.Declared, row.Unit), exact(row.Limit, row.Unit), factor(scale))
}

// told is why a row is not met: the figure in the message, why and what to do in the text.
func told(row sloRow, kind string) *junit.Result {
	var lines []string
	for _, says := range [][2]string{{"based on", row.Rests}, {"why", row.Why}, {"next", row.Next}, {"see", doc.Events(row.Evidence)}} {
		if says[1] != "" {
			lines = append(lines, says[0]+": "+says[1])
		}
	}
	if len(lines) == 0 {
		why, _ := verdict.Reasons(row.Missing)
		lines = append(lines, why)
	}
	return &junit.Result{Type: kind, Message: "observed " + row.observed + ", " + row.sample, Data: strings.Join(lines, "\n")}
}

// drillCases are the testcases about the drill itself.
func drillCases(r Run) []junit.Testcase {
	j := r.Judgement
	class := j.Run.Experiment + ".drill"
	faults := outcome(class, caseFaults, missing(r), nil)
	end := outcome(class, caseEnd, cutShort(j), nil)
	end.Time = seconds3(j.Run.Seconds)
	var dirt *junit.Result
	if !j.Run.CleanedUp {
		lines := []string{runText(j.Run)}
		for _, i := range leftItems(r.Record, "") {
			lines = append(lines, because(i.Label, i.Texts[0]))
		}
		dirt = &junit.Result{Type: "dirty", Message: "clean-up " + cleanUpText(j), Data: strings.Join(lines, "\n")}
		if j.Verdict != "dirty" {
			dirt.Type = j.Verdict
		}
	}
	cases := []junit.Testcase{faults, end, outcome(class, caseCleanUp, dirt, nil)}
	if j.Verdict != "pass" && !slices.ContainsFunc(append(numbered(j), cases...), notGreen) { // such as: no SLO was declared
		why, _ := verdict.Reasons(j.Missing)
		why = cmp.Or(why, "No row of the file's slos was judged.")
		cases[1] = outcome(class, caseEnd, &junit.Result{Type: j.Verdict, Message: runTally(j), Data: why}, nil)
	}
	return cases
}

func notGreen(c junit.Testcase) bool { return c.Failure != nil || c.Error != nil }

func runTally(j *verdict.Judgement) string {
	word, _ := runWord(j.Verdict)
	return word + ", " + tally(j)
}

// missing are the faults of which fewer shots were confirmed than declared. A run that passed has its answer all the same.
func missing(r Run) *junit.Result {
	j := r.Judgement
	if j.Verdict == "pass" {
		return nil
	}
	ids, counts := shotCounts(j)
	var short []string
	for _, id := range ids {
		if c := counts[id]; c.confirmed < c.declared {
			short = append(short, id+": "+c.String())
		}
	}
	if len(short) == 0 {
		return nil
	}
	return &junit.Result{Type: "inconclusive", Message: "fewer shots were confirmed than declared", Data: strings.Join(append(short, voidText(j.Faults)), "\n")}
}

// cutShort says why a run did not come to its end.
func cutShort(j *verdict.Judgement) *junit.Result {
	if j.Run.Status == "completed" && j.Verdict != "aborted" && j.Verdict != "error" {
		return nil
	}
	kind := j.Verdict
	if kind == "slo-failed" || kind == "dirty" || kind == "pass" { // the word of the run is told elsewhere
		kind = j.Run.Status
	}
	return &junit.Result{Type: kind, Message: "the run ended early", Data: strings.Join(append([]string{runText(j.Run)}, j.Warnings...), "\n")}
}

// outcome is a testcase that passed, or has an error or a failure. Readers show its message, its text or both: neither repeats the other.
func outcome(class, name string, err, failure *junit.Result) junit.Testcase {
	c := junit.Testcase{Classname: doc.Clean(class), Name: doc.Clean(name), Time: seconds3(0), Error: err, Failure: failure}
	for _, r := range []*junit.Result{err, failure} {
		if r == nil {
			continue
		}
		var lines []string
		for line := range strings.Lines(r.Data) {
			lines = append(lines, doc.Clean(line))
		}
		r.Message, r.Data = doc.Clean(r.Message), strings.Join(lines, "\n")
	}
	return c
}

func seconds3(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }
