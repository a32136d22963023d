package timeline

import (
	"fmt"
	"strings"
)

// style is how a class of shapes is drawn: presentation attributes that are right on white, and what a dark page changes. Attributes
// lose against any rule of a style sheet, so a page without styles shows the first and a dark one the second.
type style struct{ class, attrs, dark string }

// styles of all classes. Hues are from the palette of Okabe and Ito, which the colour-blind can tell apart; vermilion is kept for "nobody
// works" and purple for faults.
var styles = []style{
	{"ink", `fill="#1b1b1b"`, "fill:#ececec"},
	{"dim", `fill="#555"`, "fill:#b8b8b8"},
	{"onfill", `fill="#000"`, "fill:#000"},
	{"grid", `fill="none" stroke="#ddd" stroke-width="1"`, "stroke:#3c3c3c"},
	{"rule", `fill="none" stroke="#777" stroke-width="1"`, "stroke:#8f8f8f"},
	{"phase", `fill="none" stroke="#777" stroke-width="1" stroke-dasharray="2 3"`, "stroke:#8f8f8f"},
	{"lead", `fill="none" stroke="#999" stroke-width="0.8"`, "stroke:#777"},
	{"mark", `fill="#1b1b1b" stroke="none"`, "fill:#ececec"},
	{"stroke", `fill="none" stroke="#1b1b1b" stroke-width="1.6"`, "stroke:#ececec"},
	{"thin", `fill="none" stroke="#1b1b1b" stroke-width="1"`, "stroke:#ececec"},
	{"hollow", `fill="#fff" stroke="#1b1b1b" stroke-width="1.4"`, "fill:#1b1b1b;stroke:#ececec"},

	{"ground", `fill="#fff"`, "fill:#141414"},
	{"alive", `fill="#f1f1f1" stroke="#999" stroke-width="0.8"`, "fill:#262626;stroke:#777"},
	{"struck", `fill="#7a5aa6" fill-opacity="0.13"`, "fill:#b79be6;fill-opacity:.18"},
	{"declared", `fill="none" stroke="#5b3f8a" stroke-width="1" stroke-dasharray="4 3"`, "stroke:#c3abf0"},
	{"meant", `fill="none" stroke="#5b3f8a" stroke-width="1"`, "stroke:#c3abf0"},
	{"effective", `fill="none" stroke="#5b3f8a" stroke-width="1.2"`, "stroke:#c3abf0"},
	{"hatch", `fill="none" stroke="#5b3f8a" stroke-width="1.3"`, "stroke:#c3abf0"},
	{"shade", `fill="none" stroke="#5b3f8a" stroke-width="0.9" stroke-opacity="0.28"`, "stroke:#c3abf0;stroke-opacity:.3"},
	{"kill", `fill="none" stroke="#5b3f8a" stroke-width="1" stroke-opacity="0.5"`, "stroke:#c3abf0"},
	{"bolt", `fill="#5b3f8a" stroke="none"`, "fill:#c3abf0"},

	{"residual", `fill="#b54708" stroke="#b54708" stroke-width="0.6"`, "fill:#ff8f4a;stroke:#ff8f4a"},
	{"pickup", `fill="#ffd9bd" stroke="#b54708" stroke-width="0.8"`, "fill:#5a3115;stroke:#ff8f4a"},
	{"warmup", `fill="#fff" stroke="#b54708" stroke-width="1"`, "fill:#1b1b1b;stroke:#ff8f4a"},
	{"weave", `fill="none" stroke="#b54708" stroke-width="1"`, "stroke:#ff8f4a"},
	{"whole", `fill="none" stroke="#b54708" stroke-width="1.4"`, "stroke:#ff8f4a"},
	{"away", `fill="#b54708"`, "fill:#ffa366"},
	{"slo", `fill="none" stroke="#a30000" stroke-width="1.6" stroke-dasharray="7 3"`, "stroke:#ff8a80"},
	{"slotext", `fill="#a30000"`, "fill:#ff9d94"},
	{"band", `fill="#0072b2" fill-opacity="0.1"`, "fill:#6cb8e6;fill-opacity:.16"},
	{"bandhatch", `fill="none" stroke="#0072b2" stroke-width="0.8" stroke-opacity="0.28"`, "stroke:#6cb8e6"},
	{"bandtext", `fill="#005a8e"`, "fill:#8ecbf0"},
	{"rehearsed", `fill="none" stroke="#00694c" stroke-width="1.2" stroke-dasharray="2 2"`, "stroke:#4fd3a6"},

	{"ghost", `fill="#f4f4f4" stroke="#1b1b1b" stroke-width="0.8"`, "fill:#242424;stroke:#ececec"},
	{"nobody", `fill="#d4d4d4" stroke="#555" stroke-width="0.8"`, "fill:#9a9a9a;stroke:#ececec"},
	{"rows", `fill="none" stroke="#1b1b1b" stroke-width="0.8" stroke-opacity="0.4"`, "stroke:#1b1b1b"},
	{"slim", `fill="#8a8a8a"`, "fill:#8a8a8a"},
	{"overrun", `fill="#fff" stroke="#a30000" stroke-width="1.2"`, "fill:#1b1b1b;stroke:#ff8a80"},
	{"r0", `fill="#56b4e9"`, "fill:#56b4e9"},
	{"r1", `fill="#e69f00"`, "fill:#e69f00"},
	{"r2", `fill="#35b890"`, "fill:#35b890"},
	{"r3", `fill="#d98cb8"`, "fill:#d98cb8"},
	{"r4", `fill="#f0e442"`, "fill:#f0e442"},
	{"r5", `fill="#b0b0b0"`, "fill:#b0b0b0"},
	{"l0", `fill="none" stroke="#1f7fb5" stroke-width="1.6"`, "stroke:#56b4e9"},
	{"l1", `fill="none" stroke="#a87400" stroke-width="1.6" stroke-dasharray="6 2"`, "stroke:#e69f00"},
	{"l2", `fill="none" stroke="#00805c" stroke-width="1.6" stroke-dasharray="2 2"`, "stroke:#35b890"},
	{"l3", `fill="none" stroke="#a84f80" stroke-width="1.6" stroke-dasharray="8 2 2 2"`, "stroke:#d98cb8"},
	{"l4", `fill="none" stroke="#7d7400" stroke-width="1.6" stroke-dasharray="4 4"`, "stroke:#f0e442"},
	{"l5", `fill="none" stroke="#666" stroke-width="1.6" stroke-dasharray="1 3"`, "stroke:#b0b0b0"},
}

// hues is how many owners are told apart by colour; their names stand beside it.
const hues = 6

// attrs of a class, its name included.
func attrs(class string) string {
	for _, l := range styles {
		if l.class == class {
			return `class="ld-` + class + `" ` + l.attrs
		}
	}
	panic("timeline: no style is called " + class) // our own table
}

// Styles are the rules of a style sheet for the classes of the pictures. A page needs none of them.
func Styles() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".ld-picture{display:block;width:100%%;min-width:860px;max-width:1280px;height:auto}\n")
	b.WriteString(".ld-legend{display:flex;flex-wrap:wrap;gap:0 1.1rem;list-style:none;padding:0;margin:.3rem 0 0;font-size:.75rem}.ld-legend svg{vertical-align:middle}\n")
	b.WriteString("@media screen and (prefers-color-scheme:dark){\n")
	for _, l := range styles {
		fmt.Fprintf(&b, ".ld-%s{%s}\n", l.class, l.dark)
	}
	b.WriteString("}\n@media screen and (max-width:44rem){.ld-picture{min-width:1050px}}\n@media print{.ld-picture{min-width:0}}\n")
	return b.String()
}
