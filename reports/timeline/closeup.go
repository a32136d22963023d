package timeline

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

const (
	maxLives  = 6  // replicas in a close-up
	maxOthers = 12 // further keys that the same fault struck
)

// closeup draws what one fault did to one lock: the longest takeover in full, and the bars of the other keys.
func closeup(l *Lanes, s *strike) Picture {
	t := s.trials[0]
	zero := mid(t.Clock)
	if t.Struck != nil {
		zero = mid(*t.Struck)
	}
	from, to := frame(s, zero)
	w := newWindow(closeupID(s), l, from, to)
	w.trial = t
	w.faults()
	top := w.y
	is := w.instants(zero)
	lane := w.y + 30
	w.named(is, w.y+12, lane)
	w.y = lane
	if key := keyOf(l, t); key != nil {
		w.holds(t.Lock, key)
	}
	bars := w.y + 9
	w.divided()
	w.others(s.trials[1:])
	w.involved()
	w.shade(lane, w.y)
	w.guides(is, top+26, bars)
	return w.finish(Picture{Title: trialTitle(s), Desc: trialDesc(t), Columns: trialColumns, Rows: rowsOf(s.trials, trialRow)}, top, zero)
}

func keyOf(l *Lanes, t *TrialLane) *KeyLane {
	for i := range l.Locks {
		for k := range l.Locks[i].Keys {
			if key := &l.Locks[i].Keys[k]; l.Locks[i].Lock == t.Lock && key.Key == t.Key {
				return key
			}
		}
	}
	return nil
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

func trialDesc(t *TrialLane) string {
	s := "From " + t.Victim + " to " + cmp.Or(t.Successor, "nobody yet") + ": " + bracket(t.Whole())
	for _, p := range t.Parts() {
		if p.Long != nil {
			s += ", " + p.Name + " " + bracket(*p.Long)
		}
	}
	return s + "; " + t.Class + ", ended by " + t.Takeover.End + "."
}

// frame chooses what is shown: from the victim's last extension, if it is not long past, until after the end.
func frame(s *strike, zero float64) (from, to float64) {
	t := s.trials[0]
	to = mid(t.Clock)
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
	if t.Ended == nil && seen > zero {
		to = min(to, zero+4*(seen-zero))
	}
	length := max(to-zero, 1e-4)
	last := mid(t.Held.Granted)
	if t.Renewed != nil {
		last = max(last, mid(*t.Renewed))
	}
	before := max(min(max(zero-last, 0)*1.15, length*0.6), length*0.12)
	return zero - before, to + length*0.14
}

// signed names a tick of an axis that counts from the fault.
func signed(t, step, largest float64) string {
	text := tickText(t, step, largest)
	if t > step/2 {
		text = "+" + text
	}
	return text
}

// instant is one that a takeover was measured from.
type instant struct {
	text, style string // its name and the style of the line through the lanes
	x           float64
}

// instants of the takeover in the window, in the order of time, and when it must be over.
func (w *window) instants(zero float64) []instant {
	t := w.trial
	var out []instant
	add := func(what, style string, m Moment) {
		if !m.Open() && w.has(m) {
			out = append(out, instant{what + " " + relative(mid(m)-zero), style, w.x(m)})
		}
	}
	if t.Renewed != nil {
		add("last renewal", "phase", *t.Renewed)
	} else {
		add("granted to "+cmp.Or(t.Held.Replica, "somebody"), "phase", t.Held.Granted)
	}
	add("lease ends", "phase", t.Held.End)
	if t.Next != nil {
		add("granted", "phase", t.Next.Granted)
	}
	if what := map[string]string{"effect": "first effect", "renewal": "renewed again"}[t.Takeover.End]; t.Ended != nil && what != "" {
		add(what, "phase", *t.Ended)
	}
	if t.Limit != nil && t.Struck != nil {
		at := mid(t.Clock) + *t.Limit
		add("SLO max", "slo", Moment{From: at, To: at})
	}
	slices.SortStableFunc(out, func(a, b instant) int { return cmp.Compare(a.x, b.x) })
	return out
}

func relative(s float64) string {
	if s > 0 {
		return "+" + duration(s)
	}
	if s < 0 {
		return "−" + duration(-s)
	}
	return "0"
}

// named writes the name of every instant on one line, apart from one another, with a line down to where it lies.
func (w *window) named(is []instant, y, lane float64) {
	var labels []label
	for _, i := range is {
		labels = append(labels, label{i.text, "ink", i.x})
	}
	lefts, ok := spread(labels, 10)
	if !ok {
		return
	}
	w.c.labels(labels, lefts, y)
	w.c.leads(labels, lefts, y+3, lane)
}

// guides are lines through the lanes at the instants.
func (w *window) guides(is []instant, top, bottom float64) {
	for _, style := range []string{"phase", "slo"} {
		var p path
		for _, i := range is {
			if i.style == style {
				p.tick(i.x, top, bottom)
			}
		}
		w.c.under(style, &p)
	}
}

// divided draws the takeover under the key, and names its parts and its length.
func (w *window) divided() {
	t := w.trial
	var p parts
	p.add(w.s, t, w.y, w.y+10)
	p.show(w.c)
	w.name(w.y+22, "takeover", "")
	x0, x1 := w.s.extent(t)
	text := about(t.Whole())
	if t.Class != verdict.ClassCrash {
		text += " (" + t.Class + ")"
	}
	width := widthOf(text, sizeName)
	var r row
	if x, ok := r.place(width, left, right, x1+10, x0-8-width); ok {
		w.c.text("away", start, x, w.y+9, sizeName, width+1, text)
	}
	var labels []label
	a, b := w.s.cuts(t, x0, x1)
	for i, at := range []float64{(x0 + a) / 2, (a + b) / 2, (b + x1) / 2} {
		if p := t.Parts()[i]; p.Long != nil {
			labels = append(labels, label{p.Name + " " + about(*p.Long), "away", at})
		}
	}
	if lefts, ok := spread(labels, 12); ok {
		w.c.labels(labels, lefts, w.y+24)
	}
	w.y += 34
}

// others draws the takeovers of the further keys that the same fault struck.
func (w *window) others(ts []*TrialLane) {
	var bars parts
	for _, t := range ts[:min(len(ts), maxOthers)] {
		w.c.text("dim", end, left-8, w.y+8, sizeSmall, gutter-16, t.Key)
		bars.add(w.s, t, w.y, w.y+9)
		w.y += 16
	}
	bars.show(w.c)
	if n := len(ts) - maxOthers; n > 0 {
		w.folded = append(w.folded, figures.Plural(n, "further key")+" that the same fault struck: in the table.")
	}
}

// involved draws the victim, the successor and the others that asked for the key.
func (w *window) involved() {
	w.y += 4
	names := []string{history.ReplicaOf(w.trial.Victim), history.ReplicaOf(w.trial.Successor)}
	for i := range w.trial.Attempts {
		names = append(names, history.ReplicaOf(w.trial.Attempts[i].Who))
	}
	var known []string
	for _, n := range names {
		i := slices.IndexFunc(w.l.Replicas, func(r ReplicaLane) bool { return r.Name == n })
		if i < 0 || slices.Contains(known, n) {
			continue
		}
		if known = append(known, n); len(known) <= maxLives {
			w.replica(&w.l.Replicas[i])
		}
	}
	if extra := len(known) - maxLives; extra > 0 {
		w.folded = append(w.folded, figures.Plural(extra, "further replica")+" asked for the key.")
	}
}
