package client

import "time"

// deadlines is a heap of four children each, earliest first; each handle knows its slot. The deadlines stand in the heap itself, so
// that comparing them touches no handle: with many locks that is most of what a renewal costs.
type deadlines []deadline

type deadline struct {
	at time.Duration // Mono
	h  *Handle
}

const children = 4

// set puts h at its deadline, whether it is there already or not.
func (d *deadlines) set(h *Handle, at time.Duration) {
	if h.slot < 0 {
		h.slot = len(*d)
		*d = append(*d, deadline{})
	}
	d.settle(h.slot, deadline{at, h})
}

// remove takes h out, if it is there.
func (d *deadlines) remove(h *Handle) {
	i := h.slot
	if i < 0 {
		return
	}
	h.slot = -1
	last := len(*d) - 1
	moved := (*d)[last]
	(*d)[last] = deadline{}
	*d = (*d)[:last]
	if i < last {
		d.settle(i, moved)
	}
}

// settle finds the place of e, beginning at the free slot i.
func (d *deadlines) settle(i int, e deadline) {
	s := *d
	for i > 0 && e.at < s[(i-1)/children].at {
		s.place(i, s[(i-1)/children])
		i = (i - 1) / children
	}
	for {
		first := children*i + 1
		if first >= len(s) {
			break
		}
		least := first
		for c := first + 1; c < min(first+children, len(s)); c++ {
			if s[c].at < s[least].at {
				least = c
			}
		}
		if e.at <= s[least].at {
			break
		}
		s.place(i, s[least])
		i = least
	}
	s.place(i, e)
}

func (d deadlines) place(i int, e deadline) {
	d[i] = e
	e.h.slot = i
}
