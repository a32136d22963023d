package timeline

import (
	"flag"
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/golden"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

var update = flag.Bool("update", false, "write the golden pictures anew")

const recorded = "../../scenarios/testdata"

// run is one recorded history, judged and arranged.
type run struct {
	e *experiments.Experiment
	j *verdict.Judgement
	l *Lanes
}

func load(t *testing.T, dir string) run {
	t.Helper()
	return judged(testkit.Run(t, dir))
}

func judged(e *experiments.Experiment, h *history.History) run {
	j := analysis.NewJudger(e).Judge(h)
	return run{e, j, Read(analysis.FactsOf(e, h).Facts, j)}
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

// everyTakeover checks that each takeover that a fault brought about is in the table of its lock's picture, and that the worst of each
// lock is shown close up.
func everyTakeover(t *testing.T, r run, ps []Picture) {
	t.Helper()
	closeups, locks := map[string]bool{}, map[string]int{}
	for _, p := range ps {
		for _, row := range p.Rows {
			switch {
			case strings.HasPrefix(p.ID, "trial"):
				closeups[row[0]] = true
			case strings.HasPrefix(p.ID, "takeovers-"):
				locks[row[0]]++
			}
		}
	}
	worst := map[string]*TrialLane{}
	for i := range r.l.Trials {
		if x := &r.l.Trials[i]; worst[x.Lock] == nil || byLength(x, worst[x.Lock]) < 0 {
			worst[x.Lock] = x
		}
	}
	for i, x := range r.j.Takeovers {
		n := fmt.Sprint(i + 1)
		if w := worst[x.Lock]; w.Number == i+1 && !closeups[n] {
			t.Errorf("takeover %s (%s), the worst of lock %s, has no close-up", n, x.Fault, x.Lock)
		}
		if x.Fault != "" && locks[n] != 1 {
			t.Errorf("takeover %s (%s) is in %d pictures of its lock", n, x.Fault, locks[n])
		}
	}
	if len(Trials(r.l)) != len(worst) {
		t.Errorf("%d close-ups of %d locks", len(Trials(r.l)), len(worst))
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
	fmt.Fprintf(&b, "<h2>%s</h2>\n<p>%s</p>\n%s\n<table>\n", html.EscapeString(p.Title), html.EscapeString(p.Desc), strings.ReplaceAll(p.SVG+p.Legend, "><", ">\n<"))
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
	if !strings.Contains(html.UnescapeString(p.Legend), "its pod's object gone") {
		t.Error("it does not show the end of the object")
	}
}

// Nobody tells of belief in an observed system: a lane has the colour of whom looks name, until its death, and a mark of its own where
// nobody is known, drawn one by one and as a crowd.
func TestAnObservedLeaseIsItsHolders(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*LockLane)
		shown  string // in the order of the legend
	}{
		{"of known holders", func(*LockLane) {}, "r0 r1 ghost"},
		{"of which one is not known", func(l *LockLane) { l.Keys[0].Holds[1].Replica = "" }, "r0 nobody ghost"},
		{"of many keys", func(l *LockLane) {
			l.Keys[0].Holds[1].Replica = ""
			for len(l.Keys) <= maxKeys {
				l.Keys = append(l.Keys, l.Keys[0])
			}
		}, "r0 nobody ghost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := load(t, filepath.Join(recorded, "pods-observed-lease"))
			c.change(&r.l.Locks[0])
			p := Overview(r.l)
			check(t, []Picture{p})
			var shown []string
			for _, class := range []string{"r0", "r1", "nobody", "ghost"} {
				if strings.Contains(p.SVG, `class="ld-`+class+`"`) {
					shown = append(shown, class)
				}
			}
			if got := strings.Join(shown, " "); got != c.shown {
				t.Errorf("fills of %s, want %s", got, c.shown)
			}
			for class, text := range map[string]string{"r0": "held by r1", "r1": "held by r2", "nobody": "held, by whom is not known", "ghost": "lease runs on"} {
				if strings.Contains(p.Legend, text) != strings.Contains(c.shown, class) {
					t.Errorf("the legend has %q, or lacks it, where %s is shown", text, c.shown)
				}
			}
		})
	}
}

// The fill of a lease ends where its holder does, and the rest has no owner.
func TestAnObservedHoldersFillEndsWithIt(t *testing.T) {
	l := load(t, filepath.Join(recorded, "pods-observed-lease")).l
	w := newWindow("overview", l, 0, l.Seconds)
	from, to := num(w.s.x(surely(l.Locks[0].Keys[0].Holds[0].Granted))), num(w.x(l.Replicas[0].Lives[0].End))
	if fill := regexp.QuoteMeta(attrs("r0")+` d="M`+from) + ` \S+H` + regexp.QuoteMeta(to) + `V`; !regexp.MustCompile(fill).MatchString(Overview(l).SVG) {
		t.Errorf("no fill of the first holder from %s to %s", from, to)
	}
}
