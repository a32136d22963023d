package client

import "time"

// deadlines is a heap of when handles are due, earliest first. Each handle knows its rank there. What is compared stands side by side, and
// each has four below it: a lock that is renewed moves three times an interval, and with many locks that must touch few other handles.
type deadlines []deadline

type deadline struct {
	at time.Duration // Mono
	h  *Handle
}

// set puts h at its deadline, whether it is there already or not.
func (d *deadlines) set(h *Handle, at time.Duration) {
	if h.rank == 0 {
		*d = append(*d, deadline{})
		h.rank = len(*d)
	}
	d.settle(h.rank-1, deadline{at, h})
}

// remove takes h out, if it is there.
func (d *deadlines) remove(h *Handle) {
	i, last := h.rank-1, len(*d)-1
	if i < 0 {
		return
	}
	moved := (*d)[last]
	(*d)[last] = deadline{}
	*d = (*d)[:last]
	if h.rank = 0; i < last {
		d.settle(i, moved)
	}
}

// take removes what is due at now, or everything, and appends it to due.
func (d *deadlines) take(now time.Duration, all bool, due []*Handle) []*Handle {
	for len(*d) > 0 && (all || (*d)[0].at <= now) {
		h := (*d)[0].h
		due = append(due, h)
		d.remove(h)
	}
	return due
}

// first is the earliest deadline.
func (d deadlines) first() (at time.Duration, ok bool) {
	if len(d) == 0 {
		return 0, false
	}
	return d[0].at, true
}

// below is how many stand below each.
const below = 4

// settle finds the place of e, beginning at i, which is free.
func (d deadlines) settle(i int, e deadline) {
	for ; i > 0 && e.at < d[(i-1)/below].at; i = (i - 1) / below {
		d.put(i, d[(i-1)/below])
	}
	for {
		least := below*i + 1
		if least >= len(d) {
			break
		}
		for j := least + 1; j < min(below*i+below+1, len(d)); j++ {
			if d[j].at < d[least].at {
				least = j
			}
		}
		if e.at <= d[least].at {
			break
		}
		d.put(i, d[least])
		i = least
	}
	d.put(i, e)
}

func (d deadlines) put(i int, e deadline) {
	d[i] = e
	e.h.rank = i + 1
}
