package timeline

import (
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/golden"
)

var update = flag.Bool("update", false, "write the golden pictures anew")

const recorded = "../../scenarios/testdata"

// run is one recorded history, judged and arranged.
type run struct {
	e *experiments.Experiment
	j *verdict.Judgement
	l *verdict.Lanes
}

func load(t *testing.T, dir string) run {
	t.Helper()
	e, err := experiments.Load(filepath.Join(dir, "experiment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := history.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return judged(e, h)
}

func judged(e *experiments.Experiment, h *history.History) run {
	j := analysis.Judge(e, h)
	return run{e, j, analysis.FactsOf(e, h).Lanes(j)}
}

// pictures of a run, all of them.
func (r run) pictures() []Picture {
	ps := []Picture{Overview(r.l)}
	ps = append(ps, Takeovers(r.e, r.j)...)
	ps = append(ps, Trials(r.l)...)
	return append(ps, Signals(r.l)...)
}

func recordedDirs(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(recorded, "*", "history.jsonl"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recorded histories: %v", err)
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

func TestRecordedRuns(t *testing.T) {
	for _, dir := range recordedDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			r := load(t, dir)
			ps := r.pictures()
			check(t, ps)
			everyTakeover(t, r, ps)
			for i, p := range load(t, dir).pictures() {
				if p.SVG != ps[i].SVG {
					t.Errorf("%s: other bytes for the same run", p.ID)
				}
			}
		})
	}
}

// everyTakeover checks that each takeover is in the table of exactly one trial picture, and of one of its lock.
func everyTakeover(t *testing.T, r run, ps []Picture) {
	t.Helper()
	trials, locks := map[string]int{}, map[string]int{}
	for _, p := range ps {
		for _, row := range p.Rows {
			switch {
			case strings.HasPrefix(p.ID, "trial"):
				trials[row[0]]++
			case strings.HasPrefix(p.ID, "takeovers-"), strings.HasPrefix(p.ID, "parts-"):
				locks[row[0]]++
			}
		}
	}
	for i, x := range r.j.Takeovers {
		n := fmt.Sprint(i + 1)
		if trials[n] != 1 {
			t.Errorf("takeover %s (%s) is in %d pictures of trials", n, x.Fault, trials[n])
		}
		if want := 2; x.Fault != "" && locks[n] != want {
			t.Errorf("takeover %s (%s) is in %d pictures of its lock", n, x.Fault, locks[n])
		}
	}
}

// Every picture of four runs is what the golden file has: rewrite it with -update, and look at it in a browser.
func TestGolden(t *testing.T) {
	var book golden.Book
	for _, name := range []string{"good-drill", "pause-90s-unfenced", "failover-granted-twice", "metrics-agree"} {
		var b strings.Builder
		for _, p := range load(t, filepath.Join(recorded, name)).pictures() {
			b.WriteString(page(p))
		}
		book.Add(name, b.String())
	}
	golden.Compare(t, filepath.Join("testdata", "pictures.html"), "<!doctype html>\n<meta charset=\"utf-8\">\n"+book.String(), *update)
}

// page is a picture and its table as markup, a line for each shape.
func page(p Picture) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<h2>%s</h2>\n<p>%s</p>\n%s<table>\n", html.EscapeString(p.Title), html.EscapeString(p.Desc), strings.ReplaceAll(p.SVG, "><", ">\n<"))
	for _, row := range append([][]string{p.Columns}, p.Rows...) {
		b.WriteString("<tr>")
		for _, cell := range row {
			fmt.Fprintf(&b, "<td>%s", html.EscapeString(cell))
		}
		b.WriteString("\n")
	}
	b.WriteString("</table>\n")
	return b.String()
}

// A close-up of a pod's death shows that its object was gone long before.
func TestACloseUpShowsThePodsObjectGo(t *testing.T) {
	p := Trials(load(t, filepath.Join(recorded, "pods-force-delete-overlap")).l)[0]
	if !strings.Contains(html.UnescapeString(p.SVG), "its pod's object gone") {
		t.Error("it does not show the end of the object")
	}
}
