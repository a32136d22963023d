package doc

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// What others wrote (keys, names, lines of a worker, errors) may hold anything. html/template escapes markup; what follows keeps the
// rest of it from deceiving a reader, whatever part of the page it came through.

// presentable is the last thing that happens to a page: it takes out secrets, shows by its number every character that has no picture of
// its own or turns the order of others round, and leaves nothing that the log of a CI step obeys.
func presentable(page string) string {
	page = strings.ToValidUTF8(page, "�")
	page = secretInURL.ReplaceAllString(page, "://***@")
	page = secretInArg.ReplaceAllString(page, "${1}***")
	page = logCommand.ReplaceAllString(byNumber(page), "&#35;#$1")
	return lineCommand.ReplaceAllString(page, "${1}&#58;:")
}

// lineCommand is what GitHub obeys at the beginning of a line.
var lineCommand = regexp.MustCompile(`(?m)^(\s*)::`)

// byNumber shows by its number what deceives.
func byNumber(page string) string {
	if strings.IndexFunc(page, deceives) < 0 {
		return page
	}
	var b strings.Builder
	for _, r := range page {
		if deceives(r) {
			fmt.Fprintf(&b, "[U+%04X]", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// As vocab.Redact, but they end where markup or a text of JSON ends: what they are given is a page.
var (
	secretInURL = regexp.MustCompile(`://(?:[^\s"'<>\\]|\\u00..)*@`)
	secretInArg = regexp.MustCompile(`(?i)((?:password|passwd|secret|token|credential)[a-z_-]*=)(?:[^\s"'<>,}\]\\]|\\u00..)+`)
)

// deceives reports control and format characters: marks and overrides of direction, joiners, a byte order mark. A right-to-left word
// is none of them.
func deceives(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}
