package reports

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"

	parser "github.com/joshdk/go-junit"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// said is what a format says of one SLO, read back from its text.
type said struct{ word, lock, promise, observed string }

// readers are the formats that say each SLO in words, and how those are read back without the code that wrote them.
func readers() map[string]struct {
	write func(io.Writer, Run) error
	read  func(*testing.T, string) []said
} {
	return map[string]struct {
		write func(io.Writer, Run) error
		read  func(*testing.T, string) []said
	}{
		"html":     {func(w io.Writer, r Run) error { return HTML(w, r) }, htmlRows},
		"markdown": {markdownOf, markdownRows},
		"junit":    {JUnit, junitRows},
	}
}

// The numbers of all formats are those of verdict.json: each range contains the one there, and is hardly wider.
func TestFormatsAgree(t *testing.T) {
	for name := range recordedRuns {
		r := recorded(t, name)
		doc, err := r.Judgement.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var verdict verdict.Judgement
		if err := json.Unmarshal(doc, &verdict); err != nil {
			t.Fatal(err)
		}
		for format, f := range readers() {
			t.Run(name+" "+format, func(t *testing.T) { agree(t, verdict.SLOs, verdict.Run.TimeScale, f.read(t, written(t, f.write, r))) })
		}
		t.Run(name+" prom", func(t *testing.T) { agreeMetrics(t, &verdict, written(t, metricsOf, r)) })
		t.Run(name+" csv", func(t *testing.T) { agreeCSV(t, &verdict, written(t, SLOsCSV, r), written(t, TakeoversCSV, r)) })
	}
}

// realForm is a figure of a scaled run as it was measured, behind the one that is scaled back to the file's.
var realForm = regexp.MustCompile(` \((.*) real x ([\d.]+)\)`)

func agree(t *testing.T, slos []verdict.SLOResult, scale float64, rows []said) {
	t.Helper()
	if len(rows) != len(slos) {
		t.Fatalf("%d SLOs, want %d: %+v", len(rows), len(slos), rows)
	}
	for _, s := range slos {
		words := map[verdict.Verdict]string{verdict.Pass: "PASS", verdict.Fail: "FAIL", verdict.Inconclusive: "INCONCLUSIVE"}
		measure := strings.NewReplacer(".", " ", "_", " ").Replace(s.Measure)
		at := slices.IndexFunc(rows, func(r said) bool { return r.lock == s.Lock && strings.HasPrefix(r.promise, measure+" ") })
		if at < 0 {
			t.Errorf("%s %s is not there: %+v", s.Lock, s.Measure, rows)
			continue
		}
		row := rows[at]
		if row.word != words[s.Verdict] {
			t.Errorf("%s %s: %s, want %s", s.Lock, s.Measure, row.word, words[s.Verdict])
		}
		limit := row.promise[strings.LastIndex(row.promise, " ")+1:]
		want := s.Limit
		if s.Unit == verdict.UnitSeconds {
			want = s.Declared
		}
		if lo, _ := figured(t, limit, s.Unit); math.Abs(lo-want) > 1e-9 {
			t.Errorf("limit %q of %s %s is %v, want %v", limit, s.Lock, s.Measure, lo, want)
		}
		measured := row.observed
		if m := realForm.FindStringSubmatch(row.observed); m != nil {
			measured = m[1]
			if x, err := strconv.ParseFloat(m[2], 64); err != nil || math.Abs(x*scale-1) > 1e-3 {
				t.Errorf("%q at scale %v", row.observed, scale)
			}
			lo, hi := figured(t, row.observed, s.Unit)
			within(t, row.observed, lo, hi, s.Lo/scale, upper(s.Hi)/scale)
		} else if s.Unit == verdict.UnitSeconds && scale != 1 {
			t.Errorf("%s %s: %q does not say what was measured", s.Lock, s.Measure, row.observed)
		}
		lo, hi := figured(t, measured, s.Unit)
		within(t, row.observed, lo, hi, s.Lo, upper(s.Hi))
	}
}

var spanForm = regexp.MustCompile(`^\[?(-?\d+(?:,\d{3})*(?:\.\d+)?)(us|ms|s|%)?(?:, (open|-?\d+(?:,\d{3})*(?:\.\d+)?)\](us|ms|s|%)?)?`)

// figured reads "[626.56, 626.84]ms", "[398.239ms, open]", "0s", "1,024".
func figured(t *testing.T, text, unit string) (lo, hi float64) {
	t.Helper()
	m := spanForm.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no figure: %q", text)
	}
	per := map[string]float64{"": 1, "s": 1, "ms": 1e3, "us": 1e6, "%": 100}[m[2]+m[4]]
	read := func(s string) float64 {
		v, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
		if err != nil {
			t.Fatalf("%q of %q: %v", s, text, err)
		}
		return v / per
	}
	if unit == verdict.UnitSeconds && m[2]+m[4] == "" {
		t.Fatalf("%q has no unit", text)
	}
	lo = read(m[1])
	switch m[3] {
	case "":
		return lo, lo
	case "open":
		return lo, math.Inf(1)
	}
	return lo, read(m[3])
}

func within(t *testing.T, text string, lo, hi, wantLo, wantHi float64) {
	t.Helper()
	const slack = 1e-9
	if lo > wantLo+slack || hi < wantHi-slack {
		t.Errorf("%q is narrower than [%v, %v]", text, wantLo, wantHi)
	}
	if wide := max(0.002, 0.05*wantLo); wantLo-lo > wide || hi-wantHi > wide && !math.IsInf(hi, 1) || math.IsInf(hi, 1) != math.IsInf(wantHi, 1) {
		t.Errorf("%q is much wider than [%v, %v]", text, wantLo, wantHi)
	}
}

