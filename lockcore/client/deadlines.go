package client

import "time"

// bucketWidth is the stretch of time whose deadlines stand together. In a crowd, so many gather for a round anyway.
const bucketWidth = crowdPause

// deadlines is a calendar: a bucket for each stretch of time in which something is due, and a heap of those buckets. A lock that is
// renewed changes its deadline three times an interval; with many locks that must touch no other lock's handle, and no long heap.
// Each handle knows its bucket and its place there.
type deadlines struct {
	n       int
	buckets map[time.Duration]*bucket // by number
	order   buckets
	spare   []*bucket
}

// bucket is the deadlines of one stretch, in no order.
type bucket struct {
	number time.Duration // the stretch begins at number * bucketWidth
	slot   int           // in the heap
	all    []deadline
}

type deadline struct {
	at time.Duration // Mono
	h  *Handle
}

func newDeadlines() deadlines { return deadlines{buckets: map[time.Duration]*bucket{}} }

// set puts h at its deadline, whether it is there already or not.
func (d *deadlines) set(h *Handle, at time.Duration) {
	number := max(at, 0) / bucketWidth
	if b := h.bucket; b != nil && b.number == number {
		b.all[h.slot].at = at
		return
	}
	d.remove(h)
	b := d.buckets[number]
	if b == nil {
		b = d.open(number)
	}
	h.bucket, h.slot = b, len(b.all)
	b.all = append(b.all, deadline{at, h})
	d.n++
}

// remove takes h out, if it is there.
func (d *deadlines) remove(h *Handle) {
	b := h.bucket
	if b == nil {
		return
	}
	last := len(b.all) - 1
	moved := b.all[last]
	b.all[h.slot] = moved
	moved.h.slot = h.slot
	b.all[last] = deadline{}
	b.all = b.all[:last]
	h.bucket = nil
	d.n--
	if last == 0 {
		d.drop(b)
	}
}

// take removes what is due at now, or everything, and appends it to due: bucket by bucket, in no order within one.
func (d *deadlines) take(now time.Duration, all bool, due []*Handle) []*Handle {
	for len(d.order) > 0 {
		b := d.order[0]
		whole := all || (b.number+1)*bucketWidth <= now
		if !whole && b.number*bucketWidth > now {
			return due
		}
		for i := len(b.all) - 1; i >= 0; i-- {
			if e := b.all[i]; whole || e.at <= now {
				due = append(due, e.h)
				d.remove(e.h)
			}
		}
		if !whole {
			return due
		}
	}
	return due
}

// first is the earliest deadline.
func (d *deadlines) first() (at time.Duration, ok bool) {
	if len(d.order) == 0 {
		return 0, false
	}
	all := d.order[0].all
	at = all[0].at
	for _, e := range all[1:] {
		at = min(at, e.at)
	}
	return at, true
}

// open makes an empty bucket, which must not stay so.
func (d *deadlines) open(number time.Duration) *bucket {
	b := &bucket{}
	if n := len(d.spare); n > 0 {
		b, d.spare = d.spare[n-1], d.spare[:n-1]
	}
	b.number, b.slot = number, len(d.order)
	d.buckets[number] = b
	d.order = append(d.order, nil)
	d.order.settle(b.slot, b)
	return b
}

// drop takes an empty bucket out.
func (d *deadlines) drop(b *bucket) {
	delete(d.buckets, b.number)
	last := len(d.order) - 1
	moved := d.order[last]
	d.order[last] = nil
	d.order = d.order[:last]
	if b.slot < last {
		d.order.settle(b.slot, moved)
	}
	if len(d.spare) < spareBuckets {
		d.spare = append(d.spare, b)
	}
}

// spareBuckets bounds what is kept for reuse.
const spareBuckets = 64

// buckets is a heap, earliest first.
type buckets []*bucket

// settle finds the place of b, beginning at the free slot i.
func (s buckets) settle(i int, b *bucket) {
	for i > 0 && b.number < s[(i-1)/2].number {
		s.place(i, s[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		least := 2*i + 1
		if least >= len(s) {
			break
		}
		if right := least + 1; right < len(s) && s[right].number < s[least].number {
			least = right
		}
		if b.number <= s[least].number {
			break
		}
		s.place(i, s[least])
		i = least
	}
	s.place(i, b)
}

func (s buckets) place(i int, b *bucket) {
	s[i] = b
	b.slot = i
}
