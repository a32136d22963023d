package picture

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockdrill/lockdrill/analysis"
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
	o.key.swatch("ghost", "ghost", "lease runs on, its holder dead or done")
	if len(o.l.Trials) > 0 {
		o.key.swatch("residual", "", "takeover: residual, until the lease ends")
		o.key.swatch("pickup", "weave", "pickup, until the next grant")
		o.key.swatch("warmup", "comb", "warm-up, until the first effect")
		o.key.shape("mark", "first effect", func(p *path, x, y float64) { p.dot(x, y, 3) })
	}
}

// holds draws the lane of one key.
func (o *overview) holds(lock *analysis.LockLane, key *analysis.KeyLane) {
	under := ""
	if key.Key != lock.Lock {
		under = key.Key
	}
	y := o.marks(lock, key.Key)
	o.name(y+13, lock.Lock, under)
	fills := map[string]*path{}
	var ghost, cuts, open path
	var labels row
	type label struct {
		x, w float64
		s    string
	}
	var texts []label
	last, folded := left-1, 0
	for i := range key.Holds {
		h := &key.Holds[i]
		x0, xe := o.s.x(mid(h.Granted)), right
		if !h.End.Open() {
			xe = o.s.x(mid(h.End))
		}
		xb := x0
		if h.Belief != nil {
			xb = min(max(x0, o.s.x(mid(*h.Belief))), xe)
		}
		if xe < last+1 {
			folded++
			continue
		}
		x0 = max(x0, last)
		last = xe
		class, known := o.owners.of(h.Replica)
		if !known || h.Belief == nil {
			class = "ghost"
			xb = x0
		}
		if fills[class] == nil {
			fills[class] = &path{}
		}
		if xb > x0 {
			fills[class].box(x0, y, max(xb, x0+0.5), y+18)
		}
		if xe-xb > 0.5 {
			ghost.box(xb, y, xe, y+18)
		}
		cuts.tick(x0, y, y+18)
		if h.End.Open() {
			open.line(right, y+2, right+6, y+9, right, y+16)
		}
		w := widthOf(h.Replica, sizeSmall)
		if text := h.Replica; xb-x0 > w+6 && text != "" {
			if x, ok := labels.place(w, x0, xb, x0+(xb-x0-w)/2); ok {
				texts = append(texts, label{x, w, text})
			}
		}
	}
	for _, class := range slices.Sorted(maps.Keys(fills)) {
		o.c.put(class, fills[class])
	}
	o.c.put("ghost", &ghost)
	o.c.weave("ghost", &ghost)
	o.c.put("thin", &cuts)
	o.c.put("thin", &open)
	for _, t := range texts {
		o.c.text("onfill", start, t.x, y+13, sizeSmall, t.w+1, t.s)
	}
	if folded > 0 {
		o.folded = append(o.folded, plural(folded, "grant")+" of "+fit(key.Key, sizeSmall, 300)+" too short to be drawn at this scale; the table counts them.")
	}
	o.y = o.strip(y+22, o.trialsOf(func(t *analysis.TrialLane) bool { return t.Lock == lock.Lock && t.Key == key.Key }))
}

// trialsOf are the trials that match, of each fault the longest.
func (o *overview) trialsOf(match func(*analysis.TrialLane) bool) []*analysis.TrialLane {
	var out []*analysis.TrialLane
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
func longer(a, b *analysis.TrialLane) bool {
	switch {
	case a.Hi == nil || b.Hi == nil:
		return a.Hi == nil && (b.Hi != nil || a.Lo > b.Lo)
	case *a.Hi != *b.Hi:
		return *a.Hi > *b.Hi
	}
	return a.Lo > b.Lo
}

// strip draws the takeovers in one line under a lane, and their lengths under it as far as there is room, the longest first.
func (o *overview) strip(y float64, ts []*analysis.TrialLane) float64 {
	if len(ts) == 0 {
		return y + 6
	}
	var p parts
	for _, t := range ts {
		p.add(o.s, t, y, y+8)
	}
	p.put(o.c)
	var r row
	byLength := slices.Clone(ts)
	slices.SortStableFunc(byLength, func(a, b *analysis.TrialLane) int { return cmp.Compare(b.Lo, a.Lo) })
	for _, t := range byLength {
		x0, x1 := trialExtent(o.s, t)
		text := about(analysis.Range{Lo: t.Lo, Hi: t.Hi})
		w := widthOf(text, sizeSmall)
		if x, ok := r.place(w, left, right, (x0+x1-w)/2, x0, x1-w); ok {
			o.c.text("away", start, x, y+20, sizeSmall, w+1, text)
		}
	}
	return y + 30
}

// marks draws what went wrong under a key in a line above its lane, and returns where the lane begins.
func (o *overview) marks(lock *analysis.LockLane, key string) float64 {
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
