package timeline

import (
	"cmp"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// closeUp is the close-up of one takeover in the making.
type closeUp struct {
	l      *verdict.Lanes
	t      *verdict.TrialLane
	c      *canvas
	s      scale
	zero   float64 // the instant that the axis counts from
	owners owners
	y      float64

	measured                                        float64 // where the bars of the parts end
	owner                                           row     // names in the lane of the key
	refused, folded                                 int     // attempts, and of these those that are drawn as one with another
	crossed, held, silent, ghosts, overruns, paused bool    // what the legend must explain
	goneObject                                      bool    // likewise
}

// closeup draws what one fault did to one lock: the longest takeover in full, and the bars of the other keys.
func closeup(l *verdict.Lanes, s *strike) Picture {
	t := s.trials[0]
	id := "trial-" + count(t.Number)
	x := &closeUp{l: l, t: t, c: newCanvas(id), zero: mid(t.Clock), owners: ownersOf(l), y: 4}
	if t.Struck != nil {
		x.zero = mid(*t.Struck)
	}
	x.frame(s)
	p := Picture{ID: id, Title: trialTitle(s), Desc: trialDesc(t), Columns: trialColumns}
	x.fault()
	top := x.y
	x.holds()
	x.lives()
	x.dimension()
	x.others(s.trials[1:])
	if x.folded > 0 {
		x.y += 14
	}
	x.guides(top, x.y)
	x.c.axis(x.s, top, x.y, "time from the fault"+scaled(l.TimeScale), signed)
	p.SVG = x.c.finish(p.Title, p.Desc, x.legend(x.y+40)+8)
	p.Rows = trialRows(s.trials)
	return p
}

func trialTitle(s *strike) string {
	t := s.trials[0]
	name := cmp.Or(s.fault, "change of owner without a fault")
	title := "Takeover " + count(t.Number) + ": " + name + ", lock " + s.lock + ", " + about(t.Whole())
	if n := len(s.trials); n > 1 {
		title += " (the longest of " + figures.Plural(n, "key") + ")"
	}
	return title
}

func trialDesc(t *verdict.TrialLane) string {
	s := "From " + t.Victim + " to " + cmp.Or(t.Successor, "nobody yet") + ": " + bracket(t.Whole())
	if t.Residual != nil {
		s += ", residual " + bracket(*t.Residual)
	}
	if t.Pickup != nil {
		s += ", pickup " + bracket(*t.Pickup)
	}
	if t.Warmup != nil {
		s += ", warm-up " + bracket(*t.Warmup)
	}
	return s + "; " + t.Class + ", ended by " + t.Takeover.End + "."
}

// frame chooses what is shown: from the victim's last extension, if it is not long past, until after the end.
func (x *closeUp) frame(s *strike) {
	t := x.t
	from, to := x.zero, mid(t.Clock)
	if t.Residual != nil && !t.Held.End.Open() {
		to = max(to, mid(t.Held.End))
	}
	if t.Next != nil {
		to = max(to, mid(t.Next.Granted))
	}
	seen := to
	for _, o := range s.trials {
		if o.Ended != nil {
			to = max(to, mid(*o.Ended))
		} else { // it goes on for long: what is known must not shrink to a line beside it
			to = max(to, o.Until)
		}
	}
	if t.Ended == nil && seen > from {
		to = min(to, from+4*(seen-from))
	}
	length := max(to-from, 1e-4)
	last := mid(t.Held.Granted)
	if t.Renewed != nil {
		last = max(last, mid(*t.Renewed))
	}
	before := min(max(from-last, 0)*1.15, length*0.6)
	before = max(before, length*0.12)
	x.s = scale{from - before - x.zero, to + length*0.14 - x.zero, left, right}
}

// px is where an instant of the run lies.
func (x *closeUp) px(m verdict.Moment) float64 { return x.s.x(mid(m) - x.zero) }

// until is px of an end; the right edge where it was never seen.
func (x *closeUp) until(m verdict.Moment) float64 {
	if m.Open() {
		return right
	}
	return x.px(m)
}

// in reports whether the instant is within the frame.
func (x *closeUp) in(m verdict.Moment) bool { return x.s.has(mid(m) - x.zero) }

// signed names a tick of an axis that counts from the fault.
func signed(t, step, largest float64) string {
	text := tickText(t, step, largest)
	if t > step/2 {
		text = "+" + text
	}
	return text
}

func (x *closeUp) name(y float64, name, under string) {
	x.c.text("ink", end, left-8, y, sizeLabel, gutter-16, name)
	if under != "" {
		x.c.text("dim", end, left-8, y+13, sizeSmall, gutter-16, under)
	}
}
