package experiments

import (
	"fmt"
	"regexp"
	"strings"
)

// placeholder is a word in braces: what is known of a replica goes there.
var placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Placeholders are the words in braces of a template, in their order.
func Placeholders(template string) []string {
	var words []string
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		words = append(words, m[1])
	}
	return words
}

// FillIn puts what is known into a template; whole = nothing that it asks for was missing.
func FillIn(template string, known map[string]string) (text string, whole bool) {
	whole = true
	text = placeholder.ReplaceAllStringFunc(template, func(braced string) string {
		value, ok := known[braced[1:len(braced)-1]]
		whole = whole && ok
		return value
	})
	return text, whole
}

// FitsTemplate reports that a text is a template with what is known filled in, where a star is anything.
func FitsTemplate(template string, known map[string]string, text string) bool {
	parts := strings.Split(template, "*")
	for i, part := range parts {
		var whole bool
		if parts[i], whole = FillIn(part, known); !whole {
			return false
		}
	}
	return matches(parts, text)
}

// PatternOf reads a template backwards: what it matches says what each word in braces stands for. A star is anything that a part of a
// path may be.
func PatternOf(template string) *regexp.Regexp {
	var b strings.Builder
	literal := func(text string) { b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, `[^/]*`)) }
	rest := template
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		before, after, _ := strings.Cut(rest, m[0])
		literal(before)
		fmt.Fprintf(&b, `(?P<%s>[^/]+)`, m[1])
		rest = after
	}
	literal(rest)
	return regexp.MustCompile(`^` + b.String() + `$`)
}
