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
	seq   uint64
	kind  kind
	gen   uint32 // of what it is about: one that is out of date is dropped
	lease *lease
	call  *call
	task  *task
	write *write
	key   *keyState
	fn    func()
}

func (m *moment) before(o *moment) bool { return m.at < o.at || m.at == o.at && m.seq < o.seq }

// queue is a binary heap of moments that does not allocate once it has grown.
type queue struct{ all []moment }

func (q *queue) push(m moment) {
	q.all = append(q.all, m)
	i := len(q.all) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !m.before(&q.all[up]) {
			break
		}
		q.all[i] = q.all[up]
		i = up
	}
	q.all[i] = m
}

func (q *queue) pop() moment {
	first := q.all[0]
	n := len(q.all) - 1
	m := q.all[n]
	q.all[n] = moment{}
	q.all = q.all[:n]
	if n == 0 {
		return first
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && q.all[down+1].before(&q.all[down]) {
			down++
		}
		if !q.all[down].before(&m) {
			break
		}
		q.all[i] = q.all[down]
		i = down
	}
	q.all[i] = m
	return first
}
