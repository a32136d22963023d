package probes

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/lockdrill/lockdrill/history"
)

const (
	// LogsName is what the probe is called in coverage and gap events.
	LogsName   = "logs"
	sourceLogs = "probe:logs"
	maxMatches = 10_000 // of a run: more are a pattern that matches too much, and no evidence but that
)

// PodLogs matches lines of the pods' logs against named patterns. It reads none itself: whoever follows the logs hands it each line
// once, and each stretch in which one was not followed. Its looks give what came since the last one; all methods may be called at any
// time.
type PodLogs struct {
	names    []string
	patterns []*regexp.Regexp
	redact   func(string) string

	mu      sync.Mutex
	pending []history.Event
	matches int
}

// NewPodLogs returns a probe of patterns by their names. redact takes secrets out of a line before it is kept.
func NewPodLogs(patterns map[string]string, redact func(string) string) (*PodLogs, error) {
	p := &PodLogs{redact: redact}
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		r, err := regexp.Compile(patterns[name])
		if err != nil {
			return nil, fmt.Errorf("pattern %s: %w", name, err)
		}
		p.names, p.patterns = append(p.names, name), append(p.patterns, r)
	}
	return p, nil
}

// Line takes a line of the log of a life, written within at.
func (p *PodLogs) Line(incarnation string, line []byte, at history.Span) {
	for i, r := range p.patterns {
		if !r.Match(line) {
			continue
		}
		text := cut(p.redact(string(line)))
		p.add(history.Event{Kind: history.LogMatch, Span: at, Source: incarnation, Match: &history.Match{Pattern: p.names[i], Text: text}})
	}
}

// Cut takes a stretch in which the log of a life that lived was not followed: no line of it is no word.
func (p *PodLogs) Cut(whose string, gap history.Span) {
	why := "the log of " + whose + " was not followed"
	p.add(history.Event{Kind: history.GapKind, Span: gap, Source: sourceLogs, Coverage: &history.Coverage{Probe: LogsName, Why: why, Largest: gap.Width()}})
}

func (p *PodLogs) add(e history.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Match != nil {
		p.matches++
		if p.matches > maxMatches {
			return
		}
	}
	p.pending = append(p.pending, e)
}

// Look gives what came since the last look whose function was called. It fails for good once more matched than a run keeps.
func (p *PodLogs) Look(context.Context, bool) (func(history.Span) []history.Event, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.matches > maxMatches && len(p.pending) == 0 {
		return nil, fmt.Errorf("over %d lines matched: what came after them is not kept", maxMatches)
	}
	n := len(p.pending)
	return func(history.Span) []history.Event {
		p.mu.Lock()
		defer p.mu.Unlock()
		events := p.pending[:n:n]
		p.pending = p.pending[n:]
		return events
	}, nil
}
