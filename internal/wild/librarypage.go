package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// pages is docs/wild.md, and a page for each library that is somebody's.
func (t table) pages() map[string]string {
	all := map[string]string{docs + "/wild.md": t.page()}
	for _, l := range slices.Concat(libraries, queues) {
		if file := l.page(); file != "" {
			all[docs+"/"+file] = t.libraryPage(l)
		}
	}
	return all
}

// page is the library's page, below docs; a control has none.
func (l library) page() string {
	if l.control {
		return ""
	}
	return "wild/" + l.name + ".md"
}

// libraryPage says what the library promises, how it was adapted, and what every drill of it gave.
func (t table) libraryPage(l library) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s under faults\n\n", l.title)
	fmt.Fprintf(&b, "After this page you know what %s %s does in each drill. [Locks in the wild](../wild.md) has other libraries beside it, and says how [the columns](../wild.md#%s) are read.\n\n", l.title, t.Versions[l.name], map[bool]string{false: "read-a-librarys-page", true: "queues"}[l.queue != nil])
	fmt.Fprintf(&b, "```\nmake build\nmake wild ONLY=%s           # this page again\nmake wild ONLY=%s/NAME      # a drill, by the NAME that Locks in the wild has for it\n```\n\n", l.name, l.name)
	fmt.Fprintf(&b, "| | |\n|---|---|\n| library | [%s](%s) |\n| store | %s |\n| what it says of itself | %s |\n| how it was adapted | %s |\n\n", l.title, l.link, storeNames[l.kind()], upOne(l.promise), upOne(l.adapted))
	these, first, row := drills, "| [drill](../wild.md#the-drills)"+columns, t.row
	if l.queue != nil {
		these, first, row = ofQueues, "| drill"+columnsOfQueues+ruleOfQueues, t.rowOfQueue
	}
	b.WriteString(first)
	var left []string
	for _, d := range these {
		line := row(d.title, l, d)
		b.WriteString(line)
		if line == "" {
			left = append(left, d.title)
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(&b, "\nNot drilled ([why](../wild.md#the-drills)): %s.\n", strings.Join(left, "; "))
	}
	if behind := behind(l); behind != "" {
		b.WriteString("\n## What stands behind the figures\n\n" + upOne(behind))
	}
	if threads := t.threads(func(x thread) bool { return x.of(l) }); threads != "" {
		b.WriteString("\n## Threads\n\nProblems that others have reported, [reproduced](../wild.md#threads) by `make wild ONLY=wild/THREAD`:\n\n" + threads)
	}
	return b.String()
}

var number = regexp.MustCompile(`-\d.*`)

// of says whether the thread is of the project that the library is from.
func (t thread) of(l library) bool {
	return strings.HasPrefix(l.name, number.ReplaceAllString(t.name, ""))
}

var relative = regexp.MustCompile(`\]\(([^h#][^)]*)\)`)

// upOne lets the links of a text in docs lead to the same places from a folder in it.
func upOne(text string) string { return relative.ReplaceAllString(text, "](../$1)") }

var subject = regexp.MustCompile(`^\*\*[^*]+\*\*`)

// behind are the paragraphs of notes.md that are about the library. One that is about several stands on the page of the first, and the
// others lead there.
func behind(l library) string {
	var b strings.Builder
	for line := range strings.Lines(notes) {
		who, text, _ := strings.Cut(line, ": ")
		switch names := strings.Fields(who); slices.Index(names, l.name) {
		case -1:
		case 0:
			b.WriteString("* " + text)
		default:
			first := slices.IndexFunc(libraries, func(x library) bool { return x.name == names[0] })
			said := fmt.Sprintf("* %s: as with [%s](wild/%s.md#what-stands-behind-the-figures).\n", subject.FindString(text), libraries[first].title, names[0])
			if !strings.Contains(b.String(), said) {
				b.WriteString(said)
			}
		}
	}
	return b.String()
}
