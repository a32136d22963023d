package timeline

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// maxKeys is how many keys of a lock get a lane each; of a lock with more, the number of keys held is drawn.
const maxKeys = 4

// locks draws who held what, and under each lane how long nobody worked after a fault.
func (o *overview) locks() {
	for i := range o.l.Locks {
		lock := &o.l.Locks[i]
		if len(lock.Keys) > maxKeys {
			o.crowd(lock)
			continue
		}
		for k := range lock.Keys {
			o.holds(lock, &lock.Keys[k])
		}
	}
	if len(o.l.Locks) == 0 {
		return
	}
	for i, name := range o.owners.names[:min(len(o.owners.names), hues)] {
		o.key.swatch("r"+count(i), "", "held by "+name)
	}
	if o.ghosts {
		o.key.swatch("ghost", "ghost", "lease runs on, its holder gone or done")
	}
	if o.overruns {
		o.key.add(22, "still relied on, the lease is over", func(x, y float64) {
			var p path
			p.box(x, y-2, x+22, y+2)
			o.c.put("overrun", &p)
		})
	}
	if o.vague {
		o.key.shape("thin", "an instant known only to lie in here", func(p *path, x, y float64) {
			p.line(x-6, y-2, x-6, y+2)
			p.line(x-6, y, x+6, y)
			p.line(x+6, y-2, x+6, y+2)
		})
	}
	o.drawn.explain(&o.key)
}

// holds draws the lane of one key.
func (o *overview) holds(lock *verdict.LockLane, key *verdict.KeyLane) {
	under := ""
	if key.Key != lock.Lock {
		under = key.Key
	}
	y := o.marks(lock, key.Key)
	o.name(y+13, lock.Lock, under)
	k := keyBlocks{o: o, y: y, fills: map[string]*path{}, last: left - 1}
	for i := range key.Holds {
		k.add(&key.Holds[i])
	}
	k.put()
	if k.folded > 0 {
		o.folded = append(o.folded, figures.Plural(k.folded, "grant")+" of "+fit(key.Key, sizeSmall, 300)+" too short to be drawn at this scale; the table counts them.")
	}
	o.y = o.strip(y+23, o.trialsOf(func(t *verdict.TrialLane) bool { return t.Lock == lock.Lock && t.Key == key.Key }))
}

// keyBlocks are the epochs of one key on their way to the canvas.
type keyBlocks struct {
	o                                          *overview
	y                                          float64
	fills                                      map[string]*path
	ghost, slim, cuts, open, overrun, brackets path
	labels                                     row
	texts                                      []blockLabel
	last                                       float64 // where the last lease ended
	folded                                     int
}

type blockLabel struct {
	x, w float64
	s    string
}

// add draws one epoch: filled while its holder relied on it, ghostly until its lease ended. One that was granted before the lease
// before it ended gets the lower half.
func (k *keyBlocks) add(h *verdict.Hold) {
	s := k.o.s
	x0, xe := s.x(surely(h.Granted)), until(s, h.End)
	xb := x0
	class, known := k.o.owners.of(h.Replica)
	if known && h.Belief != nil {
		xb = min(max(x0, until(s, *h.Belief)), xe)
		if over := until(s, *h.Belief); over-xe > 1 && !h.End.Open() {
			k.overrun.box(xe, k.y+18.5, over, k.y+21.5)
		}
	}
	if xe < k.last+1 && xe-x0 < 1 {
		k.folded++
		return
	}
	top := k.y
	if x0 < k.last-1.5 {
		top += 9
	}
	k.last = max(k.last, xe)
	k.bracket(h.Granted)
	k.bracket(h.End)
	if k.fills[class] == nil {
		k.fills[class] = &path{}
	}
	if xb > x0 {
		k.fills[class].box(x0, top, max(xb, x0+0.5), k.y+18)
	}
	switch {
	case xe-xb > 4:
		k.ghost.box(xb, top, xe, k.y+18)
	case xe-xb > 0.5:
		k.slim.box(xb, top+4, xe, k.y+14)
	}
	if xe-x0 > 6 {
		k.cuts.tick(x0, top, k.y+18)
	}
	if h.End.Open() {
		k.open.line(right, k.y+2, right+6, k.y+9, right, k.y+16)
	}
	if w := widthOf(h.Replica, sizeSmall); h.Replica != "" && xb-x0 > w+6 && top == k.y {
		if x, ok := k.labels.place(w, x0, xb, x0+(xb-x0-w)/2); ok {
			k.texts = append(k.texts, blockLabel{x, w, h.Replica})
		}
	}
}

// bracket draws above the block how exactly an instant is known, where that can be seen.
func (k *keyBlocks) bracket(m verdict.Moment) {
	x0, x1 := k.o.s.x(m.From), k.o.s.x(m.To)
	if m.Open() || x1-x0 < 4 {
		return
	}
	k.brackets.tick(x0, k.y-5, k.y-1)
	k.brackets.tick(x1, k.y-5, k.y-1)
	k.brackets.line(x0, k.y-3, x1, k.y-3)
}