func markdownRows(t *testing.T, text string) []said {
	t.Helper()
	var rows []said
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 6 && len(cells) != 5 || !strings.HasPrefix(line, "| ") || strings.Contains(line, "---") || strings.Contains(line, "promise") {
			continue
		}
		rows = append(rows, said{strings.Trim(cells[0], " *"), cells[1], cells[2], cells[3]})
	}
	return rows
}

func htmlRows(t *testing.T, text string) []said {
	t.Helper()
	var rows []said
	for line := range strings.Lines(outline(t, text)) {
		if cells := strings.Split(line, " | "); (len(cells) == 6 || len(cells) == 7) && slices.Contains([]string{"PASS", "FAIL", "INCONCLUSIVE"}, cells[0]) {
			rows = append(rows, said{cells[0], cells[1], cells[2], cells[3]})
		}
	}
	return rows
}

func junitRows(t *testing.T, text string) []said {
	t.Helper()
	suites, err := parser.Ingest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var rows []said
	for _, c := range suites[0].Tests {
		_, lock, _ := strings.Cut(c.Classname, ".")
		if lock == "drill" {
			continue
		}
		word := map[parser.Status]string{parser.StatusPassed: "PASS", parser.StatusFailed: "FAIL", parser.StatusError: "INCONCLUSIVE"}[c.Status]
		name, _, _ := strings.Cut(c.Name, " (") // of a scaled run the limit as it was run follows
		rows = append(rows, said{word, lock, name, strings.TrimPrefix(c.SystemOut+c.Message, "observed ")})
	}
	return rows
}

// agreeMetrics holds the takeovers and counts of the metrics against the trials themselves.
func agreeMetrics(t *testing.T, j *verdict.Judgement, text string) {
	t.Helper()
	textParser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := textParser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	m := Metrics(slices.Collect(maps.Values(families)))
	value := func(name string, labels ...string) float64 {
		s := find(m, name, labels...)
		if s == nil {
			t.Fatalf("no %s %v", name, labels)
		}
		return s.Gauge.GetValue()
	}
	lows, highs := map[string][]float64{}, map[string][]float64{}
	for _, x := range j.Takeovers {
		of := x.Lock + "/" + x.Class
		lows[of], highs[of] = append(lows[of], x.Lo), append(highs[of], upper(x.Hi))
		for _, p := range x.Parts() {
			if of := of + "/" + p.Name; p.Long != nil {
				lows[of], highs[of] = append(lows[of], p.Long.Lo), append(highs[of], upper(p.Long.Hi))
			}
		}
	}
	for of, lo := range lows {
		lock, class, _ := strings.Cut(of, "/")
		name, more := "lockdrill_takeover_seconds", []string{}
		if c, part, is := strings.Cut(class, "/"); is {
			name, class, more = "lockdrill_takeover_part_seconds", c, []string{"part", part}
		}
		for stat, want := range map[string][2]float64{"min": {slices.Min(lo), slices.Min(highs[of])}, "max": {slices.Max(lo), slices.Max(highs[of])}} {
			for i, bound := range []string{"lo", "hi"} {
				if got := value(name, append([]string{"lock", lock, "class", class, "stat", stat, "bound", bound}, more...)...); got != want[i] {
					t.Errorf("takeover %s %s %s: %v, want %v", of, stat, bound, got, want[i])
				}
			}
		}
	}
	for name, want := range map[string]int{"duplicate_terminal_states": j.Counts.Duplicates, "abandonments": j.Counts.Abandonments, "jobs": j.Counts.Jobs} {
		if got := value("lockdrill_run_" + name); got != float64(want) {
			t.Errorf("%s: %v, want %d", name, got, want)
		}
	}
	for _, s := range j.SLOs {
		if got := value("lockdrill_slo_met", "lock", s.Lock, "slo", s.Measure); got == 1 != (s.Verdict == verdict.Pass) {
			t.Errorf("%s %s: met %v, verdict %s", s.Lock, s.Measure, got, s.Verdict)
		}
	}
}

func agreeCSV(t *testing.T, j *verdict.Judgement, slos, takeovers string) {
	t.Helper()
	read := func(text string) []map[string]string {
		all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var rows []map[string]string
		for _, cells := range all[1:] {
			row := map[string]string{}
			for i, name := range all[0] {
				row[name] = cells[i]
			}
			rows = append(rows, row)
		}
		return rows
	}
	end := func(hi *float64) string {
		if hi == nil {
			return ""
		}
		return strconv.FormatFloat(*hi, 'f', -1, 64)
	}
	rows := read(slos)
	for i, s := range j.SLOs {
		got := []string{rows[i]["slo"], rows[i]["verdict"], rows[i]["observed_lo"], rows[i]["observed_hi"], rows[i]["n"]}
		if want := []string{s.Measure, string(s.Verdict), end(&s.Lo), end(s.Hi), strconv.Itoa(s.N)}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	rows = read(takeovers)
	if len(rows) != len(j.Takeovers) {
		t.Fatalf("%d trials, want %d", len(rows), len(j.Takeovers))
	}
	for i, x := range j.Takeovers {
		if got, want := fmt.Sprint(rows[i]["fault"], rows[i]["takeover_lo"], rows[i]["takeover_hi"]), fmt.Sprint(x.Fault, end(&x.Lo), end(x.Hi)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
