package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// result is a line of a driver's results.
type result struct {
	Run   string            `json:"run"`
	Input string            `json:"input"`
	Docs  map[string]string `json:"docs"`
	Error string            `json:"error"`
	None  bool              `json:"none"`
}

// difference is one thing that two trees say differently; "-" = one says nothing.
type difference struct{ run, row, field, old, new string }

// comparison gathers the differences of all runs. A field that one tree never has is told once, at the end, and not for each run.
type comparison struct {
	fresh   func(input string) bool // the input is of the new tree alone
	tell    func(difference)
	oneSide []difference       // rows that one tree has and the other has not
	fields  [2]map[string]bool // of all rows of the old and the new tree, where they differ in their rows
	leftOut map[string]int     // runs by the reason for which they were not compared
}

func newComparison(fresh func(input string) bool, tell func(difference)) *comparison {
	return &comparison{fresh: fresh, tell: tell, fields: [2]map[string]bool{{}, {}}, leftOut: map[string]int{}}
}

const (
	reasonUnread  = "recorded or written since, and not readable before"
	reasonBroken  = "an error on both sides"
	reasonUnknown = "not known to the adapter of one side"
)

// add compares what both trees gave for one run.
func (c *comparison) add(old, new *result) error {
	switch {
	case old.Run != new.Run:
		return fmt.Errorf("the trees did not do the same runs: %s, %s", old.Run, new.Run)
	case old.None || new.None:
		c.leftOut[reasonUnknown]++
		return nil
	case c.fresh(old.Input) && old.refused() && !new.refused():
		c.leftOut[reasonUnread]++
		return nil
	case (old.Error == "") != (new.Error == ""):
		c.tell(difference{old.Run, "error", "error", cmp.Or(old.Error, "-"), cmp.Or(new.Error, "-")})
		return nil
	case old.Error != "":
		c.leftOut[reasonBroken]++
		return nil
	}
	names := maps.Clone(old.Docs)
	maps.Copy(names, new.Docs)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, inOld := old.Docs[name]
		b, inNew := new.Docs[name]
		if err := c.document(old.Run, name, a, b, inOld, inNew); err != nil {
			return fmt.Errorf("%s: %w", old.Run, err)
		}
	}
	return nil
}

// refused reports that the input could not be read.
func (r *result) refused() bool {
	places, is := r.Docs["places.pairs"]
	return r.Error != "" || is && places != "null"
}

func (c *comparison) document(run, name, a, b string, inOld, inNew bool) error {
	if inOld != inNew {
		c.oneSide = append(c.oneSide, oneSided(run, name, name, inOld, "there"))
		c.fields[side(inOld)][name] = true
		return nil
	}
	old, err := rowsOf(name, a)
	if err != nil {
		return err
	}
	c.note(0, name, old)
	if a == b {
		c.note(1, name, old)
		return nil
	}
	new, err := rowsOf(name, b)
	if err != nil {
		return err
	}
	c.note(1, name, new)
	if n := c.rows(run, name, old, new); n == 0 && bytewise(name) {
		c.lines(run, name, a, b)
	}
	return nil
}

func side(old bool) int {
	if old {
		return 0
	}
	return 1
}

func (c *comparison) note(side int, doc string, rows []row) {
	for i := range rows {
		c.fields[side][doc+" "+rows[i].field] = true
	}
}

func oneSided(run, row, field string, inOld bool, value string) difference {
	d := difference{run, row, field, "-", value}
	if inOld {
		d.old, d.new = value, "-"
	}
	return d
}

