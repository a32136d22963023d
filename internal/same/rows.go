package main

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/internal/golden"
)

// row is one thing that a document says.
type row struct {
	name  string // slos[takeover.max leader].lo
	field string // slos.lo: the name without what tells rows of one list apart
	value string
	list  []string // of a list, in place of a value: what it has in which order
	entry bool     // of a list: what it says stands in the rows below it
	names bool     // the list has the names of rows, each of which is compared by itself
}

// rowsOf is the normal form of a document, by the ending of its name.
func rowsOf(name, doc string) ([]row, error) {
	r := &reader{doc: name}
	var err error
	switch path.Ext(name) {
	case ".json":
		var v any
		d := json.NewDecoder(strings.NewReader(doc))
		d.UseNumber()
		if err = d.Decode(&v); err == nil {
			r.value("", "", v)
		}
	case ".pairs":
		var all [][2]string
		if err = json.Unmarshal([]byte(doc), &all); err == nil {
			r.pairs(all)
		}
	case ".csv":
		err = r.csv(doc)
	case ".prom":
		r.pairs(series(doc))
	case ".xml":
		err = r.xml(doc)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r.rows, nil
}

// bytewise reports a document that must be the same bytes, whatever its rows are.
func bytewise(name string) bool {
	return slices.Contains([]string{".csv", ".prom", ".txt"}, path.Ext(name))
}

type reader struct {
	doc  string
	rows []row
}

func (r *reader) add(name, field, value string) {
	r.rows = append(r.rows, row{name: name, field: field, value: value})
}

// keys say which fields of an entry tell it apart from others in its list; of two that are the same the second is #2. Entries of other
// lists of objects go by their number.
var keys = map[string][]string{
	"slos": {"fault", "lock", "measure", "ask"}, "expected": {"fault", "lock", "measure", "ask"}, "faults": {"id", "shot"},
	"takeovers": {"fault", "lock", "key"}, "overlap": {"lock", "level"}, "rollingRestarts": {"fault"}, "locks": {"lock"},
	"abandonments": {"lock", "key", "epoch"}, "duplicates": {"lock", "job"}, "debts": {"lock", "key", "epoch", "cause"},
	"notOwned": {"lock", "op"}, "distributions": {"lock", "class", "measure"}, "bands": {"lock"}, "predicted": {"lock", "class"},
	"probes": {"id"}, "findings": {"code"}, "lacks": {"code"},
	"testcase": {"classname", "name"}, "testsuite": {"id"}, "property": {"name"},
	"slos.csv": {"lock", "slo"}, "takeovers.csv": {"fault", "lock", "key"},
}

// words are the sentences of a verdict, by field. Of a sentence its figures are compared: a figure is never a word.
var words = []string{
	"slos.why", "slos.next", "slos.lacks.why", "slos.lacks.next", "expected.why", "expected.next", "expected.lacks.why", "expected.lacks.next",
	"lacks.why", "lacks.next", "findings.what", "warnings", "bands.sum", "bands.untold", "probes.cost.why",
}

// coded are sentences that begin with the word of a code, up to a colon.
var coded = []string{"faults.why"}

// said is what is compared of a string in a field.
func (r *reader) said(field, s string) string {
	switch {
	case r.doc == "verdict.json" && slices.Contains(words, field):
		return golden.Figures(s)
	case r.doc == "verdict.json" && slices.Contains(coded, field):
		code, detail, _ := strings.Cut(s, ":")
		return strings.TrimSpace(code + " " + golden.Figures(detail))
	case strings.HasSuffix(r.doc, ".schema.json") && (strings.HasSuffix(field, ".description") || strings.HasSuffix(field, ".markdownDescription")):
		return "words"
	}
	return s
}

// value adds what a value of JSON says.
func (r *reader) value(name, field string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			r.value(below(name, k), below(field, k), v[k])
		}
	case []any:
		if !slices.ContainsFunc(v, func(x any) bool { _, is := x.(map[string]any); return is }) {
			if len(v) == 0 {
				return // as where it is left out
			}
			var all []string
			for _, x := range v {
				all = append(all, r.scalar(field, x))
			}
			r.rows = append(r.rows, row{name: name, field: field, list: all})
			return
		}
		var entries []map[string]any
		for _, x := range v {
			entry, _ := x.(map[string]any)
			entries = append(entries, entry)
		}
		r.entries(name, field, keys[field[strings.LastIndexByte(field, '.')+1:]], entries)
	default:
		r.add(name, field, r.scalar(field, v))
	}
}

