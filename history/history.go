// Package history is the spine of lockdrill: the one record that a run writes and every later stage reads.
//
// A history is a header line followed by events, one JSON document a line, append-only. It states what was
// claimed, seen and done, each with a bracket of time that surely contains the true instant; it never states a
// conclusion (those are computed by package analysis, from this record alone). It is not a log for humans.
//
// Its one invariant: the order number N and the recording stamp At are given in one critical section, so the file
// order is the order of recording, and an event that passed Check on the way out passes it on the way in.
package history

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// SchemaVersion is the version of the history format that this package writes. It reads that one and all before it, back to 1: a later
// one has kinds of events that an earlier one has not.
const SchemaVersion = 3

// SchemaNumbered is the first schema in which the events of a stream are numbered, and in which what could not be read is told. From a
// history of a schema before it nothing follows about either.
const SchemaNumbered = 3

// Span is a closed bracket of time, in nanoseconds on the runner's monotonic clock since the run's origin, that surely
// contains the true instant of what it describes. From == To means an instant known exactly.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// At returns the degenerate bracket of an instant that is known exactly.
func At(ns int64) Span { return Span{ns, ns} }

// Width is the uncertainty of the instant, in nanoseconds.
func (s Span) Width() int64 { return s.To - s.From }

// Add shifts both ends by d nanoseconds.
func (s Span) Add(d int64) Span { return Span{s.From + d, s.To + d} }

// Intersect narrows s by o. ok is false where the two have no instant in common: then they contradict one another.
func (s Span) Intersect(o Span) (_ Span, ok bool) {
	r := Span{max(s.From, o.From), min(s.To, o.To)}
	return r, r.From <= r.To
}

// Before reports whether every instant of s is strictly earlier than every instant of o.
func (s Span) Before(o Span) bool { return s.To < o.From }

func (s Span) String() string {
	return fmt.Sprintf("[%.6fs, %.6fs]", float64(s.From)/1e9, float64(s.To)/1e9)
}

// Outcome is what is known about the effect of an operation.
type Outcome string

const (
	OK      Outcome = "ok"      // surely took effect as asked
	Fail    Outcome = "fail"    // surely had no effect
	Unknown Outcome = "unknown" // the effect is not known: a timeout, a lost reply, an error after sending
)

// How a bracket came about: the value of Event.Clock.
const (
	ClockRunner = "runner" // taken by the runner itself
	ClockShared = "shared" // CLOCK_MONOTONIC of a process on the same Linux host: no error of its own
	ClockBounds = "bounds" // another machine or another clock, widened to bounds
)

// Header is the first line of a history.
type Header struct {
	Schema     int     `json:"schema"`
	Tool       string  `json:"tool"`               // "lockdrill 0.1.0"
	Run        string  `json:"run"`                // run id, unique
	Experiment string  `json:"experiment"`         // name
	Digest     string  `json:"digest"`             // "sha256:..." of the resolved experiment.yaml in the run's folder
	Seed       int64   `json:"seed"`               // of every choice that the run made
	Mode       Mode    `json:"mode"`               // live, or a rehearsal in virtual time
	TimeScale  float64 `json:"time_scale"`         // 1 = real durations
	Started    string  `json:"started"`            // wall time of the origin, RFC 3339 UTC: a label, never an operand
	Labels     Labels  `json:"labels,omitempty"`   // what the run was said to be of: release=1.4
	Recorded   string  `json:"recorded,omitempty"` // set on histories that were made by hand (fixtures): says what they show
}

// Labels say what a run is of, in the words of whoever started it. They are given before the run, and nothing in it depends on them.
type Labels map[string]string

// String is the labels as they are given: release=1.4,site=eu, sorted.
func (l Labels) String() string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(l)) {
		all = append(all, k+"="+l[k])
	}
	return strings.Join(all, ",")
}

// Add takes KEY=VALUE.
func (l Labels) Add(label string) error {
	key, value, ok := strings.Cut(label, "=")
	switch {
	case !ok || !labelKey().MatchString(key):
		return fmt.Errorf("label %q: must be KEY=VALUE, with a key of letters, digits, '.', '_' and '-'", label)
	case value == "" || len(value) > mostLabel || strings.ContainsFunc(value, func(r rune) bool { return r == ',' || !unicode.IsPrint(r) }):
		return fmt.Errorf("label %q: the value must be 1 to %d printable characters without a comma", label, mostLabel)
	case l[key] != "" && l[key] != value:
		return fmt.Errorf("label %s: given twice, as %s and as %s", key, l[key], value)
	}
	l[key] = value
	return nil
}

var labelKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`) })

// mostLabel is the length of a label's value.
const mostLabel = 200

// Mode says how a history came to be.
type Mode string

const (
	Live      Mode = "live"
	Rehearsal Mode = "rehearsal"
)

// Event is one line: an envelope, and at most one typed body, the one that its kind calls for.
type Event struct {
	N    int64 `json:"n"`
	Kind Kind  `json:"kind"`
	Span
	At      int64   `json:"at"`                // when the line was recorded: ns since the origin, never decreasing
	Source  string  `json:"source"`            // who testifies: "runner", "probe:lock_keys", "ledger", or an incarnation ("r1.2")
	Clock   string  `json:"clock,omitempty"`   // how the bracket was taken; empty means ClockRunner
	Lock    string  `json:"lock,omitempty"`    // the experiment's name of the lock (a group of keys that share one policy)
	Key     string  `json:"key,omitempty"`     // the lock key, without the run's prefix
	Epoch   string  `json:"epoch,omitempty"`   // fingerprint of the epoch's token (see Fingerprint in lockcore)
	Fence   int64   `json:"fence,omitempty"`   // minted with the epoch; 0 = not known
	Op      string  `json:"op,omitempty"`      // pairs .invoke with .return, enter with exit; names an effect at the ledger
	Outcome Outcome `json:"outcome,omitempty"` // on every .return
	Seq     int64   `json:"seq,omitempty"`     // since schema 3: 1, 2, 3 ... within the event's Stream; 0 = of a kind that is not numbered

	Environment *Environment `json:"environment,omitempty"`
	Calibration *Calibration `json:"calibration,omitempty"`
	Prediction  *Prediction  `json:"prediction,omitempty"`
	Phase       *Phase       `json:"phase,omitempty"`
	Note        *Note        `json:"note,omitempty"`
	Incarnation *Incarnation `json:"incarnation,omitempty"`
	Replica     *Replica     `json:"replica,omitempty"`
	Job         *Job         `json:"job,omitempty"`
	Call        *Call        `json:"call,omitempty"`
	Abandon     *Abandon     `json:"abandon,omitempty"`
	Work        *Work        `json:"work,omitempty"`
	Write       *Write       `json:"write,omitempty"`
	Entry       *Entry       `json:"entry,omitempty"`
	Look        *Look        `json:"look,omitempty"`
	Coverage    *Coverage    `json:"coverage,omitempty"`
	Sample      *Sample      `json:"sample,omitempty"`
	Fault       *Fault       `json:"fault,omitempty"`
	Match       *Match       `json:"match,omitempty"`
	Object      *Object      `json:"object,omitempty"`
	Late        *Late        `json:"late,omitempty"`
	Unread      *Unread      `json:"unread,omitempty"`
	Belief      *Belief      `json:"belief,omitempty"`
}
