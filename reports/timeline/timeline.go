// Package timeline draws a run: SVG of lanes, takeovers and signals, each with a table that says the same in text.
//
// It measures and judges nothing: what it draws stands in Lanes and verdict.Judgement. A picture is readable without any
// style sheet, black on white, and in one that has Styles also in the dark; colour never carries a meaning alone.
// Its one invariant: the same input gives the same bytes, every coordinate lies within the viewBox, and what was folded for want of room
// is counted in the picture.
package timeline

// Picture is one drawing with its twin in text.
type Picture struct {
	ID    string // unique on a page that holds each picture of a run once
	Title string
	Desc  string // one or two sentences: what there is to see
	// SVG is a complete <svg> element, 960 units wide, whose text is 11 to 13 units high. It scales to the width of its box; Styles
	// keeps it from shrinking below 860 px, so a page puts it into a box that scrolls sideways (overflow-x: auto).
	SVG     string
	Legend  string   // a list in HTML of the marks in it, whose patterns are those of the SVG
	Columns []string // of the table that states the same facts
	Rows    [][]string
}

// Width of every picture in units of its viewBox.
const Width = 960

const (
	gutter = 150.0 // room for the names of the lanes
	margin = 14.0  // on the right
	left   = gutter
	right  = Width - margin
)
