package timeline

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// canvas collects one drawing. Its height is known when all is drawn.
type canvas struct {
	id         string
	back, body strings.Builder
	defs       map[string]bool             // patterns that are used
	texts      map[string]*strings.Builder // by what they have in common, so that it is written once
	kinds      []string                    // of texts, in the order of their first
	marks      []mark                      // that the legend explains, in the order of their first
}

func newCanvas(id string) *canvas {
	return &canvas{id: id, defs: map[string]bool{}, texts: map[string]*strings.Builder{}}
}

// num rounds a coordinate to a tenth of a unit.
func num(v float64) string {
	r := math.Round(v*10) / 10
	if r == 0 { // no -0
		r = 0
	}
	return strconv.FormatFloat(r, 'f', -1, 64)
}

// printable shows what cannot be printed (control and direction characters among them) as such.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// clean escapes s for XML.
func clean(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(printable(s))); err != nil {
		panic(fmt.Sprintf("timeline: escape: %v", err)) // a strings.Builder takes everything
	}
	return b.String()
}

// path is the outline of many shapes that are drawn alike.
type path struct{ b strings.Builder }

func (p *path) empty() bool { return p.b.Len() == 0 }

func (p *path) box(x0, y0, x1, y1 float64) {
	fmt.Fprintf(&p.b, "M%s %sH%sV%sH%sz", num(x0), num(y0), num(x1), num(y1), num(x0))
}

func (p *path) line(points ...float64) {
	for i := 0; i+1 < len(points); i += 2 {
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		fmt.Fprintf(&p.b, "%s%s %s", verb, num(points[i]), num(points[i+1]))
	}
}

// stairs is line for points of which each shares a coordinate with the one before. What goes on in the same direction is one stroke.
func (p *path) stairs(points ...float64) {
	for i := 0; i+1 < len(points); i += 2 {
		level := i > 0 && num(points[i]) != num(points[i-2])
		further := i+3 < len(points) && num(points[i+2]) != num(points[i])
		switch {
		case i == 0:
			fmt.Fprintf(&p.b, "M%s %s", num(points[0]), num(points[1]))
		case level && further && num(points[i+3]) == num(points[i+1]) && (points[i+2] > points[i]) == (points[i] > points[i-2]):
		case level:
			fmt.Fprintf(&p.b, "H%s", num(points[i]))
		case num(points[i+1]) != num(points[i-1]):
			fmt.Fprintf(&p.b, "V%s", num(points[i+1]))
		}
	}
}

func (p *path) poly(points ...float64) {
	p.line(points...)
	p.b.WriteByte('z')
}

// tick is a vertical line.
func (p *path) tick(x, y0, y1 float64) {
	fmt.Fprintf(&p.b, "M%s %sV%s", num(x), num(y0), num(y1))
}

// dot is a disc.
func (p *path) dot(x, y, r float64) {
	fmt.Fprintf(&p.b, "M%s %sa%s %s 0 1 0 %s 0a%s %s 0 1 0 %s 0", num(x-r), num(y), num(r), num(r), num(2*r), num(r), num(r), num(-2*r))
}

// between is a bracket over a stretch.
func (p *path) between(x0, x1, y float64) {
	p.tick(x0, y-2, y+2)
	p.tick(x1, y-2, y+2)
	p.line(x0, y, x1, y)
}

// cross is an x of that half width.
func (p *path) cross(x, y, r float64) {
	p.line(x-r, y-r, x+r, y+r)
	p.line(x-r, y+r, x+r, y-r)
}

// diamond of that half width.
func (p *path) diamond(x, y, r float64) { p.poly(x-r, y, x, y-r, x+r, y, x, y+r) }

// down is a triangle whose point is at (x, y).
func (p *path) down(x, y, r float64) { p.poly(x-r, y-1.6*r, x+r, y-1.6*r, x, y) }

// show draws p as shapes of the kind m, which the legend then explains.
func (c *canvas) show(m mark, p *path) { c.showOn(&c.body, m, p) }

// showUnder is show behind everything else.
func (c *canvas) showUnder(m mark, p *path) { c.showOn(&c.back, m, p) }

func (c *canvas) showOn(layer *strings.Builder, m mark, p *path) {
	if !p.empty() {
		c.lay(layer, m.styles, p)
		c.explain(m)
	}
}

// put draws p in a style that needs no explanation, or in the pattern "#name".
func (c *canvas) put(style string, p *path) { c.lay(&c.body, []string{style}, p) }

// under is put behind everything else.
func (c *canvas) under(style string, p *path) { c.lay(&c.back, []string{style}, p) }

func (c *canvas) lay(layer *strings.Builder, styles []string, p *path) {
	if p.empty() {
		return
	}
	for _, style := range styles {
		if pattern, is := strings.CutPrefix(style, "#"); is {
			c.defs[pattern] = true
			fmt.Fprintf(layer, `<path fill="url(#%s-%s)" d="%s"/>`, c.id, pattern, p.b.String())
			continue
		}
		fmt.Fprintf(layer, `<path %s d="%s"/>`, attrs(style), p.b.String())
	}
}

// patterns are tiles of 6 by 6 units: hatch and shade are diagonal lines (faults), weave diagonal the other way, rows level.
var patterns = []struct{ name, class, d string }{
	{"hatch", "hatch", "M-1 7L7 -1M-4 4L4 -4M2 10L10 2"},
	{"shade", "shade", "M-1 7L7 -1M-4 4L4 -4M2 10L10 2"},
	{"weave", "weave", "M-1 -1L7 7M-4 2L4 10M2 -4L10 4"},
	{"comb", "weave", "M1.5 0V6M4.5 0V6"},
	{"bandhatch", "bandhatch", "M-1 -1L7 7M-4 2L4 10M2 -4L10 4"},
	{"ghost", "thin", "M1 1h1M4 4h1"},
	{"rows", "rows", "M0 1.5H6M0 4.5H6"},
}

// finish puts what was drawn into its picture, with its legend, and from y on what was folded for want of room.
func (c *canvas) finish(p Picture, y float64, folded ...string) Picture {
	p.Legend = c.legend()
	for _, f := range folded {
		y += 16
		c.text("dim", start, 14, y, sizeSmall, right-14, f)
	}
	p.ID, p.SVG = c.id, c.svg(p.Title, p.Desc, y+8)
	return p
}

// svg is the drawing as an element of the given height, named by title and described by desc.
func (c *canvas) svg(title, desc string, height float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" id="%s" class="ld-picture" viewBox="0 0 %d %s" role="img" aria-labelledby="%s-title %s-desc" font-family="system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif" font-size="12">`,
		c.id, Width, num(height), c.id, c.id)
	fmt.Fprintf(&b, `<title id="%s-title">%s</title><desc id="%s-desc">%s</desc>`, c.id, clean(title), c.id, clean(desc))
	if len(c.defs) > 0 {
		b.WriteString("<defs>")
		for _, p := range patterns {
			if c.defs[p.name] {
				fmt.Fprintf(&b, `<pattern id="%s-%s" width="6" height="6" patternUnits="userSpaceOnUse"><path %s d="%s"/></pattern>`, c.id, p.name, attrs(p.class), p.d)
			}
		}
		b.WriteString("</defs>")
	}
	b.WriteString(c.back.String())
	b.WriteString(c.body.String())
	for _, kind := range c.kinds {
		fmt.Fprintf(&b, "<g %s>%s</g>", kind, c.texts[kind].String())
	}
	b.WriteString("</svg>\n")
	return b.String()
}
