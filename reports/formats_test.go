package reports

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/golden"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// written is what a format makes of a run.
func written(t *testing.T, write func(io.Writer, Run) error, r Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func markdownOf(w io.Writer, r Run) error {
	return Markdown(w, r, Options{Report: "report.html", Reproduce: Again(r, "experiment.yaml")})
}

func postmortemOf(w io.Writer, r Run) error {
	return Postmortem(w, r, Options{Report: "report.html", Folder: "runs/a|run", Reproduce: Again(r, "experiment.yaml")})
}

func metricsOf(w io.Writer, r Run) error { return MetricsOf(r).Write(w) }

// coded is the run with a code in place of each sentence of the judge, which package analysis has in a golden file of its own.
func coded(t *testing.T, r Run) Run {
	t.Helper()
	doc, err := r.Judgement.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = golden.Coded(doc); err != nil {
		t.Fatal(err)
	}
	said := r.Judgement
	r.Judgement = new(verdict.Judgement)
	if err := json.Unmarshal(doc, r.Judgement); err != nil {
		t.Fatal(err)
	}
	for i := range said.SLOs { // the document has their names only
		r.Judgement.SLOs[i].Question = said.SLOs[i].Question
	}
	for i := range said.Expected {
		r.Judgement.Expected[i].Question = said.Expected[i].Question
	}
	return r
}

// Every format of all recorded runs is what its golden file says, and the same bytes when it is made again.
func TestFormatsOfRecordedRuns(t *testing.T) {
	runs := map[string]Run{}
	for name := range recordedRuns {
		runs[name] = coded(t, recorded(t, name))
	}
	const fullest = "fail"
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(runs)), func(name string) bool { return name == fullest })
	names := append([]string{fullest}, others...)
	page := func(w io.Writer, r Run) error {
		_, err := io.WriteString(w, outline(t, htmlOf(t, r)))
		return err
	}
	for ext, write := range map[string]func(io.Writer, Run) error{
		"md": markdownOf, "postmortem.md": postmortemOf, "junit.xml": JUnit, "prom": metricsOf, "csv": TakeoversCSV, "slos.csv": SLOsCSV, "html": page,
	} {
		t.Run(ext, func(t *testing.T) {
			var book golden.Book
			for _, name := range names {
				got := written(t, write, runs[name])
				book.Add(name, got)
				if again := written(t, write, runs[name]); again != got {
					t.Errorf("%s made twice, the bytes differ", name)
				}
			}
			isGolden(t, filepath.Join("formats", ext+".txt"), book.String())
		})
	}
}

// A summary that does not fit a chat message is not read there: Slack takes 40,000 characters of text, and shows the first 4,000 well.
func TestMarkdownFitsAMessage(t *testing.T) {
	for name := range recordedRuns {
		if n := len(written(t, markdownOf, recorded(t, name))); n > 4000 {
			t.Errorf("%s: report.md has %d bytes", name, n)
		}
	}
	sixty := sixtyKills(t)
	if n := len(written(t, markdownOf, sixty)); n > 4000 {
		t.Errorf("of sixty kills report.md has %d bytes", n)
	}
	if strings.Contains(written(t, postmortemOf, sixty), "more moment") {
		t.Error("sixty kills do not fit into the timeline of a post-mortem")
	}
	r := recorded(t, "fail")
	j := *r.Judgement
	j.SLOs = slices.Repeat(j.SLOs, 200)
	for i := range j.SLOs {
		j.SLOs[i].Why += strings.Repeat(" and so on", i)
	}
	r.Judgement = &j
	if n := len(written(t, markdownOf, r)); n > 8000 {
		t.Errorf("with %d SLOs report.md has %d bytes", len(j.SLOs), n)
	}
}

