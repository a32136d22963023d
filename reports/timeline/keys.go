package timeline

import (
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// maxKeys is how many keys of a lock get a lane each; of a lock with more, the number of keys held is drawn.
const maxKeys = 4

// lock draws who held what, and under each lane how long nobody worked after a fault.
func (w *window) lock(lock *LockLane) {
	if len(lock.Keys) > maxKeys {
		w.crowd(lock)
		return
	}
	for k := range lock.Keys {
		key := &lock.Keys[k]
		w.marks(lock, key.Key)
		w.holds(lock.Lock, key)
		w.strip(w.trialsOf(func(t *TrialLane) bool { return t.Lock == lock.Lock && t.Key == key.Key }))
	}
}

// holds draws the lane of one key.
func (w *window) holds(lock string, key *KeyLane) {
	under := ""
	if key.Key != lock {
		under = key.Key
	}
	w.name(w.y+13, lock, under)
	b := blocks{w: w, y: w.y, fills: map[string]*path{}, last: left - 1}
	for i := range key.Holds {
		if h := &key.Holds[i]; w.meets(h.Granted, h.End) || h.Held != nil && w.meets(h.Granted, *h.Held) {
			b.add(h)
		}
	}
	b.put()
	if b.folded > 0 {
		w.folded = append(w.folded, figures.Plural(b.folded, "grant")+" of "+fit(key.Key, sizeSmall, 300)+" too short to be drawn at this scale; the table counts them.")
	}
	w.y += 23
}

// blocks are the epochs of one key on their way to the canvas.
type blocks struct {
	w                                              *window
	y                                              float64
	fills                                          map[string]*path // by the owner's class
	ghost, slim, cuts, open, outlasting, uncertain path
	labels                                         row
	last                                           float64 // where the last lease ended
	folded                                         int
}

// add draws one epoch: filled while it had its holder, ghostly until its lease ended. One that was granted before the lease
// before it ended gets the lower half.
func (b *blocks) add(h *Hold) {
	w := b.w
	x0, xe := w.s.x(surely(h.Granted)), w.until(h.End)
	xb := x0
	class := w.owner(h.Replica)
	if h.Held != nil {
		xb = min(max(x0, w.until(*h.Held)), xe)
		if over := w.until(*h.Held); over-xe > 1 && !h.End.Open() {
			b.outlasting.box(xe, b.y+18.5, over, b.y+21.5)
		}
	}
	if xe < b.last+1 && xe-x0 < 1 {
		b.folded++
		return
	}
	top := b.y
	if x0 < b.last-1.5 {
		top += 9
	}
	b.last = max(b.last, xe)
	w.bracket(&b.uncertain, h.Granted, b.y-3)
	w.bracket(&b.uncertain, h.End, b.y-3)
	if b.fills[class] == nil {
		b.fills[class] = &path{}
	}
	if xb > x0 {
		b.fills[class].box(x0, top, max(xb, x0+0.5), b.y+18)
	}
	switch {
	case xe-xb > 4:
		b.ghost.box(xb, top, xe, b.y+18)
	case xe-xb > 0.5:
		b.slim.box(xb, top+4, xe, b.y+14)
	}
	if xe-x0 > 6 {
		b.cuts.tick(x0, top, b.y+18)
	}
	if h.End.Open() {
		b.open.line(right, b.y+2, right+6, b.y+9, right, b.y+16)
	}
	if top == b.y {
		b.label(h.Replica, x0, xb)
	}
}

// label writes the owner onto its block, if need be without its life.
func (b *blocks) label(owner string, x0, x1 float64) {
	for _, text := range []string{owner, history.ReplicaOf(owner)} {
		width := widthOf(text, sizeSmall)
		if x1-x0 <= width+6 {
			continue
		}
		if x, ok := b.labels.place(width, x0, x1, (x0+x1-width)/2); ok {
			b.w.c.text("onfill", start, x, b.y+13, sizeSmall, width+1, text)
			return
		}
	}
}

func (b *blocks) put() {
	c := b.w.c
	for i := range hues {
		if p := b.fills["r"+count(i)]; p != nil {
			c.show(b.w.heldBy(i), p)
		}
	}
	if p := b.fills[nobody]; p != nil {
		c.show(whoseUnknown, p)
	}
	c.show(leaseRuns, &b.ghost)
	c.put("slim", &b.slim)
	if !b.slim.empty() {
		c.explain(leaseRuns)
	}
	c.put("thin", &b.cuts)
	c.put("thin", &b.open)
	c.show(overrun, &b.outlasting)
	c.show(vague, &b.uncertain)
}

// marks draws what went wrong under a key, or under all keys (""), in a line above its lane.
func (w *window) marks(lock *LockLane, key string) {
	var twice, late, both path
	var r row
	for i := range lock.Both {
		if b := &lock.Both[i]; (key == "" || b.Key == "" || b.Key == key) && w.meets(b.Start, b.End) {
			x0 := w.x(b.Start)
			x1 := max(x0+3, w.until(b.End))
			r.take(x0, x1)
			both.box(x0, w.y+3, x1, w.y+9)
		}
	}
	for _, m := range lock.Again {
		x := w.x(m.At)
		if key != "" && m.Key != key || !r.free(x-4, x+4) {
			continue
		}
		r.take(x-5, x+5)
		if m.What == "duplicate" {
			duplicate.sample(&twice, x-6, w.y+6)
		} else {
			stale.sample(&late, x-6, w.y+6)
		}
	}
	w.c.show(duplicate, &twice)
	w.c.show(stale, &late)
	w.c.show(twoBelieve, &both)
	if !twice.empty() || !late.empty() || !both.empty() {
		w.y += 14
	}
}
