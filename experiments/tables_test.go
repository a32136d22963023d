package experiments

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// marks enclose what the declarations give of a document: <!-- fields: system.work[] --> is the table of that section, of several where
// more are named, and <!-- faults --> the one of all kinds of faults, <!-- sources --> that of what tells the measures of an observed system.
var marks = regexp.MustCompile(`(?s)(<!-- (fields|group|faults|sources)(?:: ([^>]+?))? -->\n)(.*?)(<!-- end -->)`)

// groups are fields that many sections have alike, as the section that is named has them: other tables have a link in their place, to
// <!-- group: NAME -->, where they stand with their names and meaning.
var groups = map[string]struct {
	of, link string
	fields   []string
}{
	"limits":    {"slos[].takeover", "[limits](#limits-of-a-figure)", []string{"max", "min", "exactly", "at_most", "at_least", "of"}},
	"whom":      {"faults[].pause", "[whom](#whom-a-fault-strikes)", []string{"holder_of", "replica", "all"}},
	"asking":    {"probes.promql[]", "[how a server is asked](#asking)", []string{"username_env", "password_env", "bearer_env", "headers", "headers_env", "ca", "cert", "cert_key"}},
	"connected": {"ledger", "[how a store is reached](#connected)", []string{"username_env", "password_env", "ca", "cert", "key"}},
}

// where is what the rules of a field add to its meaning.
var where = regexp.MustCompile(` \((only with|not beside)[^)]*\)$`)

// briefly are those rules as documents have them.
var briefly = strings.NewReplacer("only with system.mode observe", "observe", "only with system.mode embedded", "embedded", "only with ", "with ", "; not scaled", "")

// values are what a field takes, as documents have it: explain, and the message to who errs, say that a number is above 0. What takes a text
// has no word, and a scaled duration is scaled.
var (
	values = strings.NewReplacer("true or false", "boolean", "names and texts", "map", "section, or one value", "section/value", " above 0", "", ", scaled", " scaled")
	brief  = strings.NewReplacer("duration scaled", "scaled")
)

// reach is what a number may be.
var reach = regexp.MustCompile(` from (\S+) up to (\S+)`)

// rows are the rows of a table below its head, cell by cell: field, value and its default, meaning.
func rows(table string) (cells [][]string) {
	for line := range strings.Lines(strings.SplitAfterN(table, "\n", 3)[2]) {
		c := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |\n"), " | ")
		if c[2] != "" {
			c[1] += ", default " + c[2]
		}
		cells = append(cells, []string{c[0], c[1], c[3]})
	}
	return cells
}

// group is the table of a group, and its rows as its section has them.
func group(tables map[string]string, name string) (table string, want [][]string) {
	all := rows(tables[groups[name].of])
	var b strings.Builder
	b.WriteString("|field|meaning|\n|---|---|\n")
	for _, r := range all {
		if slices.Contains(groups[name].fields, strings.Trim(r[0], "`")) {
			want = append(want, r)
			fmt.Fprintf(&b, "|%s|%s|\n", r[0], briefly.Replace(r[2]))
		}
	}
	return b.String(), want
}

