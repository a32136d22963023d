package timeline

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Sizes of text in units of the viewBox.
const (
	sizeName  = 13.0 // of lanes
	sizeLabel = 12.0
	sizeSmall = 11.0
)

// advance is the width of a rune at size 1, rather too much than too little: as wide as the widest of the common sans-serif fonts
// draws it, so that what does not overlap here does not overlap in any of them.
func advance(r rune) float64 {
	switch {
	case r >= utf8.RuneSelf:
		if strings.ContainsRune("…·–−×≤≥≈→", r) {
			return 1
		}
		return 1.15
	case strings.ContainsRune("ijl.,:;'|![]() ", r):
		return 0.4
	case strings.ContainsRune("ftr/-I\"", r):
		return 0.46
	case strings.ContainsRune("mwMW%@", r):
		return 1
	case r >= 'A' && r <= 'Z', strings.ContainsRune("+=<>~#&", r):
		return 0.84
	}
	return 0.65
}

// widthOf is how wide s is at most at the given size.
func widthOf(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		w += advance(r)
	}
	return w * size
}

// fit cuts s to width with an ellipsis in its middle: keys differ at their ends.
func fit(s string, size, width float64) string {
	if widthOf(s, size) <= width {
		return s
	}
	rs := []rune(s)
	room := width - widthOf("…", size)
	head, tail := 0, len(rs)
	for used := 0.0; head < tail; { // from both ends in turn
		next := rs[head]
		if head > len(rs)-tail {
			next = rs[tail-1]
		}
		if used += advance(next) * size; used > room {
			break
		}
		if head > len(rs)-tail {
			tail--
		} else {
			head++
		}
	}
	return string(rs[:head]) + "…" + string(rs[tail:])
}

// Anchors of text.
const (
	start  = "start"
	middle = "middle"
	end    = "end"
)

// text writes s with its base line at y, cut to width, above all shapes. What was cut is its tooltip.
func (c *canvas) text(class, anchor string, x, y, size, width float64, s string) {
	shown := fit(printable(s), size, width)
	if strings.TrimSpace(shown) == "" {
		return
	}
	title := ""
	if shown != printable(s) {
		title = "<title>" + clean(s) + "</title>"
	}
	kind := attrs(class)
	if anchor != start {
		kind += ` text-anchor="` + anchor + `"`
	}
	if size != sizeLabel {
		kind += ` font-size="` + num(size) + `"`
	}
	if c.texts[kind] == nil {
		c.texts[kind] = &strings.Builder{}
		c.kinds = append(c.kinds, kind)
	}
	fmt.Fprintf(c.texts[kind], `<text x="%s" y="%s">%s%s</text>`, num(x), num(y), title, clean(shown))
}
