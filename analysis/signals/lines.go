package signals

import (
	"strings"

	"github.com/lockdrill/lockdrill/history"
)

// Line is one that matched a pattern.
type Line struct {
	Pattern, Source string // who wrote it, as far as that is known; else the name of the file
	Span            history.Span
	N               int64
}

// Lines are those that matched, in the order of the record.
type Lines []Line

// Take adds a line.
func (all *Lines) Take(ev *history.Event) {
	who := ev.Source
	if strings.HasPrefix(who, "probe:") { // nobody knows whose line it is
		who = ev.Match.File[strings.LastIndexByte(ev.Match.File, '/')+1:]
	}
	*all = append(*all, Line{ev.Match.Pattern, who, ev.Span, ev.N})
}

// Within are the lines of a pattern that may have been written in w, and how many of them surely were.
func (all Lines) Within(pattern string, w history.Span) (maybe Lines, surely int) {
	for _, l := range all {
		if l.Pattern != pattern || l.Span.To < w.From || l.Span.From > w.To {
			continue
		}
		maybe = append(maybe, l)
		if l.Span.From >= w.From && l.Span.To <= w.To {
			surely++
		}
	}
	return maybe, surely
}
