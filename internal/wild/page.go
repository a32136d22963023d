package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

//go:embed page.tmpl
var frame string

//go:embed notes.txt
var notes string // of what stands behind figures: the libraries that it is about, and a paragraph

// page is docs/wild.md: page.tmpl with the tables in the places of its {{words}}.
func (t table) page() string {
	return strings.NewReplacer(
		"{{libraries}}", t.libraries(),
		"{{drills}}", t.drills(),
		"{{threads}}", t.threads(func(x thread) bool { return t.home(x) == "" }),
		"{{queues}}", t.queues(),
		"{{versions}}", fmt.Sprintf("redis-server %s, etcd %s, Kubernetes %s, PostgreSQL %s, ZooKeeper %s, go-redis %s, ioredis %s, node %s",
			t.Versions["redis-server"], t.Versions["etcd"], t.Versions["kubernetes"], t.Versions["postgres"], t.Versions["zookeeper"], t.Versions["go-redis"], t.Versions["ioredis"], t.Versions["node"]),
	).Replace(frame)
}

var storeNames = map[string]string{"redis": "Redis", "etcd": "etcd", "lease": "Lease objects", "postgres": "PostgreSQL", "zookeeper": "ZooKeeper"}

// libraries is the table of all locks: in which drills each missed a limit.
func (t table) libraries() string {
	var b strings.Builder
	b.WriteString("| library | store | version | takeover after a kill, s | missed a limit in | not answered |\n|---|---|---|---|---|---|\n")
	for _, l := range libraries {
		version := t.Versions[l.name]
		if l.control {
			version = "here"
		}
		var missed []string
		open := 0
		for _, d := range drills {
			runs := t.Cells[l.name+"/"+d.name]
			if len(broken(runs)) > 0 {
				missed = append(missed, "`"+d.name+"`")
			}
			if mostOpen(runs) > 0 {
				open++
			}
		}
		fmt.Fprintf(&b, "| [%s](%s) | %s | %s | %s | %s | %d |\n", l.title, cmp.Or(l.page(), l.link), storeNames[l.kind()], version,
			row(t.Cells[l.name+"/"+drills[0].name])[0], cmp.Or(strings.Join(missed, ", "), "none"), open)
	}
	return b.String()
}

// drills says what each drill does, and where it is not done.
func (t table) drills() string {
	var b strings.Builder
	b.WriteString("| drill | what is done |\n|---|---|\n")
	for _, d := range drills {
		about := d.about
		why := map[string][]string{}
		for _, kind := range slices.Sorted(maps.Keys(d.not)) {
			why[d.not[kind]] = append(why[d.not[kind]], storeNames[kind])
		}
		for _, reason := range slices.Sorted(maps.Keys(why)) {
			about += fmt.Sprintf(" Not in %s: %s.", strings.Join(why[reason], ", "), reason)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", d.name, about)
	}
	return b.String()
}

var columns = []string{"[drill](../wild.md#the-drills)", "takeover, s", "both believe, s", "both work, s", "effects: stale/unowned/kept out", "orphaned, s", "loser knows after, s", "limits missed"}

// figures is the table of all drills of a library, without columns in which nothing stands.
func (t table) figures(l library) string {
	rows := [][]string{columns}
	for _, d := range drills {
		runs := t.Cells[l.name+"/"+d.name]
		if len(runs) == 0 {
			continue
		}
		words := row(runs)
		if l.kind() == "zookeeper" {
			words[4] = "" // without a look at the key
		}
		rows = append(rows, append([]string{"`" + d.name + "`"}, words...))
	}
	lines := make([]strings.Builder, len(rows))
	for column := range columns {
		if !slices.ContainsFunc(rows[1:], func(r []string) bool { return r[column] != "" }) {
			continue
		}
		for i, r := range rows {
			lines[i].WriteString("|" + r[column])
		}
	}
	var b strings.Builder
	for i := range lines {
		b.WriteString(lines[i].String() + "|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", strings.Count(lines[i].String(), "|")) + "|\n")
		}
	}
	return b.String()
}

// row is the figures of all runs of a cell, as ranges.
func row(runs []figures) []string {
	var takeovers, notices, belief, work, orphaned []span
	var stale, unowned, refused, ended []int
	for _, f := range runs {
		if f.Error != "" {
			return []string{"", "", "", "", "", "", "no run: " + f.Error}
		}
		takeovers, notices = append(takeovers, f.Takeover...), append(notices, f.Notice...)
		for _, p := range []struct {
			all *[]span
			one *span
		}{{&belief, f.Belief}, {&work, f.Work}, {&orphaned, f.Orphaned}} {
			if p.one != nil {
				*p.all = append(*p.all, *p.one)
			}
		}
		stale, unowned, refused = append(stale, f.Stale), append(unowned, f.Unowned), append(refused, f.Refused)
		ended = append(ended, f.Ended)
	}
	words := broken(runs)
	if slices.Max(ended) > 0 {
		words = append(words, "replicas that ended: "+counts(ended))
	}
	if most := mostOpen(runs); most > 0 {
		words = append(words, fmt.Sprintf("%d not answered", most))
	}
	effects := ""
	if slices.Max(stale)+slices.Max(unowned)+slices.Max(refused) > 0 {
		effects = fmt.Sprintf("%s/%s/%s", counts(stale), counts(unowned), counts(refused))
	}
	return []string{bare(ranges(takeovers)), bare(quiet(belief)), bare(quiet(work)), effects, bare(quiet(orphaned)), bare(ranges(notices)), strings.Join(words, ", ")}
}

// broken are the limits that runs of a cell missed.
func broken(runs []figures) []string {
	missed := map[string]int{}
	for _, f := range runs {
		for _, m := range f.Broken {
			missed[m]++
		}
	}
	words := []string{}
	for m, n := range missed {
		word := strings.ReplaceAll(strings.ReplaceAll(m, ".", " "), "_", " ")
		if n < len(runs) {
			word += fmt.Sprintf(" (%d of %d runs)", n, len(runs))
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return words
}

// mostOpen is how many limits a run of a cell left open, at most.
func mostOpen(runs []figures) int {
	most := 0
	for _, f := range runs {
		most = max(most, len(f.Open))
	}
	return most
}

// quiet is ranges, with nothing where there was nothing.
func quiet(all []span) string {
	most := 0.0
	for _, s := range all {
		if s.Hi == nil {
			return ranges(all)
		}
		most = max(most, *s.Hi)
	}
	if most < 0.05 {
		return ""
	}
	return ranges(all)
}

var second = regexp.MustCompile(`(\d) s\b`)

// bare is ranges in a column whose head has their unit.
func bare(text string) string { return second.ReplaceAllString(text, "$1") }

func counts(all []int) string {
	if lo, hi := slices.Min(all), slices.Max(all); lo != hi {
		return fmt.Sprintf("%d to %d", lo, hi)
	}
	return fmt.Sprint(all[0])
}
