package reports

import (
	"strings"
	"unicode"

	"github.com/lockdrill/lockdrill/experiments"
)

// Keys, notes and error messages come from the system under test, so nothing of them may act: not as HTML or a link in Markdown, not
// as a control character in XML, not as a formula in a spreadsheet. Secrets are taken out by the rule that files are written by.

// clean is text on one line without secrets and without characters that XML forbids or a terminal obeys; those become U+FFFD.
func clean(s string) string {
	s = strings.Join(strings.Fields(experiments.Redact(strings.ToValidUTF8(s, "\uFFFD"))), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// markdown is text that reads as itself in GitHub's Markdown, also inside a table. It stays readable where nobody renders it: "<= 5s",
// "[1.2, 1.3]s" and "kill_leader" need no escape, "<b>", "[a](b)" and "_a_" do.
func markdown(s string) string {
	var b strings.Builder
	rs := []rune(clean(s))
	at := func(i int) rune {
		if i < 0 || i >= len(rs) {
			return ' '
		}
		return rs[i]
	}
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for i, r := range rs {
		prev, next := at(i-1), at(i+1)
		switch {
		case strings.ContainsRune("\\`*|~$", r),
			r == '_' && !(word(prev) && word(next)), // inside a word it emphasizes nothing
			r == '!' && next == '[',
			r == '[' && next == '^',                                         // a footnote
			(r == '(' || r == '[' || r == ':') && prev == ']',               // a link, a reference, its definition
			r == '/' && prev == ':', r == '.' && i >= 3 && isWWW(rs[i-3:i]): // an address that is made a link by itself
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '<' && (word(next) || strings.ContainsRune("/!?", next)):
			b.WriteString("&lt;")
		case r == '&' && (word(next) || next == '#'):
			b.WriteString("&amp;")
		case r == '@' && word(next): // nobody is to be called by a key
			b.WriteString("@\u200b")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isWWW(rs []rune) bool { return strings.EqualFold(string(rs), "www") }

// code is text as a code span, whatever backticks it has.
func code(s string) string {
	s = clean(s)
	if s == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// spreadsheet is text that no spreadsheet takes for a formula.
func spreadsheet(s string) string {
	s = clean(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}
