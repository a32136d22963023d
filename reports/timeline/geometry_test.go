package timeline

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// box is where a text stands at most, by the widths of package timeline.
type box struct {
	x0, y0, x1, y1 float64
	text           string
}

// drawing is what a test must know of an SVG.
type drawing struct {
	width, height float64
	texts         []box
	ids, refs     []string
	problems      []string
}

func (d *drawing) complain(format string, args ...any) {
	if len(d.problems) < 10 {
		d.problems = append(d.problems, fmt.Sprintf(format, args...))
	}
}

// inherited is what texts inherit.
type inherited struct {
	anchor  string
	size    float64
	pattern bool
}

var allowed = map[string]bool{"svg": true, "title": true, "desc": true, "defs": true, "pattern": true, "path": true, "g": true, "text": true}

// read checks that svg is well formed, draws only within its viewBox and leans on nothing outside of itself.
func read(svg string) *drawing {
	d := &drawing{}
	dec := xml.NewDecoder(strings.NewReader(svg))
	stack := []inherited{{anchor: start, size: sizeLabel}}
	var open *box
	var elements []string
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			d.complain("not well formed: %v", err)
			break
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			name := tok.Name.Local
			elements = append(elements, name)
			s := stack[len(stack)-1]
			if !allowed[name] {
				d.complain("element %s", name)
			}
			attr := d.attributes(&s, name, tok.Attr)
			stack = append(stack, s)
			switch {
			case name == "path" && !s.pattern:
				d.path(attr["d"])
			case name == "text":
				open = &box{x0: number64(attr["x"]), y0: number64(attr["y"])}
			}
		case xml.EndElement:
			s := stack[len(stack)-1]
			stack, elements = stack[:len(stack)-1], elements[:len(elements)-1]
			if tok.Name.Local == "text" {
				d.text(*open, s)
				open = nil
			}
		case xml.CharData:
			if open != nil && elements[len(elements)-1] == "text" {
				open.text += string(tok)
			}
		}
	}
	d.overlaps()
	d.references()
	return d
}

func (d *drawing) attributes(s *inherited, name string, as []xml.Attr) map[string]string {
	attr := map[string]string{}
	for _, a := range as {
		k := a.Name.Local
		attr[k] = a.Value
		switch {
		case k == "style" || k == "href" || strings.HasPrefix(k, "on"):
			d.complain("attribute %s=%q", k, a.Value)
		case k == "text-anchor":
			s.anchor = a.Value
		case k == "font-size":
			s.size = number64(a.Value)
		case k == "id":
			d.ids = append(d.ids, a.Value)
		case k == "aria-labelledby":
			d.refs = append(d.refs, strings.Fields(a.Value)...)
		case strings.HasPrefix(a.Value, "url("):
			d.refs = append(d.refs, strings.TrimSuffix(strings.TrimPrefix(a.Value, "url(#"), ")"))
		case strings.Contains(a.Value, "//") && k != "xmlns":
			d.complain("attribute %s=%q", k, a.Value)
		}
	}
	switch name {
	case "pattern":
		s.pattern = true
	case "svg":
		box := strings.Fields(attr["viewBox"])
		d.width, d.height = number64(box[2]), number64(box[3])
		if attr["role"] != "img" || attr["aria-labelledby"] == "" {
			d.complain("the picture has no role, or no name")
		}
	}
	return attr
}

func number64(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

func (d *drawing) inside(x, y float64) {
	if !(x >= 0 && x <= d.width && y >= 0 && y <= d.height) { // NaN is not inside either
		d.complain("(%g, %g) is outside of %g x %g", x, y, d.width, d.height)
	}
}

var commands = regexp.MustCompile(`-?[0-9.]+(?:e[-+]?\d+)?|Inf|NaN|[A-Za-z]`)

// path follows the points of d.
func (d *drawing) path(data string) {
	var x, y float64
	verb := ""
	var args []float64
	need := map[string]int{"M": 2, "L": 2, "H": 1, "V": 1, "h": 1, "v": 1, "a": 7}
	for _, word := range commands.FindAllString(data, -1) {
		if _, is := need[word]; is || word == "z" {
			verb, args = word, args[:0]
			continue
		}
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			d.complain("path has %q", word)
			return
		}
		if args = append(args, v); len(args) < need[verb] {
			continue
		}
		switch verb {
		case "M", "L":
			x, y = args[0], args[1]
		case "H":
			x = args[0]
		case "V":
			y = args[0]
		case "h":
			x += args[0]
		case "v":
			y += args[0]
		case "a":
			x, y = x+args[5], y+args[6]
		}
		args = args[:0]
		d.inside(x, y)
	}
}

func (d *drawing) text(b box, s inherited) {
	w := widthOf(b.text, s.size)
	switch s.anchor {
	case middle:
		b.x0 -= w / 2
	case end:
		b.x0 -= w
	}
	b.x1, b.y1, b.y0 = b.x0+w, b.y0+0.2*s.size, b.y0-0.75*s.size
	d.texts = append(d.texts, b)
	if !(b.x0 >= -0.5 && b.x1 <= d.width+0.5 && b.y0 >= 0 && b.y1 <= d.height) {
		d.complain("text %q at [%.0f, %.0f] x [%.0f, %.0f] is outside of %g x %g", b.text, b.x0, b.x1, b.y0, b.y1, d.width, d.height)
	}
	if strings.TrimSpace(b.text) == "" {
		d.complain("an empty text at (%.0f, %.0f)", b.x0, b.y0)
	}
}

