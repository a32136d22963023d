package experiments

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Marshal writes a resolved experiment as a file that stands alone: profiles expanded, defaults filled in, secrets out.
// Parse gives the same experiment back, whatever becomes of profiles and defaults later (but for secrets, SLO.Place and Lock.Place).
// A scaled experiment is refused: its file would no longer say so.
func Marshal(e *Experiment) ([]byte, error) {
	if e.Scaled != 0 {
		return nil, errors.New("marshal experiment: it is scaled already")
	}
	doc := file{APIVersion: "lockdrill/v1", Kind: "Experiment", Experiment: *e}
	return vocab.Text(vocabulary.Encode(&doc), "experiment")
}

// Comment is what a draft says of a value.
type Comment = vocab.Comment

// Blank is an experiment that says nothing: all is as its default.
func Blank() *Experiment {
	doc := file{}
	vocabulary.Default(&doc)
	return &doc.Experiment
}

// MarshalDraft writes an experiment as a person would, with comments by the paths of values: what is as its default is left out.
func MarshalDraft(e *Experiment, comments map[string]Comment) ([]byte, error) {
	doc := file{APIVersion: "lockdrill/v1", Kind: "Experiment", Experiment: *e}
	return vocabulary.Sparse(&doc, comments)
}

// MarshalDraftLock is MarshalDraft of one lock, as an entry of a list; its comments go by paths such as policy.ttl.
func MarshalDraftLock(l *Lock, comments map[string]Comment) ([]byte, error) {
	return vocabulary.Sparse(&[]Lock{*l}, comments)
}

// MarshalLock writes one lock as an entry of system.locks: with a policy of its own, whatever profile it came from.
func MarshalLock(l *Lock) ([]byte, error) {
	doc := struct{ Locks []Lock }{[]Lock{*l}}
	return vocab.Text(vocabulary.Encode(&doc), "lock")
}

// Scale gives e as it is run: the durations whose tag is `scale:"yes"` multiplied by e.TimeScale, rates divided by it. The result has
// TimeScale 1 and says in Scaled what was done; scaled again it is the same. e is not changed and shares no memory with the result.
func Scale(e *Experiment) *Experiment {
	if e.TimeScale <= 0 {
		panic(fmt.Sprintf("experiments: time scale %g: not an experiment that Load returned", e.TimeScale))
	}
	out := new(Experiment)
	vocab.Scale(out, e, e.TimeScale)
	out.TimeScale = 1
	if e.Scaled == 0 {
		out.Scaled = e.TimeScale
	}
	return out
}

// minOverhead is how many times a scaled timeout must exceed the p99 of what does not scale.
const minOverhead = 5

// CheckScale refuses a time scale at which a lock's op timeout or stop budget would be less than five times p99, the measured
// overhead that does not scale (round trips, timers): such a run would measure this machine and not the policy.
// e is scaled; at real time nothing is refused.
func CheckScale(e *Experiment, p99 time.Duration) error {
	scale := cmp.Or(e.Scaled, 1)
	if scale == 1 {
		return nil
	}
	least := minOverhead * p99
	for _, l := range e.System.Locks {
		for _, t := range []struct {
			name  string
			value time.Duration
		}{{"op timeout", l.Policy.OpTimeout}, {"stop budget", l.Policy.StopBudget}} {
			if t.value > 0 && t.value < least {
				return fmt.Errorf("time_scale %g makes the %s of lock %s %s, under %d times the overhead that does not scale (p99 %s): use at least %g",
					scale, t.name, l.Name, figures.Spell(t.value), minOverhead, figures.Spell(p99.Round(100*time.Microsecond)), roundUp(scale*float64(least)/float64(t.value)))
			}
		}
	}
	return nil
}

// roundUp gives a scale in thousandths, so that the advice holds.
func roundUp(scale float64) float64 { return math.Ceil(scale*1000) / 1000 }
