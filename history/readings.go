package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// What sources say of numbers and of leaders, and what they said that nobody could read.

// Sample is the body of sample: what one look at one target showed of one declared metric. A target is written whenever its values
// have changed or its answer has, and in the final look.
type Sample struct {
	Metric string `json:"metric"`         // name in the experiment
	Target string `json:"target"`         // incarnation, or "endpoint" where the experiment names an address
	Type   string `json:"type,omitempty"` // counter, gauge, histogram ...: as the target says; "" = it does not
	// Values of the series that match. Empty, and not Gone: the target has no such series.
	Values []Value `json:"values,omitempty"`
	Gone   string  `json:"gone,omitempty"` // why there is no answer: exited, no_metrics, timeout, refused, unreadable
	Final  bool    `json:"final,omitempty"`
	// Why says more about Gone to a person: "HTTP 401", "line 3: expected a number". Since schema 3.
	Why string `json:"why,omitempty"`
	// Partial says what the answer itself said that it lacks, by its warnings or because it is partial: then the values are not all that
	// there is, and absence means nothing. "" = it is whole. Since schema 3.
	Partial string `json:"partial,omitempty"`
	// Prev is the last look that still showed the values before; nil on the target's first sample.
	Prev *Span `json:"prev,omitempty"`
}

// AlertsFiring is the Metric of samples about alerts, which no experiment can call one: the Target is the alert's name, and the values are
// its instances that fire, by their labels.
const AlertsFiring = "alerts:firing"

// Value is one series of a sample.
type Value struct {
	Labels map[string]string `json:"labels,omitempty"`
	Value  Number            `json:"value"` // NaN and infinite only since schema 3
}

// Number is a number as a source gave it: NaN and the infinities, for which JSON has no numbers, are the strings "NaN", "+Inf" and "-Inf".
type Number float64

// MarshalJSON is for encoding/json.
func (x Number) MarshalJSON() ([]byte, error) {
	switch f := float64(x); {
	case math.IsNaN(f):
		return []byte(`"NaN"`), nil
	case math.IsInf(f, 1):
		return []byte(`"+Inf"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Inf"`), nil
	default:
		return json.Marshal(f)
	}
}

// UnmarshalJSON is for encoding/json.
func (x *Number) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"NaN"`:
		*x = Number(math.NaN())
	case `"+Inf"`:
		*x = Number(math.Inf(1))
	case `"-Inf"`:
		*x = Number(math.Inf(-1))
	default:
		var f float64
		if err := json.Unmarshal(text, &f); err != nil {
			return fmt.Errorf("a value is a number, \"NaN\", \"+Inf\" or \"-Inf\": %w", err)
		}
		*x = Number(f)
	}
	return nil
}

// Same reports that s shows what o does: where a look shows it again, nothing has changed. NaN is the same as NaN.
func (s Sample) Same(o Sample) bool {
	return s.Target == o.Target && s.Type == o.Type && s.Gone == o.Gone && s.Why == o.Why && s.Partial == o.Partial &&
		slices.EqualFunc(s.Values, o.Values, func(a, b Value) bool {
			return reflect.DeepEqual(a.Labels, b.Labels) && (a.Value == b.Value || a.Value != a.Value && b.Value != b.Value)
		})
}

func (s *Sample) check() error {
	switch {
	case s.Metric == "" || s.Target == "":
		return errors.New("sample needs metric and target")
	case s.Gone != "" && (len(s.Values) > 0 || s.Partial != ""):
		return errors.New("a target that is gone has no values")
	case s.Gone == "" && s.Why != "":
		return errors.New("why is for a target that is gone")
	}
	return nil
}

// Words of Sample.Gone.
const (
	GoneExited     = "exited"     // the replica is dead: there will be no answer any more
	GoneNoMetrics  = "no_metrics" // the replica has announced none
	GoneTimeout    = "timeout"    //
	GoneRefused    = "refused"    // nobody listens, or the connection broke
	GoneUnreadable = "unreadable" // the answer is no exposition
	GoneStale      = "stale"      // a Prometheus server has scraped nothing of it lately
)

// Unread is the body of unread: records that a source gave, or may have given, and that could not be read. The envelope's span is the
// bracket in which they were written, as far as that is known: any of them may say anything about that time.
type Unread struct {
	Source string       `json:"source"` // whose records: what coverage events call its probe, "effects:NAME", "logs" ...
	Count  int64        `json:"count"`  // how many, at least
	Reason UnreadReason `json:"reason"`
	Detail string       `json:"detail,omitempty"` // one sentence for a person: what is wrong with the first
	First  string       `json:"first,omitempty"`  // the position of the first, as the source spells it: a line's number, an entry's id
	Last   string       `json:"last,omitempty"`   // of the last, where that is another
}

// UnreadReason is why records could not be read.
type UnreadReason string

const (
	Unparsable UnreadReason = "unparsable" // it is no record of the form that the experiment declares
	CutOff     UnreadReason = "cut"        // it is longer than what is read of one, or its end never came
	Passed     UnreadReason = "passed"     // the source has dropped it before it was read
)

func (u *Unread) check() error {
	switch {
	case u.Source == "" || u.Count <= 0:
		return errors.New("unread needs source and count > 0")
	case !slices.Contains([]UnreadReason{Unparsable, CutOff, Passed}, u.Reason):
		return fmt.Errorf("reason %q is none of unparsable, cut, passed", u.Reason)
	}
	return nil
}

// Belief is the body of belief: what a source of an observed replica says of whether it leads, under the envelope's lock and, where it
// says that, key. One is written when that has changed, and in the final look; coverage events call the probe BeliefProbe. The envelope's
// span is the look that first showed it, and Prev the last that showed what was before: the change lies in between. Where the source told
// of the change itself (a line of a log), Direct is set, and the span is the change's own.
type Belief struct {
	Incarnation string `json:"incarnation,omitempty"` // the life that speaks; "" = none that is known
	Named       string `json:"named,omitempty"`       // as the source spells it
	Holds       bool   `json:"holds"`                 // it says that it leads; false = that it does not, or, with Gone, nothing
	By          string `json:"by"`                    // metric, log, http, command
	Gone        string `json:"gone,omitempty"`        // it cannot be asked: one of Sample's words
	Why         string `json:"why,omitempty"`         // more about that for a person
	Prev        *Span  `json:"prev,omitempty"`        // nil on the first look
	Direct      bool   `json:"direct,omitempty"`
	Final       bool   `json:"final,omitempty"`
}

// BeliefProbe is what the probe of a lock's belief is called in coverage events.
func BeliefProbe(lock string) string { return "belief:" + lock }

func (b *Belief) check(e *Event) error {
	switch {
	case e.Lock == "":
		return errors.New("lock must be named")
	case b.Incarnation == "" && b.Named == "":
		return errors.New("belief needs incarnation or named")
	case b.By == "":
		return errors.New("belief needs by")
	case b.Gone != "" && b.Holds:
		return errors.New("who cannot be asked does not say that it holds")
	}
	return nil
}
