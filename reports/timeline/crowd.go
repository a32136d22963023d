package timeline

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/internal/figures"
)

const (
	column = 2.0 // width of one step of a crowd
	crowdH = 46.0
)

// crowd draws how many keys of a lock were held at once, and by whom: too many for a lane each.
func (w *window) crowd(lock *LockLane) {
	w.marks(lock, "")
	y := w.y
	n := int((right - left) / column)
	layers := map[string][]float64{}
	total := make([]float64, n)
	add := func(class string, from, to float64) {
		if layers[class] == nil {
			layers[class] = make([]float64, n)
		}
		x0, x1 := (w.s.x(from)-left)/column, (w.s.x(to)-left)/column
		for i := max(0, int(x0)); i < n && float64(i) < x1; i++ {
			part := max(0, min(x1, float64(i+1))-max(x0, float64(i))) // an end may be known to lie before its begin
			layers[class][i] += part
			total[i] += part
		}
	}
	for k := range lock.Keys {
		for i := range lock.Keys[k].Holds {
			h := &lock.Keys[k].Holds[i]
			x0, xe, xb := mid(h.Granted), w.endOf(h.End), mid(h.Granted)
			if h.Held != nil {
				xb = min(max(w.endOf(*h.Held), x0), xe)
				add(w.owner(h.Replica), x0, xb)
			}
			add("ghost", xb, xe)
		}
	}
	top := 0.0
	for _, v := range total {
		top = max(top, v)
	}
	top = max(top, 1)
	base := make([]float64, n)
	stack := func(class string, m mark) {
		if layers[class] == nil {
			return
		}
		w.c.show(m, area(base, layers[class], y+crowdH, crowdH/top))
		for i, v := range layers[class] {
			base[i] += v
		}
	}
	for i := range hues {
		stack("r"+count(i), w.heldBy(i))
	}
	stack(nobody, whoseUnknown)
	stack("ghost", leaseRuns)
	w.c.floor(y + crowdH)
	w.name(y+13, lock.Lock, figures.Plural(len(lock.Keys), "key"))
	w.c.text("dim", end, left-8, y+39, sizeSmall, gutter-16, "up to "+figures.Count(atOnce(lock, w.l.Seconds))+" held")
	w.folded = append(w.folded, lock.Lock+": "+figures.Count(len(lock.Keys))+" keys in one lane, its height is the number held at once; of each fault the longest takeover is drawn.")
	w.y = y + crowdH + 5
	w.strip(w.trialsOf(func(t *TrialLane) bool { return t.Lock == lock.Lock }))
}

// endOf is when something ended, and the end of the run where that was never seen.
func (w *window) endOf(m Moment) float64 {
	if m.Open() {
		return w.l.Seconds
	}
	return mid(m)
}

// area is the outline of values stacked on base, as steps.
func area(base, values []float64, floor, unit float64) *path {
	var p path
	for i := 0; i < len(values); {
		if values[i] <= 0 {
			i++
			continue
		}
		k := i
		for k < len(values) && values[k] > 0 {
			k++
		}
		points := []float64{}
		step := func(i int, v float64) {
			yy := floor - v*unit
			if n := len(points); n >= 4 && points[n-1] == yy && points[n-3] == yy { // goes on level
				points[n-2] = left + float64(i)*column
				return
			}
			points = append(points, left+float64(i)*column, yy)
		}
		for c := i; c < k; c++ {
			step(c, base[c]+values[c])
			step(c+1, base[c]+values[c])
		}
		for c := k - 1; c >= i; c-- {
			step(c+1, base[c])
			step(c, base[c])
		}
		p.stairs(points...)
		p.b.WriteByte('z')
		i = k
	}
	return &p
}

// atOnce is how many keys of the lock were held at the same time, at most.
func atOnce(lock *LockLane, until float64) int {
	var changes []change
	for k := range lock.Keys {
		for i := range lock.Keys[k].Holds {
			h := &lock.Keys[k].Holds[i]
			over := until
			if !h.End.Open() {
				over = mid(h.End)
			}
			changes = append(changes, change{mid(h.Granted), 1}, change{over, -1})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by))
	})
	n, most := 0, 0
	for _, c := range changes {
		n += c.by
		most = max(most, n)
	}
	return most
}

type change struct {
	at float64
	by int
}
