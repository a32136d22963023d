package doc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

//go:embed html
var files embed.FS

// Characters of names and of texts that a page has; the middle of what is longer is left out.
const (
	LongName = 100
	LongText = 1500
)

var page = template.Must(template.New("").Funcs(template.FuncMap{
	"name":  func(s string) string { return Shorten(s, LongName) },
	"text":  func(s string) string { return Shorten(s, LongText) },
	"short": func(s string) bool { return utf8.RuneCountInString(s) <= 30 }, // a table has room for it on one line
	"items": func(all []Item) []Item { return items(all, Page) },
	"table": func(t *Table) tableView { return viewOf(t) },
	"bar":   barOf,
	"parts": func(s string) (parts []string) { // of a figure, none of which is broken
		for _, t := range tokens(s) {
			parts = append(parts, t.text)
		}
		return parts
	},
}).ParseFS(files, "html/*.tmpl"))

// HTML is d as one file that needs no network and no script: the same document gives the same bytes.
func HTML(d *Document) (string, error) {
	shown := *d
	shown.Sections = slices.DeleteFunc(slices.Clone(d.Sections), silent)
	rules := styles + d.Styles
	carried := template.HTML("")
	if d.Data != nil {
		carried = template.HTML(`<script type="application/json" id="verdict">` + inert(d.Data) + `</script>`)
	}
	var b strings.Builder
	err := page.ExecuteTemplate(&b, "page", struct {
		*Document
		Style, JSON template.HTML
		StyleSum    string
	}{&shown, template.HTML("<style>" + rules + "</style>"), carried, digest(rules)})
	if err != nil {
		return "", fmt.Errorf("write the page: %w", err)
	}
	return presentable(b.String()), nil
}

var styles = func() string {
	rules, err := files.ReadFile("html/style.css")
	if err != nil {
		panic(err) // it is part of the binary
	}
	return string(rules)
}()

// digest is of the only style that a page's own policy lets a browser apply.
func digest(rules string) string {
	sum := sha256.Sum256([]byte(rules))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Policy is the policy for browsers of the pages that a server gives. pictures are the rules of their pictures.
func Policy(pictures string) string {
	return fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", digest(styles+pictures))
}

// Name is the section's in the list of sections.
func (s Section) Name() string { return cmp.Or(s.Short, s.Title) }

// tableView is a table as the page has it.
type tableView struct {
	*Table
	Names []string
	Lines []lineView
	Cited bool
	More  string
}

type lineView struct {
	Row
	Refs []int64
	More int
}

func viewOf(t *Table) tableView {
	v := tableView{Table: t}
	for _, c := range t.Columns {
		v.Names = append(v.Names, c.Name)
	}
	rows, more := t.rows(Page)
	for _, r := range rows {
		kept, left := cited(r.Refs, t.mostRefs())
		v.Lines = append(v.Lines, lineView{r, kept, left})
		v.Cited = v.Cited || len(kept) > 0 && !t.Cards
	}
	if v.Cited {
		v.Names = append(v.Names, "events")
	}
	if more > 0 {
		v.More = strings.TrimSuffix(fmt.Sprintf("and %d more: %s", more, t.Where), ": ")
	}
	return v
}

// Head reports the column whose cells name their rows.
func (v tableView) Head(i int) bool { return v.Columns[i].Head }

// barView is a meter in units of its width.
type barView struct{ Lo, Range, Limit string }

const meterWidth = 96.0

func barOf(m *Meter) barView {
	x := func(v float64) float64 { return math.Round(10*meterWidth*v/m.Most) / 10 }
	text := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	return barView{text(x(m.Lo)), text(math.Max(x(m.Hi)-x(m.Lo), 1.5)), text(x(m.Limit))}
}

// Shorten cuts the middle out of a name that is too long to be read.
func Shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return string(r[:most*2/3]) + " … " + string(r[len(r)-most/3:])
}

// inert is JSON in which no text can end the element that it stands in, turn round what is read, or give a CI a command: its writer has
// escaped <, > and &.
func inert(data []byte) string {
	var b bytes.Buffer
	for _, r := range string(data) {
		switch {
		case r == '<' || r == '>' || r == '&', deceives(r) && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return string(HarmlessJSON(b.Bytes()))
}