// shorter are the rows of a table in which a group has one row, and so have the kinds of faults, the measures, what stands in place of a
// field of the profile, and neighbours that differ in their names alone.
func shorter(tables map[string]string, table string) (short [][]string) {
	all := rows(table)
	has := func(name string) bool {
		return slices.ContainsFunc(all, func(r []string) bool { return r[0] == "`"+name+"`" })
	}
	faults, slos := has("kill"), has("takeover")
	for _, r := range all {
		switch {
		case faults && slices.Contains(fault.Kinds(), strings.Trim(r[0], "`")):
			r[2] = "exactly one of these: [what each does](faults.md)"
		case slos && r[1] == "section":
			r[2] = "exactly one of these, or an alert: [what each counts](judging.md#look-up-a-measure)"
		case r[2] == "in place of the profile's":
			r[1] = "as in a [policy](#a-policy)"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		_, want := group(tables, name)
		for at := range len(all) - len(want) + 1 {
			if slices.EqualFunc(all[at:at+len(want)], want, func(a, b []string) bool {
				return a[0] == b[0] && where.ReplaceAllString(a[2], "") == where.ReplaceAllString(b[2], "")
			}) {
				one := slices.Clone(all[at])
				one[0], one[2] = groups[name].link, strings.TrimSpace(where.FindString(one[2]))
				all = slices.Replace(all, at, at+len(want), one)
				break
			}
		}
	}
	for _, r := range all {
		r = []string{r[0], strings.TrimPrefix(brief.Replace(reach.ReplaceAllString(values.Replace(r[1]), " $1–$2")), "text"), briefly.Replace(r[2])}
		if last := len(short) - 1; last >= 0 && slices.Equal(short[last][1:], r[1:]) {
			short[last][0] += ", " + r[0]
			continue
		}
		short = append(short, r)
	}
	return short
}

// tableOf is the table of some sections, each with its name where there are several.
func tableOf(tables map[string]string, paths []string) string {
	var b strings.Builder
	if len(paths) == 1 {
		b.WriteString("|field|value|meaning|\n|---|---|---|\n")
		for _, r := range shorter(tables, tables[paths[0]]) {
			fmt.Fprintf(&b, "|%s|\n", strings.Join(r, "|"))
		}
		return b.String()
	}
	b.WriteString("|section|field|value|meaning|\n|---|---|---|---|\n")
	above := paths[0][:strings.LastIndex(paths[0], ".")+1]
	for _, path := range paths {
		name := "`" + strings.TrimPrefix(path, above) + "`"
		for _, r := range shorter(tables, tables[path]) {
			fmt.Fprintf(&b, "|%s|%s|\n", name, strings.Join(r, "|"))
			name = ""
		}
	}
	return b.String()
}

// The tables of the documents are those of the declarations, and no section of a file is without one. Read the diff after -update.
func TestTablesOfTheDocuments(t *testing.T) {
	tables := map[string]string{}
	for _, s := range vocabulary.Sections(&file{}) {
		tables[s.Path] = vocabulary.Table(s.Type)
	}
	tables["file"] = tables[""]
	delete(tables, "")
	shown := map[string]bool{}
	for _, name := range []string{"../docs/experiment-file.md", "../docs/faults.md", "../docs/your-service.md"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := marks.ReplaceAllStringFunc(string(data), func(block string) string {
			m := marks.FindStringSubmatch(block)
			if m[2] == "faults" {
				shown[m[2]] = true
				return m[1] + kindsTable() + m[5]
			}
			if m[2] == "sources" {
				shown[m[2]] = true
				return m[1] + sourcesTable() + m[5]
			}
			if m[2] == "group" {
				if _, is := groups[m[3]]; !is {
					t.Errorf("%s: there is no group %s", name, m[3])
					return block
				}
				shown["group "+m[3]] = true
				table, _ := group(tables, m[3])
				return m[1] + table + m[5]
			}
			paths := strings.Split(m[3], ", ")
			for _, path := range paths {
				if _, is := tables[path]; !is || shown[path] {
					t.Errorf("%s: there is no section %s, or its table is there twice", name, path)
				}
				shown[path] = true
			}
			return m[1] + tableOf(tables, paths) + m[5]
		})
		if *update {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if text != string(data) {
			t.Errorf("the tables of %s are not those of the declarations: go test ./experiments -run TestTablesOfTheDocuments -update", name)
		}
	}
	for path := range tables {
		if !shown[path] {
			t.Errorf("the fields of %s are in no document: write <!-- fields: %s --> and <!-- end --> where they belong", path, path)
		}
	}
	for name := range groups {
		if !shown["group "+name] {
			t.Errorf("no document has the group %s: write <!-- group: %s --> and <!-- end -->", name, name)
		}
	}
	if !shown["faults"] || !shown["sources"] {
		t.Error("no document has the table of faults, or that of sources")
	}
}

// sourcesTable is the table of the measures of an observed system.
func sourcesTable() string {
	var b strings.Builder
	b.WriteString("|promise|loops|jobs|told by|\n|---|---|---|---|\n")
	for _, t := range tellers() {
		word := map[bool]string{true: "yes"}
		name := "`" + t.measure + "`"
		if level, is := strings.CutPrefix(t.measure, "overlap."); is {
			name = "`overlap: {level: " + level + "}`"
		}
		if t.measure == "rolling" {
			t.loops = true
		}
		fmt.Fprintf(&b, "|%s|%s|%s|%s|\n", name, word[t.loops], word[t.jobs], t.from)
	}
	return b.String()
}

// kindsTable is the table of all kinds of faults.
func kindsTable() string {
	var b strings.Builder
	b.WriteString("|kind|what it does|`for`|\n|---|---|---|\n")
	for _, kind := range fault.Kinds() {
		lasts := ""
		if fault.Of(fault.New(kind)).Traits().GoesOn != "" {
			lasts = "yes"
		}
		fmt.Fprintf(&b, "|`%s`|%s|%s|\n", kind, fault.Meaning(kind), lasts)
	}
	return b.String()
}
