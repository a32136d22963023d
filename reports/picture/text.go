package picture

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
	if len(rs) > 400 { // nobody's name; cutting it rune by rune would take for ever
		rs = append(rs[:200:200], rs[len(rs)-200:]...)
	}
	for keep := len(rs) - 1; keep > 0; keep-- {
		head := (keep + 1) / 2
		cut := string(rs[:head]) + "…" + string(rs[len(rs)-(keep-head):])
		if widthOf(cut, size) <= width {
			return cut
		}
	}
	return "…"
}

// Anchors of text.
const (
	start  = "start"
	middle = "middle"
	end    = "end"
)

// text writes s with its base line at y, cut to width. What was cut is its tooltip.
func (c *canvas) text(class, anchor string, x, y, size, width float64, s string) {
	shown := fit(s, size, width)
	at := ""
	if anchor != start {
		at += ` text-anchor="` + anchor + `"`
	}
	if size != sizeLabel {
		at += ` font-size="` + num(size) + `"`
	}
	title := ""
	if shown != s {
		title = "<title>" + clean(s) + "</title>"
	}
	fmt.Fprintf(&c.body, `<text %s x="%s" y="%s"%s>%s%s</text>`, attrs(class), num(x), num(y), at, title, clean(shown))
}
