package golden

import (
	"regexp"
	"strings"
)

// Book is one golden file for several documents of one format. A line with a sentence that stands above is written short: its first
// two words, and its figures. So the first document can be read as a whole, and a changed word is one line of the difference.
type Book struct {
	text strings.Builder
	said map[string]bool // shapes of lines
}

// prose is four words or more behind one another: codes, rows and short headings are none.
var prose = regexp.MustCompile(`\p{L}[\p{L}'’-]*(?:[,;:]? \p{L}[\p{L}'’-]*){3,}`)

// Add puts a document below the others.
func (b *Book) Add(title, doc string) {
	if b.said == nil {
		b.said = map[string]bool{}
	}
	b.text.WriteString("=== " + title + "\n")
	for line := range strings.Lines(doc) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.Fields(line)
		switch shape := Shape(strings.Join(words, " ")); {
		case !prose.MatchString(line):
		case b.said[shape]:
			line = strings.TrimSpace("= " + strings.Join(words[:2], " ") + " ... " + Figures(strings.Join(words[2:], " ")))
		default:
			b.said[shape] = true
		}
		b.text.WriteString(line + "\n")
	}
}

func (b *Book) String() string { return b.text.String() }
