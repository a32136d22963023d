package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Record is what reports tell of a history itself, gathered while it passes by: what the run did, whole, and the story of it. Of the
// replicas' part of the story it has the beginning; single events are read again.
type Record struct {
	Header  history.Header
	count   int64            // events
	done    []*history.Event // of the run itself: what it stood on, its faults but not what they hit, its clean-up and its end
	story   *Story
	told    []logged // lines of the story, in their order
	heard   int      // of these, what replicas said
	lines   int      // of the story: also those that told has not
	moments []moment // those that matter afterwards
	find    Finder
}

// Finder reads events again, by their numbers, and shows each of them once, in their order.
type Finder func(numbers []int64, see func(*history.Event)) error

// NewRecord is a record of a run of e, to which each of its events is to be shown.
func NewRecord(e *experiments.Experiment, h history.Header, find Finder) *Record {
	return &Record{Header: h, story: NewStory(e), find: find}
}

// RecordOf is the record of what is in memory.
func RecordOf(e *experiments.Experiment, h *history.History) *Record {
	r := NewRecord(e, h.Header, func(numbers []int64, see func(*history.Event)) error {
		for _, n := range slices.Compact(slices.Sorted(slices.Values(numbers))) {
			see(&h.Events[n-1])
		}
		return nil
	})
	for i := range h.Events {
		r.See(&h.Events[i])
	}
	return r
}

// heardAtMost bounds what is kept of the replicas' part of the story: the event log has room for fewer lines, even where many of these
// are pointed at besides.
const heardAtMost = 4 * mostEvents

// See takes in the next event.
func (r *Record) See(e *history.Event) {
	r.count++
	if e.Environment != nil || e.Calibration != nil || e.Note != nil || e.Fault != nil && e.Kind != history.FaultHit {
		r.done = append(r.done, e)
	}
	l := logged{n: e.N, at: e.To, rank: rankOf(e)}
	if l.who, l.what = r.story.next(e); l.what == "" {
		return
	}
	r.lines++
	if matters(e) {
		r.moments = append(r.moments, moment{e.To, l.who + ": " + l.what})
	}
	if l.rank == ofReplicas {
		if r.heard++; r.heard > heardAtMost {
			return
		}
	}
	r.told = append(r.told, l)
}

// Ranks of lines of the event log.
const (
	evident = iota
	ofTheRun
	ofReplicas
)

func rankOf(e *history.Event) int {
	if strings.HasPrefix(e.Source, "runner") || e.Fault != nil || e.Replica != nil || e.Coverage != nil {
		return ofTheRun
	}
	return ofReplicas
}

// again is the line of an event that the story is past: that of the story, or, as a new one, what the event records.
func (r *Record) again(e *history.Event) (l logged, new bool) {
	l = logged{n: e.N, at: e.To, who: e.Source, rank: evident}
	if e.Call != nil || e.Abandon != nil || e.Entry != nil { // what the story says of these depends on nothing before them
		l.who, l.what = r.story.describe(e)
	}
	if new = l.what == ""; new {
		l.who, l.what = e.Source, eventText(e)
	}
	return l, new
}

// events finds events again.
func (r *Record) events(numbers []int64, see func(*history.Event)) error {
	if err := r.find(numbers, see); err != nil {
		return fmt.Errorf("read the history again: %w", err)
	}
	return nil
}
