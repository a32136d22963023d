package sim

// kind says what a moment is about.
type kind uint8

const (
	doFunc     kind = iota
	atDeadline      // lease: the machine's Next has come
	atStore         // call: the request reaches the store
	atClient        // call: the reply reaches the caller
	atLimit         // call: its deadline has come
	atLater         // call: a call that was held back is sent on
	atTask          // task: what it waits for has come
	atLedger        // write: the request reaches the ledger
	atWriter        // write: the reply reaches the writer
	atExpiry        // key: its lease may have run out
	atLook          // key: the next look at it
)

// moment is one thing that will happen. Moments of the same instant happen in the order in which they were planned.
type moment struct {
	at    int64 // ns
	seq   uint32
	kind  kind
	gen   uint32 // of what it is about: one that is out of date is dropped
	lease *lease
	call  *call
	task  *task
	write *write
	key   *keyState
	fn    func()
}

// queue gives moments in the order of time, and of planning where that is the same. It is a binary heap of numbers beside the moments
// themselves, so that sorting moves no pointers; it does not allocate once it has grown.
type queue struct {
	heap    []entry
	moments []moment
	free    []int32
}

type entry struct {
	at  int64
	seq uint32
	n   int32 // of moments
}

func (e entry) before(o entry) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (q *queue) reset() {
	q.heap, q.moments, q.free = q.heap[:0], q.moments[:0], q.free[:0]
}

// next is when the next moment comes; false = none will.
func (q *queue) next() (int64, bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

func (q *queue) push(m *moment) {
	e := entry{at: m.at, seq: m.seq}
	if n := len(q.free); n > 0 {
		e.n = q.free[n-1]
		q.free = q.free[:n-1]
		q.moments[e.n] = *m
	} else {
		e.n = int32(len(q.moments))
		q.moments = append(q.moments, *m)
	}
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(q.heap[up]) {
			break
		}
		q.heap[i] = q.heap[up]
		i = up
	}
	q.heap[i] = e
}

func (q *queue) pop() moment {
	first := q.heap[0]
	q.free = append(q.free, first.n)
	n := len(q.heap) - 1
	e := q.heap[n]
	q.heap = q.heap[:n]
	i := 0
	for n > 0 {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && q.heap[down+1].before(q.heap[down]) {
			down++
		}
		if !q.heap[down].before(e) {
			break
		}
		q.heap[i] = q.heap[down]
		i = down
	}
	if n > 0 {
		q.heap[i] = e
	}
	return q.moments[first.n]
}
