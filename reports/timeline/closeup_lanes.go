package timeline

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// fault draws the bracket of the fault, and how long it lasted.
func (x *closeUp) fault() {
	t := x.t
	if t.Struck == nil {
		return
	}
	y := x.y
	x0, x1 := x.s.x(t.Struck.From-x.zero), x.s.x(t.Struck.To-x.zero)
	var window, bolt path
	over := x1
	if t.Over != nil {
		over = max(x1, x.until(*t.Over))
	}
	text := t.Fault + " strikes " + t.Victim
	if over-x0 > 6 {
		window.box(x0, y+4, over, y+18)
	} else {
		bolt.down((x0+x1)/2, y+18, 6)
	}
	x.name(y+16, "fault", "")
	x.c.put("struck", &window)
	x.c.weave("hatch", &window)
	x.c.put("effective", &window)
	x.c.put("bolt", &bolt)
	w := widthOf(text, sizeSmall)
	var r row
	r.take(x0-6, over+6)
	if at, ok := r.place(w, left, right, over+10, x0-10-w); ok {
		x.c.text("ink", start, at, y+16, sizeSmall, w+1, text)
		x.y += 24
		return
	}
	x.c.text("ink", start, min(max(left, x0), right-min(w, right-left)), y+32, sizeSmall, right-left, text)
	x.y += 38
}

// instants are the moments that the value was measured from, in the order of time.
func (x *closeUp) instants() []instant {
	t := x.t
	var out []instant
	add := func(what string, m verdict.Moment) {
		if x.in(m) {
			out = append(out, instant{what, m})
		}
	}
	switch {
	case t.Renewed != nil:
		add("last renewal", *t.Renewed)
	default:
		add("granted to "+t.Held.Replica, t.Held.Granted)
	}
	if !t.Held.End.Open() {
		add("lease ends", t.Held.End)
	}
	if t.Next != nil {
		add("granted", t.Next.Granted)
	}
	if t.Ended != nil && t.Takeover.End == "effect" {
		add("first effect", *t.Ended)
	}
	if t.Ended != nil && t.Takeover.End == "renewal" {
		add("renewed again", *t.Ended)
	}
	if m := x.limit(); m != nil {
		add("SLO max", *m)
	}
	slices.SortStableFunc(out, func(a, b instant) int { return byLeft(stretch{x0: mid(a.at)}, stretch{x0: mid(b.at)}) })
	return out
}

// limit is when the takeover must be over; nil where nothing is promised, or where it is no takeover.
func (x *closeUp) limit() *verdict.Moment {
	if x.t.Limit == nil || x.t.Struck == nil {
		return nil
	}
	at := mid(x.t.Clock) + *x.t.Limit
	return &verdict.Moment{From: at, To: at}
}

type instant struct {
	what string
	at   verdict.Moment
}

// holds draws the key: the victim's lease, the time in which nobody had it, the next owner's; its instants are named above.
func (x *closeUp) holds() {
	t := x.t
	y := x.y + 30
	x.named(x.y+12, y)
	if t.Key == t.Lock {
		x.name(y+15, t.Lock, "")
	} else {
		x.name(y+10, t.Lock, t.Key)
	}
	x.hold(&t.Held, y)
	if t.Next != nil && t.Next.Rank != t.Held.Rank {
		x.hold(t.Next, y)
	}
	x.y = y + 33
}

