package timeline

import "slices"

// legend explains the shapes of a picture that is drawn on c.
type legend struct {
	c     *canvas
	items []item
}

type item struct {
	width float64 // of the sample
	draw  func(x, y float64)
	text  string
}

// add explains a sample of that width, drawn around the middle line y from x on.
func (l *legend) add(width float64, text string, draw func(x, y float64)) {
	if slices.ContainsFunc(l.items, func(it item) bool { return it.text == text }) {
		return
	}
	l.items = append(l.items, item{width, draw, text})
}

// swatch explains a filled box, with a pattern on it or without ("").
func (l *legend) swatch(class, pattern, text string) {
	l.add(22, text, func(x, y float64) {
		var p path
		p.box(x, y-6, x+22, y+6)
		l.c.put(class, &p)
		if pattern != "" {
			l.c.weave(pattern, &p)
		}
	})
}

// shape explains a small shape.
func (l *legend) shape(class, text string, draw func(p *path, x, y float64)) {
	l.add(12, text, func(x, y float64) {
		var p path
		draw(&p, x+6, y)
		l.c.put(class, &p)
	})
}

// draw sets the items in lines from y on and returns where they end.
func (l *legend) draw(y float64) float64 {
	x := 14.0
	y += 10
	for _, it := range l.items {
		w := it.width + 6 + widthOf(it.text, sizeSmall)
		if x > 14 && x+w > right {
			x, y = 14, y+20
		}
		it.draw(x, y)
		l.c.text("ink", start, x+it.width+6, y+4, sizeSmall, right-x-it.width-6, it.text)
		x += w + 18
	}
	return y + 10
}
