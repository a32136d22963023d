package signals

import "github.com/lockdrill/lockdrill/history"

// Alarm is what looks showed of an alert from an instant on. A change lies between the last look that did not show it and the first that
// did.
type Alarm struct {
	Before   bool          // it fired already
	Fired    *history.Span // the first change to firing
	Resolved *history.Span // the last change to silence, if that lasted
	N        []int64       // the samples
}

// Alarm follows the alert's instances whose labels match, from at until another instant.
func (t *Target) Alarm(match func(map[string]string) bool, at, until int64) (a Alarm) {
	fires := false
	for _, p := range t.Points {
		if p.Span.To > until {
			break
		}
		was := fires
		fires = false
		for _, v := range p.Series {
			fires = fires || match(v.Labels)
		}
		if p.Span.To <= at {
			a.Before = fires
			continue
		}
		change := p.Span
		if p.Prev != nil {
			change.From = p.Prev.From
		}
		switch {
		case fires && !was && a.Fired == nil:
			a.Fired = &change
		case !fires && was:
			a.Resolved = &change
		}
		if fires {
			a.Resolved = nil
		}
		if fires != was {
			a.N = append(a.N, p.N)
		}
	}
	return a
}
