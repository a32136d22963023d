package probes

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/stores/witness"
)

const (
	// LogsName is what the probe is called in coverage and gap events.
	LogsName   = "logs"
	sourceLogs = "probe:logs"
	maxMatches = 10_000 // of a run: more are a pattern that matches too much, and no evidence but that
)

// Logs matches lines of logs against named patterns. Those of pods are handed to it by whoever follows them, each line once, and each
// stretch in which one was not followed; files it reads itself, in its looks. Its looks give what came since the last one; all methods
// may be called at any time.
type Logs struct {
	names    []string
	patterns []*regexp.Regexp
	redact   func(string) string
	files    *follow.Files // nil = none
	inbox    Inbox
}

// NewLogs returns a probe of patterns by their names. redact takes secrets out of a line before it is kept.
func NewLogs(patterns map[string]string, redact func(string) string) (*Logs, error) {
	p := &Logs{redact: redact, inbox: Inbox{Probe: LogsName, Source: sourceLogs, Full: "matched", Most: maxMatches}}
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		r, err := regexp.Compile(patterns[name])
		if err != nil {
			return nil, fmt.Errorf("pattern %s: %w", name, err)
		}
		p.names, p.patterns = append(p.names, name), append(p.patterns, r)
	}
	return p, nil
}

// LogFiles says which files are read.
type LogFiles struct {
	Bus   *follow.Bus // on which others want files, too; nil = nobody does
	Globs []string
	Want  func(path string) bool // nil = all that match
	Clock func() int64
	// Writer is the life that writes to a file, and since when it surely does; "" = not known.
	Writer func(path string) (incarnation string, since int64)
}

// Follow lets looks read files, from where they end now. The error says which one cannot be read.
func (p *Logs) Follow(o LogFiles) error {
	p.files = o.Bus.Follow(follow.Options{
		Globs: o.Globs, Want: o.Want, Clock: o.Clock,
		Line: func(path string, l follow.Line) {
			p.line(func() string {
				if who, since := o.Writer(path); who != "" && since <= l.At.From { // else the life before it may have written that
					return who
				}
				return sourceLogs
			}, path, l)
		},
		Gap: p.inbox.FileGap,
	})
	return p.files.Read(false)
}

// Close closes the files.
func (p *Logs) Close() error {
	if p.files != nil {
		p.files.Close()
	}
	return nil
}

// Line takes a line of the log of a life.
func (p *Logs) Line(incarnation string, l follow.Line) {
	p.line(func() string { return incarnation }, "", l)
}

func (p *Logs) line(source func() string, file string, l follow.Line) {
	unsure := false
	for i, r := range p.patterns {
		text, at := l.Find(r)
		if at == nil {
			unsure = unsure || l.Cut // what nobody read of it may match
			continue
		}
		p.inbox.Found(history.Event{Kind: history.LogMatch, Span: l.At, Source: source(), Match: &history.Match{Pattern: p.names[i], Text: witness.Cut(p.redact(string(text))), File: file}})
	}
	if unsure {
		p.inbox.Cut(l.At)
	}
}

// Cut takes a stretch in which the log of a life that lived was not followed: no line of it is no word.
func (p *Logs) Cut(whose string, gap history.Span) {
	p.inbox.Gap(gap, "the log of "+whose+" was not followed", false)
}

// Look gives what came since the last look whose function was called. It fails for good once more matched than a run keeps.
func (p *Logs) Look(_ context.Context, final bool) (func(history.Span) []history.Event, error) {
	if p.files != nil {
		if err := p.files.Read(final); err != nil {
			return nil, err
		}
	}
	take, err := p.inbox.Look()
	return func(history.Span) []history.Event { return take() }, err
}
