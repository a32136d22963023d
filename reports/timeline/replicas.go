package timeline

import (
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// replica draws when one lived, when it relied on a lock, when it worked, what it wrote; close up only its work under the key, and how
// it asked for it.
func (w *window) replica(r *ReplicaLane) {
	t, under := w.trial, ""
	switch n := len(r.Lives); {
	case t == nil && n > 1:
		under = figures.Count(n) + " lives"
	case t != nil && r.Name == history.ReplicaOf(t.Victim):
		under = "struck"
	case t != nil && r.Name == history.ReplicaOf(t.Successor):
		under = "takes over"
	}
	n := w.lane(OwnName(r.Name, r.Called()), under)
	relies, works := relies, works
	relies.styles = w.heldBy(r.Name).styles[:1]
	works.styles = relies.styles
	for i := range r.Lives {
		n.life(&r.Lives[i])
	}
	for i := range r.Lives {
		if l := &r.Lives[i]; t == nil {
			n.over(relies, 16, 20, l.Belief...)
			n.over(works, 4, 14, l.Work...)
		}
	}
	if t != nil {
		for who, es := range map[string][]Extent{t.Victim: t.Work, t.Successor: t.NextWork} {
			if history.ReplicaOf(who) == r.Name {
				n.over(works, 4, 14, es...)
			}
		}
		n.attempts(r.Name)
	}
	n.over(paused, 1, 21, r.Paused...)
	for _, m := range r.Marks {
		n.at(abandoned, 11, m.At)
	}
	n.draw(36)
}

// life draws when an incarnation lived, how it ended, and what it wrote.
func (n *lane) life(l *Life) {
	w := n.w
	x0, x1 := w.s.x(surely(l.Start)), w.until(l.End)
	unseen := l.Killed != "" && l.End.Open()
	if unseen { // no further than it surely lived
		x1 = w.s.x(l.End.From)
	}
	if w.meets(l.Start, l.End) && (!unseen || l.End.From >= w.s.from) {
		n.bar(alive, 1, 21, x0, max(x0, x1))
	}
	switch {
	case unseen && w.s.has(l.End.From):
		n.point(lastSign, 11, x1)
	case l.End.Open() || !w.has(l.End):
	case l.Killed != "":
		n.point(killed, 11, x1)
	case x1 < right-1:
		n.point(lifeEnds, 11, x1)
	}
	if l.Object != nil {
		n.at(objectGone, 5, *l.Object)
	}
	n.at(effect, 26, l.Effects...)
	n.at(refused, 27, l.Refused...)
}

// attempts draws every acquire of the key by the replica: refused, granted, or without an answer.
func (n *lane) attempts(name string) {
	for _, a := range n.w.trial.Attempts {
		if history.ReplicaOf(a.Who) != name || !n.w.has(a.At.Start) {
			continue
		}
		x := n.w.x(a.At.Start)
		if !a.At.End.Open() {
			x = (x + n.w.x(a.At.End)) / 2
		}
		switch a.Result {
		case "granted":
			n.point(granted, 21, x)
		case "held":
			n.point(asked, 26, x)
		default:
			n.point(unanswered, 26, x)
		}
	}
}

// OwnName is the name of a replica with its owner's words for it in brackets, which may be a whole command line.
func OwnName(name, called string) string {
	if called == "" {
		return name
	}
	return name + " (" + fit(called, sizeSmall, 300) + ")"
}