// hostile puts text into every string of a judgement that may come from the system under test or from its owner's file.
func hostile(text string) Run {
	j := failed()
	var spoil func(v reflect.Value)
	spoil = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				spoil(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				spoil(v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				spoil(v.Index(i))
			}
		case reflect.String:
			v.SetString(text)
		}
	}
	j.Warnings = []string{"w"}
	slos := slices.Clone(j.SLOs)
	spoil(reflect.ValueOf(j).Elem())
	j.Verdict, j.Run.Status, j.Run.Started, j.Run.Ended = "slo-failed", "completed", "2026-01-02T03:04:05Z", "2026-01-02T03:04:43Z"
	for i := range j.SLOs {
		j.SLOs[i].Verdict, j.SLOs[i].Unit, j.SLOs[i].Measure = slos[i].Verdict, slos[i].Unit, slos[i].Measure
	}
	for i := range j.Takeovers { // one series
		j.Takeovers[i].Class, j.Takeovers[i].End = verdict.ClassCrash, "effect"
	}
	e, h := hostileExperiment(text), hostileHistory(text)
	return Run{Experiment: e, Record: RecordOf(e, h), Judgement: j, Lanes: timeline.Read(analysis.FactsOf(e, h).Facts, j)}
}

// attacks are what a key, a note or a line of a log may try.
var attacks = []string{
	`<script>alert(1)</script><img src=x onerror=alert(1)>`,
	"a|b\n## c\n- d\n\n[click](http://evil.example)![x](http://evil.example/x.png)[^1]",
	"`code` ``` **bold** _em_ ~~gone~~ $x$ &amp; \\| <!-- c --> <http://evil.example> www.evil.example a@evil.example @everyone",
	"[click]: http://evil.example [click][click] ]]> <![CDATA[ ]]&gt;",
	"\x00\x01\x1b[31mred\x1b[0m\x7f\u202e\ufffe\xff",
	"=HYPERLINK(\"http://evil.example\")",
	"\n::error file=x::y\n::stop-commands::z",
	"::error::a ##[error]b ##vso[task.complete result=Succeeded]c ##teamcity[buildStatus status='SUCCESS']d ##\x00e",
	"redis://user:hunter2@redis.example:6379 --password=hunter2",
	"",
}

func TestSecretsAreTakenOut(t *testing.T) {
	r := hostile("redis://user:hunter2@redis.example:6379")
	for name, write := range map[string]func(io.Writer, Run) error{"md": markdownOf, "postmortem": postmortemOf, "junit": JUnit, "prom": metricsOf, "csv": TakeoversCSV, "slos-csv": SLOsCSV} {
		if got := written(t, write, r); strings.Contains(got, "hunter2") {
			t.Errorf("%s tells a password:\n%s", name, got)
		}
	}
}

// obeyed is a line that gives a CI a command: GitHub's, Azure's, TeamCity's.
var obeyed = regexp.MustCompile(`^\s*::|##(vso|teamcity)?\[`)

// A report on standard output is in the log of a CI step, whose commands no key and no note may give.
func TestReportsAreNoCommandsToACI(t *testing.T) {
	for _, attack := range attacks {
		r := hostile(attack)
		doc, err := r.Judgement.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{"json": string(HarmlessJSON(doc))}
		for name, write := range map[string]func(io.Writer, Run) error{"md": markdownOf, "postmortem": postmortemOf, "junit": JUnit, "prom": metricsOf,
			"csv": TakeoversCSV, "slos-csv": SLOsCSV, "html": HTML} {
			texts[name] = written(t, write, r)
		}
		for name, text := range texts {
			for line := range strings.Lines(text) {
				if obeyed.MatchString(line) {
					t.Errorf("%s: %q is obeyed: %q", name, attack, line)
				}
			}
		}
		var verdict, shown any
		if err := errors.Join(json.Unmarshal(doc, &verdict), json.Unmarshal([]byte(texts["json"]), &shown)); err != nil || !reflect.DeepEqual(verdict, shown) {
			t.Errorf("%q: what is shown says another thing than verdict.json (%v)", attack, err)
		}
	}
}

func TestCSVIsNoFormula(t *testing.T) {
	for _, attack := range attacks {
		for _, write := range []func(io.Writer, Run) error{TakeoversCSV, SLOsCSV} {
			rows, err := csv.NewReader(strings.NewReader(written(t, write, hostile(attack)))).ReadAll()
			if err != nil || len(rows) < 2 {
				t.Fatalf("%q: %v, %d rows", attack, err, len(rows))
			}
			for _, cell := range slices.Concat(rows...) {
				if strings.HasPrefix(cell, "=") || strings.HasPrefix(cell, "@") || strings.ContainsAny(cell, "\n\r\t") {
					t.Errorf("cell %q", cell)
				}
			}
		}
	}
}
