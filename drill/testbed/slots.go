package testbed

import (
	"fmt"
	"slices"
)

// slots names the lives of somebody's own replicas: r1, r2 ... for the replica, r1.2 for whoever takes the slot after r1.1.
type slots[L any] struct{ all []slot[L] }

// slot is a replica by its name.
type slot[L any] struct {
	lives int // so far
	last  L
}

// take gives a life the first slot whose last life fits, by the first of these that finds one; else a new slot.
func (s *slots[L]) take(life L, fits ...func(last L) bool) (name, incarnation string) {
	at := -1
	for _, fit := range fits {
		if at = slices.IndexFunc(s.all, func(s slot[L]) bool { return fit(s.last) }); at >= 0 {
			break
		}
	}
	if at < 0 {
		at = len(s.all)
		s.all = append(s.all, slot[L]{})
	}
	s.all[at].lives++
	s.all[at].last = life
	name = fmt.Sprintf("r%d", at+1)
	return name, fmt.Sprintf("%s.%d", name, s.all[at].lives)
}

// Living is a replica of somebody's own that lives.
type Living struct {
	Incarnation string
	Name        string            // its owner's word for it; of a pod, the pod's name
	PID         int               // 0 = it is no process of this host
	Since       int64             // it lives at the latest since then, ns since the run's origin
	Known       map[string]string // what is known of it, by the words that templates use
	Log         string            // path of its log; "" = not known
	Metrics     string            // address of its exposition; "" = not known
}
