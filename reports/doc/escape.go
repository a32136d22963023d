package doc

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Keys, notes and error messages come from the system under test, so nothing of them may act: not as HTML or a link in Markdown, not
// as a control character in XML, not as a formula in a spreadsheet. Secrets are taken out by the rule that files are written by.

// Clean is text on one line without secrets and without characters that XML forbids or a terminal obeys; those become U+FFFD. It is no
// command to the log of a CI step, where a report ends up that is written to standard output.
func Clean(s string) string {
	s = strings.Join(strings.Fields(OneLine(vocab.Redact(strings.ToValidUTF8(s, "\uFFFD")))), " ")
	s = unparted.Replace(s)
	return unobeyed(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s))
}

// OneLine is text of several lines as one: errors that are joined, one a line.
func OneLine(s string) string {
	if !strings.Contains(s, "\n") {
		return s
	}
	var b strings.Builder
	indent := s[:len(s)-len(strings.TrimLeft(s, " "))]
	for line := range strings.Lines(s) {
		switch line = strings.TrimSpace(line); {
		case line == "":
			continue
		case strings.HasSuffix(b.String(), ":"):
			b.WriteByte(' ')
		case b.Len() > 0:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return indent + b.String()
}

// logCommand is what GitHub, Azure and TeamCity obey wherever it stands in a line: ##[error], ##vso[task.complete], ##teamcity[...].
var logCommand = regexp.MustCompile(`##(\w*\[)`)

// unparted takes back what unobeyed does: a text may pass here more than once, and its zero-width spaces must not become U+FFFD.
var unparted = strings.NewReplacer("#\u200b#", "##", "\u200b::", "::")

// unobeyed is a line that is no command to a CI's log; GitHub also obeys ::error:: at the beginning of one.
func unobeyed(line string) string {
	line = logCommand.ReplaceAllString(line, "#\u200b#$1")
	if rest := strings.TrimLeft(line, " "); strings.HasPrefix(rest, "::") {
		line = line[:len(line)-len(rest)] + "\u200b" + rest
	}
	return line
}

// HarmlessJSON is a JSON document that the log of a CI step only prints. It says the same.
func HarmlessJSON(doc []byte) []byte { return logCommand.ReplaceAll(doc, []byte(`#\u0023$1`)) }

// Harmless is text for a terminal or the log of a CI step, line by line: nothing in it moves the cursor, sets a title, hides a word, or
// is a command to the CI.
func Harmless(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, Painted(line, false))
	}
	return strings.Join(lines, "\n")
}

// HarmlessLine is Harmless of text that is to stand on one line; what comes in several, as joined errors do, is a list.
func HarmlessLine(text string) string { return Painted(text, false) }

// Painted is one line of Harmless. Where it is painted, the inks of a page stay, and nothing else that a terminal obeys: a key that
// forges one gets a colour, which never says more than the words.
func Painted(line string, painted bool) string {
	line = unparted.Replace(OneLine(vocab.Redact(strings.ToValidUTF8(line, "\uFFFD"))))
	var b strings.Builder
	for at := 0; at < len(line); {
		if n := inkAt(line[at:]); painted && n > 0 {
			b.WriteString(line[at : at+n])
			at += n
			continue
		}
		r, size := utf8.DecodeRuneInString(line[at:])
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
		at += size
	}
	return unobeyed(b.String())
}

// inkAt is the length of the escape sequence with which paint begins or ends, if s begins with one.
func inkAt(s string) int {
	for _, i := range []string{bold, red, green, yellow, "0"} {
		if code := "\x1b[" + i + "m"; strings.HasPrefix(s, code) {
			return len(code)
		}
	}
	return 0
}

// Escape is text that reads as itself in GitHub's Markdown, also inside a table. It stays readable where nobody renders it: "<= 5s",
// "[1.2, 1.3]s" and "kill_leader" need no escape, "<b>", "[a](b)" and "_a_" do.
func Escape(s string) string {
	var b strings.Builder
	rs := []rune(Clean(s))
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

// Code is text as a code span, whatever backticks it has.
func Code(s string) string {
	s = Clean(s)
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
