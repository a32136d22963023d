package timeline

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// strike is what one fault did to one lock: the takeover of each of its keys, the longest first.
type strike struct {
	lock, fault string
	trials      []*TrialLane
}

func (s *strike) id() string { return "trial-" + count(s.trials[0].Number) }

// worst is the strike of each lock whose takeover was the longest, in the order in which locks were struck first.
func worst(l *Lanes) []*strike {
	var all, out []*strike
	at := map[[2]string]*strike{}
	for i := range l.Trials {
		t := &l.Trials[i]
		id := [2]string{t.Lock, t.Fault}
		if at[id] == nil || t.Fault == "" {
			at[id] = &strike{lock: t.Lock, fault: t.Fault}
			all = append(all, at[id])
		}
		at[id].trials = append(at[id].trials, t)
	}
	for _, s := range all {
		slices.SortStableFunc(s.trials, byLength)
		switch i := slices.IndexFunc(out, func(o *strike) bool { return o.lock == s.lock }); {
		case i < 0:
			out = append(out, s)
		case byLength(s.trials[0], out[i].trials[0]) < 0:
			out[i] = s
		}
	}
	return out
}

// Closeups gives, by the number of a takeover, the ID of the picture that shows it close up; most have none.
func Closeups(l *Lanes) map[int]string {
	ids := map[int]string{}
	for _, s := range worst(l) {
		for _, t := range s.trials {
			ids[t.Number] = s.id()
		}
	}
	return ids
}

// Trials draws the worst takeover of each lock close up, with what the same fault did to other keys of it.
func Trials(l *Lanes) (out []Picture) {
	for _, s := range worst(l) {
		out = append(out, closeup(l, s))
	}
	return out
}

// maxLives is how many replicas are in a close-up.
const maxLives = 6

// closeup draws the longest takeover of a strike; its table has them all.
func closeup(l *Lanes, s *strike) Picture {
	t := s.trials[0]
	zero := mid(t.Clock)
	if t.Struck != nil {
		zero = mid(*t.Struck)
	}
	from, to := frame(t, zero)
	w := newWindow(s.id(), l, from, to)
	w.trial = t
	w.faults()
	top := w.y
	is := w.instants(zero)
	w.y += 30
	lane := w.y
	w.c.captions(is, top+12, lane)
	if key := l.key(t.Lock, t.Key); key != nil {
		w.key(t.Lock, key)
	}
	bars := w.y + 9
	w.divided()
	w.involved()
	if n := len(s.trials) - 1; n > 0 {
		w.folded = append(w.folded, figures.Plural(n, "further key")+" that the same fault struck: in the table.")
	}
	w.shade(lane)
	for _, i := range is {
		var p path
		p.tick(i.x, lane-4, bars)
		w.c.under(map[bool]string{true: "slo", false: "phase"}[i.class == "slotext"], &p)
	}
	p := Picture{Title: trialTitle(s), Desc: trialDesc(t), Columns: trialColumns}
	for _, t := range s.trials {
		p.Rows = append(p.Rows, trialRow(t))
	}
	return w.finish(p, top, zero)
}

func trialTitle(s *strike) string {
	t := s.trials[0]
	title := "Takeover " + count(t.Number) + ": " + cmp.Or(s.fault, "change of owner without a fault") + ", lock " + s.lock + ", " + about(t.Whole())
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
	return s + "; " + t.Class + ", ended by " + cmp.Or(endWords[t.Takeover.End], t.Takeover.End) + "."
}

// frame chooses what is shown: from the victim's last extension, if it is not long past, until after the end.
func frame(t *TrialLane, zero float64) (from, to float64) {
	to = mid(t.Clock)
	if t.Residual != nil && !t.Held.End.Open() {
		to = max(to, mid(t.Held.End))
	}
	if t.Next != nil {
		to = max(to, mid(t.Next.Granted))
	}
	seen := to
	if t.Ended != nil {
		to = max(to, mid(*t.Ended))
	} else if to = max(to, t.Until); seen > zero { // it goes on for long: what is known must not shrink to a line beside it
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

func relative(s float64) string {
	switch {
	case s > 0:
		return "+" + duration(s)
	case s < 0:
		return "−" + duration(-s)
	}
	return "0"
}

// instants of the takeover in the window, from which it was measured, and when it must be over.
func (w *window) instants(zero float64) (out []label) {
	t := w.trial
	add := func(what, class string, m Moment) {
		if !m.Open() && w.has(m) {
			out = append(out, label{what + " " + relative(mid(m)-zero), class, w.x(m)})
		}
	}
	if t.Renewed != nil {
		add("last renewal", "ink", *t.Renewed)
	} else {
		add("granted to "+cmp.Or(t.Held.Replica, "somebody"), "ink", t.Held.Granted)
	}
	add("lease ends", "ink", t.Held.End)
	if t.Next != nil {
		add("granted", "ink", t.Next.Granted)
	}
	if what := map[string]string{"effect": "first effect", "renewal": "renewed again"}[t.Takeover.End]; t.Ended != nil && what != "" {
		add(what, "ink", *t.Ended)
	}
	if t.Limit != nil && t.Struck != nil {
		at := mid(t.Clock) + *t.Limit
		add("SLO max", "slotext", Moment{From: at, To: at})
	}
	return out
}

// divided draws the takeover under the key, and names its parts and its length.
func (w *window) divided() {
	t := w.trial
	n := w.unnamed()
	n.gap(t, 0, 10)
	n.draw(0)
	w.c.text("ink", end, left-8, w.y+22, sizeName, gutter-16, "takeover")
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
	var parts []label
	a, b := w.s.cuts(t, x0, x1)
	for i, at := range []float64{(x0 + a) / 2, (a + b) / 2, (b + x1) / 2} {
		if p := t.Parts()[i]; p.Long != nil {
			parts = append(parts, label{p.Name + " " + about(*p.Long), "away", at})
		}
	}
	w.c.captions(parts, w.y+24, 0)
	w.y += 34
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

// trialColumns are what trialRow gives: the takeover, what it is made of, and the instants from which it was measured.
var trialColumns = []string{"#", "Where", "Fault", "From", "To", "Takeover", "Left of the lease", "Pickup", "Warm-up", "Struck", "Lease end", "Granted", "Ended", "Class"}

func trialRow(t *TrialLane) []string {
	struck, granted, ended := "no fault", "not seen", "not seen by T+"+fixed(t.Until)+"s"
	if t.Struck != nil {
		struck = at(*t.Struck)
	}
	if t.Next != nil {
		granted = at(t.Next.Granted)
	}
	if t.Ended != nil {
		ended = at(*t.Ended) + " (" + t.Takeover.End + ")"
	}
	return []string{count(t.Number), where(t.Lock, t.Key), t.Fault, t.Victim, cmp.Or(t.Successor, "nobody yet"),
		bracket(t.Whole()), optional(t.Residual), optional(t.Pickup), optional(t.Warmup),
		struck, at(t.Held.End), granted, ended, t.Class}
}