func (k *keyBlocks) put() {
	c := k.o.c
	for _, class := range slices.Sorted(maps.Keys(k.fills)) {
		c.put(class, k.fills[class])
	}
	c.put("ghost", &k.ghost)
	c.weave("ghost", &k.ghost)
	c.put("slim", &k.slim)
	c.put("thin", &k.cuts)
	c.put("thin", &k.open)
	c.put("overrun", &k.overrun)
	c.put("thin", &k.brackets)
	for _, t := range k.texts {
		c.text("onfill", start, t.x, k.y+13, sizeSmall, t.w+1, t.s)
	}
	k.o.ghosts = k.o.ghosts || !k.ghost.empty() || !k.slim.empty()
	k.o.vague = k.o.vague || !k.brackets.empty()
	k.o.overruns = k.o.overruns || !k.overrun.empty()
}

// until is where an end lies; the right edge where it was never seen.
func until(s scale, m verdict.Moment) float64 {
	if m.Open() {
		return s.x1
	}
	return s.x(mid(m))
}

// trialsOf are the trials that match, of each fault the longest.
func (o *overview) trialsOf(match func(*verdict.TrialLane) bool) []*verdict.TrialLane {
	var out []*verdict.TrialLane
	at := map[string]int{}
	for i := range o.l.Trials {
		t := &o.l.Trials[i]
		if !match(t) {
			continue
		}
		k, known := at[t.Fault]
		switch {
		case t.Fault == "" || !known:
			at[t.Fault] = len(out)
			out = append(out, t)
		case longer(t, out[k]):
			out[k] = t
		}
	}
	return out
}

// longer reports whether a took longer than b; what did not end took longest.
func longer(a, b *verdict.TrialLane) bool {
	switch {
	case a.Hi == nil || b.Hi == nil:
		return a.Hi == nil && (b.Hi != nil || a.Lo > b.Lo)
	case *a.Hi != *b.Hi:
		return *a.Hi > *b.Hi
	}
	return a.Lo > b.Lo
}

// maxStrips is how many takeovers at the same time are drawn one below the other.
const maxStrips = 4

// strip draws the takeovers under a lane, in one line where they do not overlap, and their lengths under it as far as there is room, the longest first.
func (o *overview) strip(y float64, ts []*verdict.TrialLane) float64 {
	if len(ts) == 0 {
		return y + 14
	}
	if o.crowded(ts) {
		return o.towers(y, ts)
	}
	var p parts
	lines := make([]row, 1, maxStrips)
	for _, t := range ts {
		x0, x1 := trialExtent(o.s, t)
		i := slices.IndexFunc(lines, func(r row) bool { return r.free(x0, x1+4) })
		switch {
		case i < 0 && len(lines) < maxStrips:
			i = len(lines)
			lines = append(lines, row{})
		case i < 0: // more at once than there are lines
			i = len(lines) - 1
		}
		lines[i].take(x0, x1+4)
		p.add(o.s, t, y+10*float64(i), y+10*float64(i)+8)
	}
	p.put(o.c)
	o.drawn.note(&p)
	y += 10 * float64(len(lines)-1)
	var r row
	byLength := slices.Clone(ts)
	slices.SortStableFunc(byLength, func(a, b *verdict.TrialLane) int { return cmp.Compare(b.Lo, a.Lo) })
	for _, t := range byLength {
		x0, x1 := trialExtent(o.s, t)
		text := about(t.Whole())
		w := widthOf(text, sizeSmall)
		if x, ok := r.place(w, left, right, (x0+x1-w)/2, x0, x1-w); ok {
			o.c.text("away", start, x, y+20, sizeSmall, w+1, text)
		}
	}
	return y + 30
}

// marks draws what went wrong under a key in a line above its lane, and returns where the lane begins.
func (o *overview) marks(lock *verdict.LockLane, key string) float64 {
	y := o.y
	var dup, stale path
	var r row
	n := 0
	for _, m := range lock.Again {
		if key != "" && m.Key != key {
			continue
		}
		n++
		x := o.s.x(mid(m.At))
		if !r.free(x-4, x+4) {
			continue
		}
		r.take(x-5, x+5)
		if m.What == "duplicate" {
			dup.dot(x-2.5, y+6, 2.5)
			dup.dot(x+2.5, y+6, 2.5)
		} else {
			stale.poly(x-4, y+10, x+4, y+10, x, y+2)
		}
	}
	if n == 0 {
		return y
	}
	if !dup.empty() {
		o.key.shape("mark", "duplicate terminal state", func(p *path, x, y float64) { p.dot(x-2.5, y, 2.5); p.dot(x+2.5, y, 2.5) })
	}
	if !stale.empty() {
		o.key.shape("hollow", "effect of a superseded owner", func(p *path, x, y float64) { p.poly(x-4, y+4, x+4, y+4, x, y-4) })
	}
	o.c.put("mark", &dup)
	o.c.put("hollow", &stale)
	return y + 14
}
