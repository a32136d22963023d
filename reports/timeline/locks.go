package timeline

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// maxKeys is how many keys of a lock get a lane each; of a lock with more, the number of keys held is drawn.
const maxKeys = 4

// lock draws who held what, and under each lane how long nobody worked after a fault.
func (w *window) lock(lock *LockLane) {
	if !slices.ContainsFunc(lock.Keys, func(k KeyLane) bool { return len(k.Holds) > 0 }) {
		w.wrong(lock, "")
		w.lane(lock.Lock, map[bool]string{true: "effects, no lock", false: "never held"}[lock.None]).draw(37)
		return
	}
	if len(lock.Keys) > maxKeys {
		w.held(lock)
		return
	}
	for k := range lock.Keys {
		key := &lock.Keys[k]
		w.wrong(lock, key.Key)
		w.key(lock.Lock, key)
		w.gaps(w.trialsOf(func(t *TrialLane) bool { return t.Lock == lock.Lock && t.Key == key.Key }))
	}
}

// key draws the lane of one key: each epoch filled while it had its holder, ghostly until its lease ended. One that was granted before the
// lease before it ended gets the lower half.
func (w *window) key(lock string, key *KeyLane) {
	under := ""
	if key.Key != lock {
		under = key.Key
	}
	n := w.lane(lock, under)
	last := left - 1
	for i := range key.Holds {
		h := &key.Holds[i]
		if !w.meets(h.Granted, h.End) && (h.Held == nil || !w.meets(h.Granted, *h.Held)) {
			continue
		}
		x0, x1 := w.s.x(surely(h.Granted)), w.until(h.End)
		held := x0 // until where it had its holder
		if h.Held != nil {
			over := w.until(*h.Held)
			held = min(max(x0, over), x1)
			if over-x1 > 1 && !h.End.Open() {
				n.bar(overrun, 18.5, 21.5, x1, over)
			}
		}
		top := 0.0
		if x0 < last-1.5 {
			top = 9
		} else {
			n.label(13, x0, held, h.Replica, history.ReplicaOf(h.Replica))
		}
		last = max(last, x1)
		n.bracket(h.Granted)
		n.bracket(h.End)
		if held > x0 {
			n.bar(w.heldBy(h.Replica), top, 18, x0, max(held, x0+0.5))
		}
		switch {
		case x1-held > 4:
			n.bar(leaseRuns, top, 18, held, x1)
		case x1-held > 0.5:
			n.bar(leaseShort, top+4, 14, held, x1)
		}
		if x1-x0 > 6 {
			n.point(grant, 9, x0)
		}
		if h.End.Open() {
			n.point(unfinished, 9, right+3)
		}
	}
	n.draw(23)
}

// wrong draws what went wrong under a key, or under all keys (""), in a line above its lane.
func (w *window) wrong(lock *LockLane, key string) {
	n := w.unnamed()
	for _, b := range lock.Both {
		if key == "" || b.Key == "" || b.Key == key {
			n.over(twoBelieve, 3, 9, b.Extent)
		}
	}
	for _, m := range lock.Again {
		if key == "" || m.Key == key {
			n.at(map[bool]mark{true: duplicate, false: stale}[m.What == "duplicate"], 6, m.At)
		}
	}
	if len(n.bars)+len(n.points) > 0 {
		n.draw(14)
	}
}

const (
	column     = 2.0 // width of one step of a lane that counts
	heldHeight = 46.0
)

// held draws how many keys of a lock were held at once, and by whom: too many for a lane each.
func (w *window) held(lock *LockLane) {
	w.wrong(lock, "")
	w.lane(lock.Lock, figures.Plural(len(lock.Keys), "key"))
	w.c.text("dim", end, left-8, w.y+39, sizeSmall, gutter-16, "up to "+figures.Count(atOnce(lock, w.l.Seconds))+" held")
	n := int((right - left) / column)
	of := map[string][]float64{} // by the mark's text, the keys held in each column
	marks := map[string]mark{}
	total, top := make([]float64, n), 1.0
	add := func(m mark, x0, x1 float64) {
		if of[m.text] == nil {
			of[m.text], marks[m.text] = make([]float64, n), m
		}
		for i := int((x0 - left) / column); i < n && left+float64(i)*column < x1; i++ {
			at := left + float64(i)*column
			part := max(0, min(x1, at+column)-max(x0, at)) / column // an end may be known to lie before its begin
			of[m.text][i] += part
			total[i] += part
			top = max(top, total[i])
		}
	}
	for k := range lock.Keys {
		for i := range lock.Keys[k].Holds {
			h := &lock.Keys[k].Holds[i]
			x0, x1 := w.x(h.Granted), w.until(h.End)
			held := x0
			if h.Held != nil {
				held = min(max(w.until(*h.Held), x0), x1)
				add(w.heldBy(h.Replica), x0, held)
			}
			add(leaseRuns, held, x1)
		}
	}
	order := func(m mark) int { return slices.Index([]string{nobody, leaseRuns.styles[0]}, m.styles[0]) } // those of nobody on top
	texts := make([]string, 0, len(marks))
	for text := range marks {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(cmp.Compare(order(marks[a]), order(marks[b])), cmp.Compare(marks[a].styles[0], marks[b].styles[0]))
	})
	floor := w.y + heldHeight
	base := slices.Repeat([]float64{floor}, n)
	for _, text := range texts {
		var p path
		for i := 0; i < n; i++ {
			var over, under []float64 // of a stretch in which any is held
			for ; i < n && of[text][i] > 0; i++ {
				x0, x1, y := left+float64(i)*column, left+float64(i+1)*column, base[i]-of[text][i]*heldHeight/top
				over, under = append(over, x0, y, x1, y), append(under, base[i], x0, base[i], x1)
				base[i] = y
			}
			if len(over) > 0 {
				slices.Reverse(under)
				p.stairs(append(over, under...)...)
				p.b.WriteByte('z')
			}
		}
		w.c.show(marks[text], &p)
	}
	var rule path
	rule.line(left, floor, right, floor)
	w.c.put("rule", &rule)
	folded := lock.Lock + ": " + figures.Count(len(lock.Keys)) + " keys in one lane, its height is the number held at once"
	gaps := w.trialsOf(func(t *TrialLane) bool { return t.Lock == lock.Lock })
	if len(gaps) > 0 {
		folded += "; of each fault the longest takeover is drawn"
	}
	w.folded = append(w.folded, folded+".")
	w.y = floor + 5
	w.gaps(gaps)
}

// atOnce is how many keys of the lock were held at the same time, at most.
func atOnce(lock *LockLane, until float64) int {
	type change struct {
		at float64
		by int
	}
	var changes []change
	for _, k := range lock.Keys {
		for _, h := range k.Holds {
			over := until
			if !h.End.Open() {
				over = mid(h.End)
			}
			changes = append(changes, change{mid(h.Granted), 1}, change{over, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	n, most := 0, 0
	for _, c := range changes {
		n += c.by
		most = max(most, n)
	}
	return most
}