func (d *drawing) overlaps() {
	for i, a := range d.texts {
		for _, b := range d.texts[:i] {
			if a.x0 < b.x1-0.5 && b.x0 < a.x1-0.5 && a.y0 < b.y1-0.5 && b.y0 < a.y1-0.5 {
				d.complain("%q at (%.0f, %.0f) lies over %q at (%.0f, %.0f)", a.text, a.x0, a.y1, b.text, b.x0, b.y1)
			}
		}
	}
}

// references checks that what the drawing refers to is in it.
func (d *drawing) references() {
	known := map[string]bool{}
	for _, id := range d.ids {
		if known[id] {
			d.complain("id %q twice", id)
		}
		known[id] = true
	}
	for _, id := range d.refs {
		if !known[id] {
			d.complain("no element has the id %q", id)
		}
	}
}

// check complains about what no picture of a run may be, and about ids that two of them share.
func check(t *testing.T, ps []Picture) {
	t.Helper()
	ids := map[string]bool{}
	for _, p := range ps {
		d := read(p.SVG)
		for _, problem := range d.problems {
			t.Errorf("%s: %s", p.ID, problem)
		}
		for _, id := range d.ids {
			if ids[id] {
				t.Errorf("%s: id %s is in another picture too", p.ID, id)
			}
			ids[id] = true
		}
		if p.Title == "" || p.Desc == "" || len(p.Columns) == 0 {
			t.Errorf("%s: no title, description or table", p.ID)
		}
		for _, r := range p.Rows {
			if len(r) != len(p.Columns) {
				t.Errorf("%s: a row of %d cells under %d columns: %q", p.ID, len(r), len(p.Columns), r)
			}
		}
	}
}

func TestReadFindsWhatIsWrong(t *testing.T) {
	const head = `<svg xmlns="http://www.w3.org/2000/svg" id="a" viewBox="0 0 100 50" role="img" aria-labelledby="a">`
	for want, body := range map[string]string{
		"is outside of 100 x 50": `<path d="M1 1L101 2"/>`,
		"outside":                `<path d="M1 1V51"/>`,
		"is outside":             `<text x="90" y="20">wide enough</text>`,
		"lies over":              `<g font-size="11"><text x="1" y="20">one</text><text x="9" y="22">two</text></g>`,
		"attribute style":        `<g style="fill:red"/>`,
		"element script":         `<script/>`,
		"no element has":         `<path fill="url(#b)" d="M1 1"/>`,
		"not well formed":        `<g>`,
		"twice":                  `<g id="a"/>`,
		"[NaN, NaN]":             `<text x="NaN" y="30">x</text>`,
		"(NaN, 2) is outside":    `<path d="MNaN 2"/>`,
		"(2, +Inf) is outside":   `<path d="M2 +Inf"/>`,
	} {
		d := read(head + body + `</svg>`)
		if all := strings.Join(d.problems, "\n"); !strings.Contains(all, want) {
			t.Errorf("%s: want a complaint about %q, got %q", body, want, all)
		}
	}
	if d := read(head + `<text x="1" y="20">fine</text><path d="M1 1H99V49z"/></svg>`); len(d.problems) > 0 {
		t.Errorf("%q", d.problems)
	}
}

// A shot that did not land is on the timeline as one, whether it was fired or found nobody to strike; a hollow mark, with its word.
func TestVoidShotsAreDrawn(t *testing.T) {
	at := Moment{From: 4, To: 4}
	lane := func(f FaultLane) string {
		f.ID, f.Op = "kill", "kill#1"
		p := Overview(&Lanes{Seconds: 10, TimeScale: 1, Faults: []FaultLane{f}})
		return p.SVG + p.Legend
	}
	const legend, hollow = "void shot", `class="ld-hollow"`
	for what, f := range map[string]FaultLane{
		"nobody to strike": {Missed: &at, FaultResult: verdict.FaultResult{Void: true, Why: "no_target: nobody held a key"}},
		"not seen to land": {Applied: &at, Missed: &at, FaultResult: verdict.FaultResult{Void: true, Why: "unconfirmed: it lives"}},
	} {
		word, _, _ := strings.Cut(f.Why, ":")
		if svg := lane(f); strings.Count(svg, hollow) != 2 || !strings.Contains(svg, ">void: "+word+"<") || !strings.Contains(svg, legend) {
			t.Errorf("%s: no hollow mark, no word or no legend:\n%s", what, svg)
		}
	}
	landed := FaultLane{Applied: &at, Over: at, FaultResult: verdict.FaultResult{Confirmed: true, Victim: "r1.1", Effective: &verdict.Window{From: 4}}}
	if svg := lane(landed); strings.Contains(svg, legend) || strings.Contains(svg, hollow) {
		t.Errorf("a shot that landed is drawn as void:\n%s", svg)
	}
}
