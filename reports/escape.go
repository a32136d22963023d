package reports

import (
	"strings"

	"github.com/lockdrill/lockdrill/reports/doc"
)

// Harmless is text for a terminal or the log of a CI step, line by line.
func Harmless(text string) string { return doc.Harmless(text) }

// HarmlessLine is Harmless of text that is to stand on one line; what comes in several, as joined errors do, is a list.
func HarmlessLine(text string) string { return doc.HarmlessLine(text) }

// HarmlessJSON is a JSON document that the log of a CI step only prints. It says the same.
func HarmlessJSON(text []byte) []byte { return doc.HarmlessJSON(text) }

// spreadsheet is text that no spreadsheet takes for a formula.
func spreadsheet(s string) string {
	s = doc.Clean(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}
