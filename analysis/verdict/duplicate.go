package verdict

import (
	"strings"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Duplicate is one job with more than one accepted terminal state.
type Duplicate struct {
	Lock        string    `json:"lock"`
	Job         string    `json:"job"`
	Extra       int       `json:"extra"`
	Kinds       []string  `json:"kinds"` // stale, repeated, unattributed; conflicting
	Resurrected bool      `json:"resurrected,omitempty"`
	Epochs      []string  `json:"epochs"`
	At          []float64 `json:"at"`
	// Writes are what happened at each of them, in their order; none in a verdict.json of an earlier lockdrill.
	Writes   []TerminalWrite `json:"writes,omitempty"`
	Evidence []int64         `json:"evidence"`
}

// Writers are who wrote, in their order: lives of replicas as their owner calls them, or as the run does.
func (d *Duplicate) Writers() []string {
	if len(d.Writes) == 0 {
		return d.Epochs
	}
	var by []string
	for i := range d.Writes {
		by = append(by, d.Writes[i].Writer())
	}
	return by
}

// Writer is who wrote, in words.
func (w *TerminalWrite) Writer() string {
	switch {
	case w.Called != "":
		return w.Called + " (" + w.Replica + ")"
	case w.Replica != "":
		return w.Replica
	}
	return "nobody known"
}

// TerminalWrite is one terminal state of a job that was applied, and what its writer had of the lock then. Times are seconds of the run.
type TerminalWrite struct {
	At        float64 `json:"at"`
	State     string  `json:"state"`
	Replica   string  `json:"replica,omitempty"`   // the writer's life; "" = not known
	Called    string  `json:"called,omitempty"`    // its owner's word for it
	Held      bool    `json:"held"`                // it surely held the key
	AfterEnd  *Range  `json:"afterEnd,omitempty"`  // how long after the end of its lease; nil = surely not after it, or not known
	Fault     string  `json:"fault,omitempty"`     // the shot that struck it under that lease
	Meanwhile string  `json:"meanwhile,omitempty"` // who surely held the key then, in words
}

// Sentence tells what happened, without a full stop. Values of keys are evidence, and not told.
func (d *Duplicate) Sentence() string {
	var parts []string
	for i := range d.Writes {
		parts = append(parts, d.Writes[i].sentence())
	}
	return "Job " + d.Job + " was finished " + strings.Join(parts, ", and ") + " (" + strings.Join(d.Kinds, ", ") + ")"
}

func (w *TerminalWrite) sentence() string {
	text := "at " + figures.Clock(figures.Nanoseconds(w.At)) + " by " + w.Writer()
	switch {
	case w.Held:
		return text + ", which held the lock"
	case w.AfterEnd == nil:
		return text
	}
	text += ", " + figures.Short(figures.Nanoseconds(w.AfterEnd.Lo)) + " after its lease had ended"
	if w.Fault != "" {
		text += " (fault " + w.Fault + ")"
	}
	switch w.Meanwhile {
	case "":
	case w.Writer():
		text += ", while it held the lock under another lease"
	default:
		text += ", while " + w.Meanwhile + " held the lock"
	}
	return text
}