// named writes the name of every instant on one line, apart from one another, with a line down to where it lies.
func (x *closeUp) named(y, lane float64) {
	is := x.instants()
	var mids, widths []float64
	var texts []string
	for _, i := range is {
		text := i.what + " " + relative(mid(i.at)-x.zero)
		texts, widths, mids = append(texts, text), append(widths, widthOf(text, sizeSmall)), append(mids, x.px(i.at))
	}
	lefts, ok := spread(mids, widths, left, right, 10)
	if !ok {
		return
	}
	var lead path
	for k, text := range texts {
		x.c.text("ink", start, lefts[k], y, sizeSmall, widths[k]+1, text)
		lead.line(min(max(mids[k], lefts[k]), lefts[k]+widths[k]), y+3, mids[k], lane)
	}
	x.c.put("lead", &lead)
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

// hold draws one epoch: solid while its holder relied on it, ghostly until the lease ended, the bracket of that end on it.
func (x *closeUp) hold(h *verdict.Hold, y float64) {
	x0, xe := x.s.x(surely(h.Granted)-x.zero), x.until(h.End)
	if x0 >= right {
		return
	}
	top := y
	if h.Rank != x.t.Held.Rank && x0 < x.until(x.t.Held.End)-1.5 { // granted while the victim still had it
		top += 11
	}
	xb := x0
	class, known := x.owners.of(h.Replica)
	if h.Belief != nil && known {
		xb = min(max(x0, x.until(*h.Belief)), xe)
	}
	var solid, ghost, edge path
	if xb > x0 {
		solid.box(x0, top, xb, y+22)
		x.c.put(class, &solid)
	}
	if xe-xb > 0.5 {
		ghost.box(xb, top, xe, y+22)
		x.ghosts = true
		x.c.put("ghost", &ghost)
		x.c.weave("ghost", &ghost)
	}
	edge.tick(x0, top, y+22)
	if !h.End.Open() && x.in(h.End) {
		edge.tick(xe, top, y+22)
	}
	x.c.put("thin", &edge)
	if h.Belief != nil && known && !h.End.Open() && x.until(*h.Belief)-xe > 1 {
		var p path
		p.box(xe, y+23, x.until(*h.Belief), y+27)
		x.c.put("overrun", &p)
		x.overruns = true
	}
	x.bracket(h.Granted, y-3)
	x.bracket(h.End, y-3)
	for _, text := range []string{h.Replica, history.ReplicaOf(h.Replica)} {
		w := widthOf(text, sizeLabel)
		if at, ok := x.owner.place(w, x0, xb, (x0+xb-w)/2); ok && xb-x0 > w+6 {
			x.c.text("onfill", start, at, y+15, sizeLabel, w+1, text)
			return
		}
	}
}

// bracket draws how exactly an instant is known, where that can be seen.
func (x *closeUp) bracket(m verdict.Moment, y float64) {
	if m.Open() || (m.To-m.From)/(x.s.to-x.s.from)*(right-left) < 2 {
		return
	}
	x0, x1 := x.s.x(m.From-x.zero), x.s.x(m.To-x.zero)
	var p path
	p.line(x0, y-2, x0, y+2)
	p.line(x0, y, x1, y)
	p.line(x1, y-2, x1, y+2)
	x.c.put("thin", &p)
}

// maxLives is how many replicas a close-up shows.
const maxLives = 6

// lives draws the victim, the successor and the others that tried.
func (x *closeUp) lives() {
	var names []string
	for _, who := range []string{x.t.Victim, x.t.Successor} {
		if n := history.ReplicaOf(who); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for i := range x.t.Attempts {
		if n := history.ReplicaOf(x.t.Attempts[i].Who); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, n := range names[:min(len(names), maxLives)] {
		for i := range x.l.Replicas {
			if x.l.Replicas[i].Name == n {
				x.life(&x.l.Replicas[i])
			}
		}
	}
	if extra := len(names) - maxLives; extra > 0 {
		x.c.text("dim", start, left, x.y+10, sizeSmall, right-left, figures.Plural(extra, "further replica")+" asked for the key")
		x.y += 16
	}
}

func (x *closeUp) life(r *verdict.ReplicaLane) {
	y := x.y
	under := ""
	switch r.Name {
	case history.ReplicaOf(x.t.Victim):
		under = "struck"
	case history.ReplicaOf(x.t.Successor):
		under = "takes over"
	}
	x.name(y+9, r.Name, under)
	var alive, killed, gone path
	for i := range r.Lives {
		l := &r.Lives[i]
		x0, x1 := x.s.x(surely(l.Start)-x.zero), x.until(l.End)
		if x1 <= left || x0 >= right {
			continue
		}
		alive.box(x0, y+1, x1, y+15)
		if l.Killed != "" && x.in(l.End) {
			killed.cross(x1, y+8, 5)
		}
		if l.Object != nil && x.in(*l.Object) {
			gone.down(x.px(*l.Object), y+5, 4)
		}
	}
	x.c.put("alive", &alive)
	x.work(r, y)
	x.attempts(r.Name, y)
	x.c.put("stroke", &killed)
	x.c.put("hollow", &gone)
	x.crossed, x.goneObject = x.crossed || !killed.empty(), x.goneObject || !gone.empty()
	x.y += 28
}