func (r *reader) scalar(field string, v any) string {
	switch v := v.(type) {
	case string:
		return r.said(field, v)
	case nil:
		return "null"
	case []any:
		return fmt.Sprint(v...)
	}
	return fmt.Sprint(v)
}

// entries adds a list of objects, each under a name by these of its fields, and their order.
func (r *reader) entries(name, field string, by []string, all []map[string]any) {
	seen, order := map[string]int{}, []string{}
	for i, entry := range all {
		key := fmt.Sprint(i + 1)
		if by != nil {
			key = keyOf(entry, by)
		}
		if seen[key]++; seen[key] > 1 {
			key = fmt.Sprintf("%s #%d", key, seen[key])
		}
		order = append(order, key)
		r.rows = append(r.rows, row{name: name + "[" + key + "]", field: field, value: "there", entry: true})
		r.value(name+"["+key+"]", field, entry)
	}
	r.rows = append(r.rows, row{name: name, field: field + " order", list: order, names: true})
}

func keyOf(entry map[string]any, by []string) string {
	var parts []string
	for _, k := range by {
		if v := entry[k]; v != nil && v != "" {
			parts = append(parts, fmt.Sprint(v))
		}
	}
	return strings.Join(parts, " ")
}

func below(name, part string) string { return strings.TrimPrefix(name+"."+part, ".") }

// pairs adds names and values; of two equal names the second is #2.
func (r *reader) pairs(all [][2]string) {
	seen := map[string]int{}
	for _, p := range all {
		name := p[0]
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s #%d", name, seen[name])
		}
		r.add(name, name, p[1])
	}
}

// series are the lines of a text of Prometheus: the value of a series stands behind its last blank, a comment behind its third.
func series(doc string) (all [][2]string) {
	for line := range strings.Lines(doc) {
		line = strings.TrimSuffix(line, "\n")
		at := strings.LastIndexByte(line, ' ')
		if parts := strings.SplitN(line, " ", 4); parts[0] == "#" && len(parts) == 4 {
			at = len(line) - len(parts[3]) - 1
		}
		if at < 0 {
			at = len(line)
		}
		all = append(all, [2]string{line[:at], strings.TrimPrefix(line[at:], " ")})
	}
	return all
}

func (r *reader) csv(doc string) error {
	lines, err := csv.NewReader(strings.NewReader(doc)).ReadAll()
	if err != nil || len(lines) == 0 {
		return err
	}
	var all []map[string]any
	for _, cells := range lines[1:] {
		entry := map[string]any{}
		for i, cell := range cells {
			entry[lines[0][i]] = cell
		}
		all = append(all, entry)
	}
	r.rows = append(r.rows, row{name: "columns", field: "columns", list: lines[0]})
	r.entries("", "", keys[r.doc], all)
	return nil
}

// xml adds the elements of a JUnit file with their attributes, without texts and messages.
func (r *reader) xml(doc string) error {
	d, root := xml.NewDecoder(strings.NewReader(doc)), map[string]any{}
	open := []map[string]any{root}
	for {
		token, err := d.Token()
		if err == io.EOF {
			r.value("", "", root)
			return nil
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			entry := map[string]any{}
			for _, a := range t.Attr {
				if a.Name.Local != "message" {
					entry[a.Name.Local] = a.Value
				}
			}
			if parent := open[len(open)-1]; t.Name.Local != "system-out" {
				list, _ := parent[t.Name.Local].([]any)
				parent[t.Name.Local] = append(list, entry)
			}
			open = append(open, entry)
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
}
