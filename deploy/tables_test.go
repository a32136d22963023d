package deploy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Table is the alerts as rows of a Markdown table: what docs/alerts.md shows.
func Table() string {
	var b strings.Builder
	b.WriteString("|alert|severity|fires|needs|drill|\n|---|---|---|---|---|\n")
	c := catalogue()
	f := &filler{m: &Mapping{}, c: c, scale: 1}
	for _, a := range c.Alerts {
		_, needs, err := f.fill(a.Expr)
		if err != nil {
			panic(err) // rules.yaml is ours
		}
		drill := "`" + a.Drill + "`"
		if strings.Contains(drill, "/") {
			drill = "[`" + path.Base(a.Drill) + "`](../" + a.Drill + ")"
		}
		fmt.Fprintf(&b, "|[`%s`](%s)|%s|%s|`%s`|%s|\n", a.Alert, strings.TrimPrefix(a.Runbook, "docs/"), a.Severity, a.Fires,
			strings.Join(needs, "`, `"), drill)
	}
	return b.String()
}

// SignalTable is the signals and thresholds that somebody else's mapping may name, as Markdown: those of drills are lockdrill's own.
func SignalTable() string {
	var b strings.Builder
	c := catalogue()
	b.WriteString("|signal|a|what it tells|\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(c.Signals)) {
		if strings.HasPrefix(name, "drill_") {
			continue
		}
		fmt.Fprintf(&b, "|`%s`|%s|%s|\n", name, c.Signals[name].Unit, c.Signals[name].Means)
	}
	b.WriteString("\n|threshold|default|what it bounds|\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(c.Thresholds)) {
		fmt.Fprintf(&b, "|`%s`|%v|%s|\n", name, c.Thresholds[name].Value, c.Thresholds[name].Means)
	}
	return b.String()
}
