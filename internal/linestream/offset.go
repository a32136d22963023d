package linestream

import "github.com/lockdrill/lockdrill/history"

// drift is how fast two CLOCK_MONOTONICs may go apart: 200 ppm, one in 5000. A clock's crystal is good to 100 ppm or better; time
// services slew by less once they have settled.
const drift = 5000

// Offset is a bracket of what a pod's clock shows more than the runner's, in ns. It surely holds at the pod's instant At, and, widened
// by the drift, at any other.
type Offset struct {
	Lo, Hi int64
	At     int64 // on the pod's clock
}

// When is the offset's bracket at the pod's instant t.
func (o Offset) When(t int64) (lo, hi int64) {
	w := widening(o.At, t)
	return o.Lo - w, o.Hi + w
}

// Runner is the bracket, on the runner's clock, of an instant that lies in s on the pod's.
func (o Offset) Runner(s history.Span) history.Span {
	_, hi := o.When(s.From)
	lo, _ := o.When(s.To)
	return history.Span{From: s.From - hi, To: s.To - lo}
}

// widening is what the offset may have changed by between two instants of the pod, rounded up.
func widening(a, b int64) int64 {
	d := b - a
	if d < 0 {
		d = -d
	}
	return (d + drift - 1) / drift
}

// estimate narrows an Offset with every answered sync.
type estimate struct {
	Offset
	known bool
}

// add takes one sync: asked and heard are the runner's instants, pod is what the pod's clock showed in between. Answers come in the
// order of the pod's clock. ok is false where that contradicts what was known: a clock was set off, or drifts more than is allowed.
func (e *estimate) add(asked, pod, heard int64) (ok bool) {
	now := Offset{Lo: pod - heard, Hi: pod - asked, At: pod}
	if e.known {
		lo, hi := e.When(pod)
		now.Lo, now.Hi = max(now.Lo, lo), min(now.Hi, hi)
	}
	if now.Lo > now.Hi || e.known && pod < e.At {
		return false
	}
	e.Offset, e.known = now, true
	return true
}
