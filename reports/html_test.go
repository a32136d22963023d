package reports

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

func htmlOf(t testing.TB, r Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHTMLOfRecordedRuns(t *testing.T) {
	for name := range recordedRuns {
		if page := htmlOf(t, recorded(t, name)); page != htmlOf(t, recorded(t, name)) {
			t.Errorf("%s: the same run gave other bytes", name)
		}
	}
}

// tags gives the start elements of a page, and what is said between them.
func tags(t testing.TB, doc string, start func(xml.StartElement), end func(name string), text func(string)) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(doc))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("the page is not well formed: %v", err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			start(e)
		case xml.EndElement:
			end(e.Name.Local)
		case xml.CharData:
			text(string(e))
		}
	}
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// outline is the text of a page, of which a golden file is made: a line for each heading, paragraph, row and item; no markup,
// pictures and event log.
func outline(t testing.TB, doc string) string {
	var b, line strings.Builder
	var silent []string // elements of which nothing is told
	flush := func() {
		if s := strings.Join(strings.Fields(line.String()), " "); strings.Trim(s, " |") != "" {
			b.WriteString(strings.TrimSuffix(s, " |") + "\n")
		}
		line.Reset()
	}
	mute := func(e xml.StartElement) bool {
		switch e.Name.Local {
		case "style", "script", "svg", "nav":
			return true
		}
		return attr(e, "class") == "twin" || attr(e, "class") == "box log" || attr(e, "class") == "ld-legend" || attr(e, "id") == "broken" // sentences are the judge's and have a test of their own
	}
	tags(t, doc, func(e xml.StartElement) {
		name := e.Name.Local
		if len(silent) > 0 || mute(e) {
			silent = append(silent, name)
			return
		}
		switch name {
		case "h1", "h2", "h3":
			flush()
			fmt.Fprintf(&line, "%s ", strings.Repeat("#", int(name[1]-'0')))
		case "p", "tr", "dt", "li", "summary", "figcaption", "pre":
			flush()
		}
	}, func(name string) {
		if n := len(silent); n > 0 {
			silent = silent[:n-1]
			return
		}
		switch name {
		case "td", "th", "dt", "dd":
			line.WriteString(" | ")
		case "h1", "h2", "h3", "p", "tr", "li", "summary", "figcaption":
			flush()
		}
	}, func(s string) {
		if len(silent) == 0 {
			line.WriteString(s)
		}
	})
	flush()
	return b.String()
}

// Every link of a page leads somewhere on it, no two things have the same name, and headings go down by one step at most.
func TestHTMLHoldsTogether(t *testing.T) {
	for name := range recordedRuns {
		ids, links := map[string]bool{}, map[string]bool{}
		level := 0
		doc := htmlOf(t, recorded(t, name))
		tags(t, doc, func(e xml.StartElement) {
			if id := attr(e, "id"); id != "" {
				if ids[id] {
					t.Errorf("%s: two elements have the id %q", name, id)
				}
				ids[id] = true
			}
			if e.Name.Local == "a" {
				links[attr(e, "href")] = true
			}
			if n := e.Name.Local; len(n) == 2 && n[0] == 'h' && n[1] >= '1' && n[1] <= '6' {
				if now := int(n[1] - '0'); now > level+1 {
					t.Errorf("%s: a heading of level %d after one of level %d", name, now, level)
				}
				level = int(n[1] - '0')
			}
			if n := e.Name.Local; n == "svg" && attr(e, "aria-hidden") == "" && attr(e, "role") != "img" {
				t.Errorf("%s: a picture that is no img to those who hear the page: %v", name, e.Attr)
			}
		}, func(string) {}, func(string) {})
		for _, l := range slices.Sorted(maps.Keys(links)) {
			if !strings.HasPrefix(l, "#") || !ids[l[1:]] {
				t.Errorf("%s: a link to %q leads nowhere", name, l)
			}
		}
		if len(links) < 10 {
			t.Errorf("%s: only %d links", name, len(links))
		}
		if strings.Contains(doc, "style=") {
			t.Errorf("%s: a style attribute, which a strict policy drops", name)
		}
	}
}

var verdictScript = regexp.MustCompile(`(?s)<script type="application/json" id="verdict">(.*?)</script>`)

// The verdict inside the page is verdict.json.
func TestHTMLEmbedsTheVerdict(t *testing.T) {
	for name := range recordedRuns {
		r := recorded(t, name)
		m := verdictScript.FindStringSubmatch(htmlOf(t, r))
		if m == nil {
			t.Fatalf("%s: no verdict in the page", name)
		}
		var got verdict.Judgement
		if err := json.Unmarshal([]byte(m[1]), &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, err := r.Judgement.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := got.Marshal(); err != nil || !bytes.Equal(again, want) {
			t.Errorf("%s: the verdict inside the page is another one (%v)", name, err)
		}
	}
}

// sabotaged is a recorded run into which somebody wrote markup, secrets, marks of direction and endless names wherever he could.
func sabotaged(t testing.TB) Run {
	e, h := testkit.Run(t, filepath.Join("testdata", "recorded", "fail"))
	r := runOf(e, h)
	j := r.Judgement
	evil := `</script></style></title><script>document.title="evil"</script><img src=x onerror=alert(1)>` + "\u202e\u2066\x1b[31m\x00\xff" +
		` redis://admin:hunter2@10.0.0.1/0 --password=hunter2&x javascript:alert(1) ` + strings.Repeat("k", 20_000)
	utf8 := strings.ToValidUTF8(evil, "") // as the YAML reader demands
	r.Experiment.Name, r.Experiment.Description = utf8, utf8
	j.Run.Experiment, j.Run.ID, h.Header.Run, h.Header.Recorded = evil, evil, evil, evil
	for i := range j.SLOs {
		j.SLOs[i].Why, j.SLOs[i].Next = evil, evil
	}
	j.Warnings, j.Findings = []string{evil}, []verdict.Finding{{What: evil, Evidence: []int64{1, 2, 3}}}
	for i := range j.Takeovers {
		j.Takeovers[i].Key += evil
	}
	for i := range j.Faults {
		j.Faults[i].Why, j.Faults[i].Key = evil, evil
	}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Key != "" {
			e.Key += evil
		}
		if e.Note != nil {
			e.Note.Why = evil
		}
		if e.Call != nil && e.Call.Err != "" {
			e.Call.Err = evil
		}
		if e.Kind == history.ReplicaExit {
			e.Replica.Bad, e.Replica.BadLine = 3, evil
		}
		if e.Replica != nil {
			e.Replica.Called = evil
		}
	}
	for i := range r.Lanes.Replicas {
		r.Lanes.Replicas[i].Lives[0].Called = evil
	}
	r.Record = RecordOf(e, h)
	return r
}

