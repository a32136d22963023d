package golden

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sentences collects what many documents say, so that each sentence is written once, with where it stands.
type Sentences map[string]map[string]int // by shape: how often at which place

// Say counts a sentence at a place, "FIELD DOCUMENT".
func (s Sentences) Say(place, sentence string) {
	shape := Shape(sentence)
	if s[shape] == nil {
		s[shape] = map[string]int{}
	}
	s[shape][place]++
}

// String is a line for each sentence, with # for its figures, and below it the places, those of one field in one line.
func (s Sentences) String() string {
	var b strings.Builder
	for _, shape := range slices.Sorted(maps.Keys(s)) {
		b.WriteString(shape + "\n")
		var last string
		for _, place := range slices.Sorted(maps.Keys(s[shape])) {
			field, doc, _ := strings.Cut(place, " ")
			if field != last {
				if last != "" {
					b.WriteString("\n")
				}
				fmt.Fprintf(&b, "    %s:", field)
			}
			last = field
			b.WriteString(" " + doc)
			if n := s[shape][place]; n > 1 {
				fmt.Fprintf(&b, "*%d", n)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