// rows compares two documents by their rows, and counts the differences.
func (c *comparison) rows(run, doc string, old, new []row) (n int) {
	find := func(rows []row) map[string]*row {
		all := map[string]*row{}
		for i := range rows {
			all[rows[i].name+"\x00"+rows[i].field] = &rows[i]
		}
		return all
	}
	inOld, inNew := find(old), find(new)
	alone := func(rows []row, other map[string]*row, isOld bool) {
		whole := "" // an entry that the other has not: nor has it what is below
		for i := range rows {
			r := &rows[i]
			if other[r.name+"\x00"+r.field] != nil || r.names || whole != "" && strings.HasPrefix(r.name, whole+".") {
				continue
			}
			if whole = ""; r.entry {
				whole = r.name
			}
			n++
			c.oneSide = append(c.oneSide, oneSided(run, doc+" "+r.name, doc+" "+r.field, isOld, r.text()))
		}
	}
	alone(old, inNew, true)
	alone(new, inOld, false)
	for i := range old {
		a := &old[i]
		b := inNew[a.name+"\x00"+a.field]
		if b == nil || a.value == b.value && slices.Equal(a.list, b.list) {
			continue
		}
		what, sameSet := doc+" "+a.name, a.list != nil && slices.Equal(slices.Sorted(slices.Values(a.list)), slices.Sorted(slices.Values(b.list)))
		if a.names && !sameSet {
			continue // what is on one side only was told
		}
		if sameSet {
			what += " order"
		}
		n++
		c.tell(difference{run, what, doc + " " + a.field, a.text(), b.text()})
	}
	return n
}

func (r *row) text() string {
	if r.list != nil {
		return "[" + strings.Join(r.list, ", ") + "]"
	}
	return r.value
}

// lines compares two texts line by line, between the lines that both begin and end with.
func (c *comparison) lines(run, doc, a, b string) {
	old, new := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n")
	n := 0
	for n < len(old) && n < len(new) && old[n] == new[n] {
		n++
	}
	o, w := len(old), len(new)
	for o > n && w > n && old[o-1] == new[w-1] {
		o, w = o-1, w-1
	}
	at := func(lines []string, i, end int) string {
		if i < end {
			return lines[i]
		}
		return "-"
	}
	for i := n; i < max(o, w); i++ {
		c.tell(difference{run, fmt.Sprintf("%s line %d", doc, i+1), doc + " line", at(old, i, o), at(new, i, w)})
	}
}

// end tells what only one tree has: of a field that the other never has once, with the number of runs.
func (c *comparison) end() {
	type only struct{ first, count int }
	never := map[string]*only{}
	for i, d := range c.oneSide {
		other := side(d.old == "-")
		if c.fields[other][d.field] {
			c.tell(d)
			continue
		}
		if never[d.field] == nil {
			never[d.field] = &only{first: i}
		}
		never[d.field].count++
	}
	for _, field := range slices.Sorted(maps.Keys(never)) {
		d := c.oneSide[never[field].first]
		in := fmt.Sprintf("%d times, first in %s", never[field].count, d.run)
		c.tell(oneSided("all runs", "field "+field, field, d.old != "-", in))
	}
}

// printer writes differences, one a line: run, row, old, new.
func printer(w io.Writer) func(difference) {
	return func(d difference) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", d.run, plain(d.row), plain(d.old), plain(d.new))
	}
}

// groups gathers differences that are the same in many runs, with their number in place of the run.
type groups struct {
	first map[[3]string]difference
	count map[[3]string]int
}

func (g *groups) add(d difference) {
	key := [3]string{d.field, d.old, d.new}
	if g.count[key]++; g.count[key] == 1 {
		g.first[key] = d
	}
}

func (g *groups) write(w io.Writer) {
	tell := printer(w)
	for _, key := range slices.SortedFunc(maps.Keys(g.count), func(a, b [3]string) int {
		return cmp.Or(cmp.Compare(g.count[b], g.count[a]), slices.Compare(a[:], b[:]))
	}) {
		d := g.first[key]
		if n := g.count[key]; n > 1 {
			d.run, d.row = fmt.Sprintf("%d times, first %s", n, d.run), d.field
		}
		tell(d)
	}
}

const mostShown = 300 // of a value, in runes

// plain is a text in one cell of a line.
func plain(s string) string {
	s = strings.TrimSuffix(s, "\n")
	if r := []rune(s); len(r) > mostShown {
		s = string(r[:mostShown]) + "..."
	}
	quoted := strconv.Quote(s)
	if strings.ContainsAny(s, "\t\n\r") || s == "" {
		return quoted
	}
	return s
}
