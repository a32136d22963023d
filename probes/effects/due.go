package effects

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// clockError is how far the clock that wrote an instant may be off this host's: nobody measures it, and a cluster's clocks agree better.
const clockError = time.Second

// due is the bracket of the instant from which on a job is owed, on the run's clock, of which at is the instant now: the later of the
// columns that the map names. nil = the row does not say. wrong says which column holds no instant.
func (m *Map) due(r Row, at int64, now time.Time) (due *history.Span, wrong string) {
	for _, column := range []string{m.Due, m.NotBefore} {
		text, ok := r.Get(column)
		if column == "" || !ok || text == "" {
			continue
		}
		t, err := instant(text)
		if err != nil {
			wrong = strconv.Quote(witness.Cut(text)) + " in column " + column + " is " + err.Error()
			continue
		}
		ahead := max(-farthest, min(farthest, t.Sub(now)))
		s := history.Span{From: max(0, at+int64(ahead-clockError)), To: max(0, at+int64(ahead+clockError))}
		if due == nil || due.From < s.From {
			due = &s
		}
	}
	return due, wrong
}

// farthest bounds how far ahead an instant is taken for: what says "never" may be thousands of years ahead.
const farthest = 100 * 365 * 24 * time.Hour

// errNoInstant says what an instant is.
var errNoInstant = errors.New("no instant: write RFC 3339 with a zone, or Unix time in seconds, milliseconds, microseconds or nanoseconds")

// layouts are those of texts: RFC 3339, and as databases write it.
var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07"}

// instant reads an instant. The unit of a bare number is the one by which it is after 1970 and before 5138.
func instant(text string) (time.Time, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		for _, layout := range layouts {
			if t, err := time.Parse(layout, text); err == nil {
				return t, nil
			}
		}
		return time.Time{}, errNoInstant
	}
	unit := float64(time.Second)
	for limit := 1e11; math.Abs(v) >= limit && unit > 1; limit *= 1000 {
		unit /= 1000
	}
	if v *= unit; math.IsNaN(v) || math.Abs(v) >= math.MaxInt64 {
		return time.Time{}, errNoInstant
	}
	return time.Unix(0, int64(v)), nil
}