func TestHTMLDisarmsWhatOthersWrote(t *testing.T) {
	doc := htmlOf(t, sabotaged(t))
	if len(doc) > 2_000_000 {
		t.Errorf("endless names make a page of %d bytes", len(doc))
	}
	for _, secret := range []string{"hunter2", "admin:"} {
		if i := strings.Index(doc, secret); i >= 0 {
			t.Errorf("the page says %q: ... %q", secret, doc[max(0, i-80):i+40])
		}
	}
	if i := strings.IndexFunc(doc, unseen); i >= 0 {
		t.Errorf("the page holds %q", doc[max(0, i-20):i+20])
	}
	scripts := 0
	tags(t, doc, func(e xml.StartElement) {
		switch e.Name.Local {
		case "script":
			if scripts++; attr(e, "type") != "application/json" {
				t.Errorf("a script that runs: %v", e.Attr)
			}
		case "img", "iframe", "object", "embed", "link", "base", "form", "foreignObject":
			t.Errorf("an element <%s>", e.Name.Local)
		}
		for _, a := range e.Attr {
			if strings.HasPrefix(strings.ToLower(a.Name.Local), "on") || strings.HasPrefix(strings.ToLower(a.Value), "javascript:") {
				t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
			}
		}
	}, func(string) {}, func(string) {})
	if scripts != 1 {
		t.Errorf("%d script elements: the verdict broke out of its own", scripts)
	}
	var j verdict.Judgement
	if err := json.Unmarshal([]byte(verdictScript.FindStringSubmatch(doc)[1]), &j); err != nil {
		t.Errorf("the verdict inside the page is broken: %v", err)
	}
}

func TestHTMLSaysWhatItLeftOut(t *testing.T) {
	r := sixtyKills(t)
	doc := written(t, func(w io.Writer, r Run) error {
		d, err := pageOf(r, 5)
		if err != nil {
			return err
		}
		return Write(w, d)
	}, r)
	if !strings.Contains(doc, "left out, those of replicas first") {
		t.Error("a cut event log does not say so")
	}
	for i := range r.Judgement.SLOs {
		for _, n := range r.Judgement.SLOs[i].Evidence[:min(8, len(r.Judgement.SLOs[i].Evidence))] {
			if !strings.Contains(doc, fmt.Sprintf(`id="e%d"`, n)) {
				t.Errorf("event %d is evidence and not in the cut event log", n)
			}
		}
	}
}

func TestMargin(t *testing.T) {
	for _, c := range []struct {
		s    verdict.SLOResult
		want string
	}{
		{verdict.SLOResult{Unit: "s", Limit: 3, Lo: 1.072449423, Hi: at(1.072915833), N: 7}, "1.92s left (64%)"},
		{verdict.SLOResult{Unit: "s", Limit: 30, Lo: 88.6812, Hi: at(88.7), N: 3}, "58.6s over"},
		{verdict.SLOResult{Unit: "s", Limit: 30, Lo: 88.6812, N: 3}, "58.6s over"},
		{verdict.SLOResult{Unit: "s", Limit: 30, Lo: 29, Hi: at(31), N: 3}, "not known"},
		{verdict.SLOResult{Unit: "s", Limit: 30, Lo: 2, N: 3}, "not known"},
		{verdict.SLOResult{Unit: "s", Limit: 30}, "–"},
		{verdict.SLOResult{Unit: "count", Limit: 4, Lo: 1, Hi: at(1), N: 64}, "3 left (75%)"},
		{verdict.SLOResult{Unit: "count", Lo: 2, Hi: at(2), N: 64}, "2 over"},
		{verdict.SLOResult{Unit: "count", Hi: at(0), N: 64}, "–"},
		{verdict.SLOResult{Unit: "ratio", Limit: 0.01, Lo: 0.025, Hi: at(0.025), N: 80}, "1.5% over"},
		{verdict.SLOResult{Unit: "s", Limit: 0.5, Lo: 0.1, Hi: at(0.1), N: 2}, "400ms left (80%)"},
	} {
		if got := marginText(c.s); got != c.want {
			t.Errorf("margin of %+v: %q, want %q", c.s, got, c.want)
		}
	}
}

// unseen reports a character that has no picture of its own, or turns the order of others round.
func unseen(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}
