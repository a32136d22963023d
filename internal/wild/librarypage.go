package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// pages is docs/wild.md, and a page for each library that is somebody's.
func (t table) pages() map[string]string {
	all := map[string]string{docs + "/wild.md": dash(t.page())}
	for _, l := range slices.Concat(libraries, queues) {
		if file := l.page(); file != "" {
			all[docs+"/"+file] = dash(t.libraryPage(l))
		}
	}
	return all
}

var to = regexp.MustCompile(`\b([\d.]*\d) to (\d[\d.]*)\b`)

// dash writes ranges of figures as tables have them, and sentences of the judge without what every reader of the page knows.
func dash(text string) string {
	return to.ReplaceAllString(strings.ReplaceAll(text, " (each holder beyond the first counts for itself)", ""), "$1–$2")
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
	fmt.Fprintf(&b, "After this page you know what %s %s does in each [drill](../wild.md#%s).\n\n", l.title, t.Versions[l.name], map[bool]string{false: "read-a-librarys-page", true: "queues"}[l.queue != nil])
	fmt.Fprintf(&b, "* [%s](%s) locks in %s. It says: %s.\n* Used: %s.\n\n", l.title, l.link, storeNames[l.kind()], upOne(l.promise), upOne(l.adapted))
	these := drills
	if l.queue != nil {
		these = ofQueues
		b.WriteString("| drill" + columnsOfQueues + ruleOfQueues)
		for _, d := range these {
			b.WriteString(t.rowOfQueue("`"+d.name+"`", l, d))
		}
	} else {
		b.WriteString(t.figures(l))
	}
	var left []string
	for _, d := range these {
		if len(t.Cells[l.name+"/"+d.name]) == 0 {
			left = append(left, "`"+d.name+"`")
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(&b, "\nNot drilled ([why](../wild.md#the-drills)): %s.\n", strings.Join(left, ", "))
	}
	fmt.Fprintf(&b, "\n%s.\n", t.when(l))
	if behind := behind(l); behind != "" {
		b.WriteString("\n## Behind the figures\n\n" + upOne(behind))
	}
	if threads := t.threads(func(x thread) bool { return t.home(x) == l.name }); threads != "" {
		b.WriteString("\n## Reported, and reproduced\n\n" + threads)
	}
	return b.String()
}

// when says when the drills of a library were recorded, and by which commits of the harness.
func (t table) when(l library) string {
	var all []string
	for name, r := range t.Recorded {
		if strings.HasPrefix(name, l.name+"/") {
			all = append(all, fmt.Sprintf("%s (`%s`)", r.Date, r.Commit))
		}
	}
	slices.Sort(all)
	return "Recorded on " + strings.Join(slices.Compact(all), ", ")
}

var number = regexp.MustCompile(`-\d.*`)

// of says whether the thread is of the project that the library is from.
func (t thread) of(l library) bool {
	return strings.HasPrefix(l.name, number.ReplaceAllString(t.name, ""))
}

// home is the library on whose page a thread stands: of those from its project the one that fails, or the first. A thread of no library has
// none.
func (t table) home(x thread) string {
	best, rank := "", 3
	for _, l := range slices.Concat(libraries, queues) {
		r := 2
		if strings.HasPrefix(x.at, l.title) {
			r = 0
		} else if strings.Contains(x.at, t.Versions[l.name]) {
			r = 1
		}
		if x.of(l) && r < rank {
			best, rank = l.name, r
		}
	}
	return best
}

var relative = regexp.MustCompile(`\]\(([^h#][^)]*)\)`)

// upOne lets the links of a text in docs lead to the same places from a folder in it.
func upOne(text string) string { return relative.ReplaceAllString(text, "](../$1)") }

var subject = regexp.MustCompile(`^\*\*[^*]+\*\*`)

// behind are the paragraphs of notes.txt that are about the library. One that is about several stands on the page of the first, and the
// others lead there.
func behind(l library) string {
	var b strings.Builder
	elsewhere := map[string][]string{} // by the library that has them: what the paragraphs are about
	for line := range strings.Lines(notes) {
		who, text, _ := strings.Cut(line, ": ")
		switch names := strings.Fields(who); slices.Index(names, l.name) {
		case -1:
		case 0:
			b.WriteString("* " + text)
		default:
			elsewhere[names[0]] = append(elsewhere[names[0]], subject.FindString(text))
		}
	}
	for _, first := range slices.Sorted(maps.Keys(elsewhere)) {
		of := libraries[slices.IndexFunc(libraries, func(x library) bool { return x.name == first })]
		fmt.Fprintf(&b, "* %s: as with [%s](wild/%s.md#behind-the-figures).\n", strings.Join(elsewhere[first], ", "), of.title, first)
	}
	return b.String()
}
