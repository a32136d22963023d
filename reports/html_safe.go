package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lockdrill/lockdrill/analysis/verdict"
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

// As experiments.Redact, but they end where markup or a text of JSON ends: what they are given is a page.
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

// clipped cuts the middle out of a name that is too long to be read.
func clipped(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return string(r[:most*2/3]) + " … " + string(r[len(r)-most/3:])
}

const (
	longName = 100 // characters of a key or a name
	longText = 1500
)

// mostEmbedded bounds the verdict inside the page, in bytes.
const mostEmbedded = 400_000

// embedded is the verdict as a script element of a type that no browser runs. Above the bound its long lists are cut, and the note
// says so.
func embedded(j *verdict.Judgement) (element template.HTML, note string, err error) {
	doc, err := inert(j)
	note = "The verdict as JSON is part of this page, in the element with the id verdict."
	for most := 200; err == nil && len(doc) > mostEmbedded && most > 0; most /= 4 {
		cut := *j
		cut.Takeovers, cut.Abandonments, cut.Duplicates = first(j.Takeovers, most), first(j.Abandonments, most), first(j.Duplicates, most)
		cut.Debts, cut.Faults, cut.Overlap = first(j.Debts, most), first(j.Faults, most), first(j.Overlap, most)
		cut.Distributions, cut.Findings, cut.Warnings = first(j.Distributions, most), first(j.Findings, most), first(j.Warnings, most)
		cut.Lints = first(j.Lints, most)
		doc, err = inert(&cut)
		note = fmt.Sprintf("The verdict as JSON is part of this page, in the element with the id verdict; its lists are cut after %d entries, verdict.json has all.", most)
	}
	if err != nil {
		return "", "", fmt.Errorf("embed the verdict: %w", err)
	}
	return template.HTML(`<script type="application/json" id="verdict">` + string(doc) + `</script>`), note, nil
}

func first[T any](list []T, most int) []T { return list[:min(len(list), most)] }

// inert is j as JSON in which no text can end the element that it stands in, turn round what is read, or give a CI a command.
func inert(j *verdict.Judgement) ([]byte, error) {
	doc, err := json.Marshal(j) // escapes <, > and &
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, r := range string(doc) {
		if deceives(r) && r <= 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return HarmlessJSON(b.Bytes()), nil
}
