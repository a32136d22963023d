package experiments

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// marks enclose what the declarations give of a document: <!-- fields: system.work[] --> is the table of that section, and
// <!-- faults --> the one of all kinds of faults, <!-- sources --> that of what tells the measures of an observed system.
var marks = regexp.MustCompile(`(?s)(<!-- (fields|faults|sources)(?:: (\S+))? -->\n)(.*?)(<!-- end -->)`)

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
			table, is := tables[m[3]]
			if !is || shown[m[3]] {
				t.Errorf("%s: there is no section %s, or its table is there twice", name, m[3])
			}
			shown[m[3]] = true
			return m[1] + table + m[5]
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
	if !shown["faults"] || !shown["sources"] {
		t.Error("no document has the table of faults, or that of sources")
	}
}

// sourcesTable is the table of the measures of an observed system.
func sourcesTable() string {
	var b strings.Builder
	b.WriteString("| promise | loops | jobs | told by |\n|---|---|---|---|\n")
	for _, t := range tellers() {
		word := map[bool]string{true: "yes"}
		name := "`" + t.measure + "`"
		if level, is := strings.CutPrefix(t.measure, "overlap."); is {
			name = "`overlap: {level: " + level + "}`"
		}
		if t.measure == "rolling" {
			t.loops = true
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, word[t.loops], word[t.jobs], t.from)
	}
	return b.String()
}

// kindsTable is the table of all kinds of faults.
func kindsTable() string {
	var b strings.Builder
	b.WriteString("| kind | what it does | made by | `for` | rehearsed |\n|---|---|---|---|---|\n")
	for _, kind := range fault.Kinds() {
		f := fault.Of(fault.New(kind))
		lasts, played := "no", "yes"
		if f.Traits().GoesOn != "" {
			lasts = "yes"
		}
		if f.Unplayed() != "" {
			played = "no"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", kind, fault.Meaning(kind), f.By(), lasts, played)
	}
	return b.String()
}
