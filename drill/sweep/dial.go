// Package sweep raises one dial of an experiment, step by step, until a promise breaks or the machine that drills does, and says between
// which two values. It runs nothing itself: a step is handed in.
package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// Dials that can be turned.
const (
	Rate     = "rate"     // jobs a second
	Replicas = "replicas" // of the system
	Hold     = "hold"     // the median of a job's work, in seconds; its p99 keeps the same ratio
)

// Range is a dial and how far it is turned.
type Range struct {
	Dial     string
	Lock     string // whose stream of jobs; "" for replicas
	From, To float64
}

// Parse reads FROM..TO of a dial: 10/s..200/s, 3..12, 50ms..2s.
func Parse(dial, text string) (Range, error) {
	r := Range{Dial: dial}
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		return r, fmt.Errorf("%s=%s: want FROM..TO, such as %s", dial, text, examples[dial])
	}
	for _, side := range []struct {
		text string
		into *float64
	}{{from, &r.From}, {to, &r.To}} {
		v, err := valueOf(dial, side.text)
		if err != nil {
			return r, fmt.Errorf("%s=%s: %w", dial, text, err)
		}
		*side.into = v
	}
	if r.From >= r.To {
		return r, fmt.Errorf("%s=%s: the second value must be above the first", dial, text)
	}
	return r, nil
}

var examples = map[string]string{Rate: "10/s..200/s", Replicas: "3..12", Hold: "50ms..2s"}

func valueOf(dial, text string) (float64, error) {
	switch dial {
	case Rate:
		return experiments.ParseRate(text)
	case Replicas:
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%q is no number of replicas", text)
		}
		return float64(n), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no duration above 0: write it like 50ms or 2s", text)
	}
	return d.Seconds(), nil
}

// For fixes whose stream of jobs is meant. An error says what the file has instead.
func (r Range) For(e *experiments.Experiment, lock string) (Range, error) {
	if r.Dial == Replicas {
		if lock != "" {
			return r, fmt.Errorf("--lock %s: --replicas is of the whole system and takes no lock", lock)
		}
		return r, nil
	}
	var streams []string
	for i := range e.System.Work {
		streams = append(streams, e.System.Work[i].Lock)
	}
	switch {
	case len(streams) == 0:
		return r, fmt.Errorf("--%s: %s has no stream of jobs (system.work) whose %s could be raised", r.Dial, e.Name, r.Dial)
	case lock == "" && len(streams) == 1:
		lock = streams[0]
	case !slices.Contains(streams, lock):
		return r, fmt.Errorf("--lock %q: name one that has a stream of jobs: %s", lock, strings.Join(streams, ", "))
	}
	r.Lock = lock
	return r, nil
}

// At is e with the dial at v. A stream is offered for as long as before, so at a higher rate it has more jobs; a run gets more time where
// its jobs take longer.
func (r Range) At(e *experiments.Experiment, v float64) (*experiments.Experiment, error) {
	at := *e
	if r.Dial == Replicas {
		at.System.Replicas = int(v)
	} else {
		at.System.Work = slices.Clone(e.System.Work)
		w := at.WorkUnder(r.Lock)
		if r.Dial == Rate {
			w.Jobs = max(1, int(math.Round(float64(w.Jobs)*v/w.Rate)))
			w.Rate = v
		} else {
			by := v / w.Hold.P50.Seconds()
			longer := func(d time.Duration) time.Duration { return time.Duration(float64(d) * by) }
			at.Limits.MaxRun += max(0, 10*(longer(w.Longest())-w.Longest()))
			w.Hold.P50, w.Hold.P99 = longer(w.Hold.P50), longer(w.Hold.P99)
			w.Classes = slices.Clone(w.Classes)
			for i, k := range w.Classes {
				if k.Hold != nil {
					w.Classes[i].Hold = &experiments.Hold{P50: longer(k.Hold.P50), P99: longer(k.Hold.P99)}
				}
			}
		}
	}
	text, err := experiments.Marshal(&at)
	if err != nil {
		return nil, err
	}
	again, err := experiments.Parse(e.Name, text) // the same checks as any file's
	if err != nil {
		return nil, fmt.Errorf("with %s at %s: %w", r.Dial, Value(r.Dial, v), err)
	}
	return again, nil
}

// Value writes a value of a dial as its flag takes it.
func Value(dial string, v float64) string {
	switch dial {
	case Rate:
		return strconv.FormatFloat(v, 'f', -1, 64) + "/s"
	case Replicas:
		return strconv.Itoa(int(v))
	}
	return time.Duration(math.Round(v*1e6) * 1e3).String()
}

// tidy rounds a value to what a dial can be set to and a reader can remember: three digits, or a whole replica.
func (r Range) tidy(v float64) float64 {
	if r.Dial == Replicas {
		return math.Round(v)
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		panic(err) // it was written right before
	}
	return short
}

// steps are n values from From to To, each the same factor above the one before.
func (r Range) steps(n int) []float64 {
	var out []float64
	for i := range n {
		v := r.tidy(r.From * math.Pow(r.To/r.From, float64(i)/float64(n-1)))
		if i == 0 {
			v = r.From
		} else if i == n-1 {
			v = r.To
		}
		if len(out) == 0 || v > out[len(out)-1] {
			out = append(out, v)
		}
	}
	return out
}
