// Package scenarios holds the curated experiments that ship inside the binary: each is a file that stands alone, and its
// first comment lines say what it shows and how it ends. It does not read the experiments; package experiments does.
// Its one invariant: every scenario is valid, and its expected exit code is what a run of it gives, where there is what it needs.
package scenarios

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Info is what a list of scenarios shows of one.
type Info struct {
	Name    string // as in `lockdrill run NAME`
	Title   string // a few words
	Summary string // one line
	Expect  int    // the exit code that a run of it ends with
	Needs   string // what it needs that a laptop has not, and what to do; "" = nothing
	Group   string // one of Groups
}

// group is a heading of the list, and the scenarios below it.
type group struct {
	title string
	names []string
}

var groups = []group{
	{"Start here", []string{"first-drill", "worker-check"}},
	{"A holder dies, stops or is slow", []string{"leader-kill-at-peak", "rolling-restart", "p95-until-answered", "gc-pause-and-latency", "pause-and-delay-beyond-ttl", "handler-outlives-ttl", "unfenced-duplicates"}},
	{"Renewals and releases fail", []string{"renewal-burst", "sustained-failures", "release-failure-debt", "release-failures-published", "stale-release-drill", "black-hole-published-policy"}},
	{"Redis fails", []string{"redis-restart", "redis-failover", "key-vanishes", "fence-counter-lost"}},
	{"Published timings", []string{"five-loops-of-a-sheet", "published-windows", "published-loop-pause", "approval-as-published", "cordum-approval", "cordum-delay-poller", "cordum-pending-replayer", "cordum-scheduler-job", "cordum-scheduler-reconciler", "cordum-snapshot-writer", "cordum-workflow-reconciler", "cordum-workflow-run"}},
	{"The shipped classes", []string{"lockdrill-standard", "lockdrill-critical", "lockdrill-continuity"}},
	{"In Kubernetes", []string{"pods-job-locks", "kubernetes-leader-election"}},
	{"How a bad run ends", []string{"too-tight-slo", "nobody-home", "undo-fails"}},
}

// groupOf is the heading below which a scenario stands, and where.
func groupOf(name string) (title string, at int) {
	for _, g := range groups {
		if i := slices.Index(g.names, name); i >= 0 {
			return g.title, at + i
		}
		at += len(g.names)
	}
	return "", at
}

// Order is where a scenario stands in the list by groups.
func Order(name string) int {
	_, at := groupOf(name)
	return at
}

// List gives the shipped scenarios in alphabetical order.
func List() []Info {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // embedded
	}
	var out []Info
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".yaml")
		data, _ := Get(name)
		info, err := describe(name, string(data))
		if err != nil {
			panic(err) // a shipped file is wrong, and the tests read every one
		}
		info.Group, _ = groupOf(name)
		out = append(out, info)
	}
	return out
}

// Get gives the YAML of a scenario; ok is false where none has that name.
func Get(name string) (data []byte, ok bool) {
	data, err := files.ReadFile(name + ".yaml")
	return data, err == nil
}

// describe reads the comment lines `# title: ...`, `# summary: ...`, `# expect: N` and perhaps `# needs: ...` at the top of a scenario.
func describe(name, text string) (Info, error) {
	info := Info{Name: name, Expect: -1}
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		key, value, _ := strings.Cut(comment, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "title":
			info.Title = value
		case "summary":
			info.Summary = value
		case "needs":
			info.Needs = value
		case "expect":
			code, err := strconv.Atoi(value)
			if err != nil {
				return info, fmt.Errorf("scenario %s: expect: %w", name, err)
			}
			info.Expect = code
		}
	}
	if info.Title == "" || info.Summary == "" || info.Expect < 0 {
		return info, fmt.Errorf("scenario %s: title, summary or expect is missing at its top", name)
	}
	return info, nil
}

//go:embed gamedays/*.yaml
var gameDays embed.FS

// GameDay gives the sheet of a shipped game day; ok is false where none has that name.
func GameDay(name string) (data []byte, ok bool) {
	data, err := gameDays.ReadFile("gamedays/" + name + ".yaml")
	return data, err == nil
}

// GameDays are the names of the shipped ones.
func GameDays() (names []string) {
	entries, err := gameDays.ReadDir("gamedays")
	if err != nil {
		panic(err) // embedded
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}
