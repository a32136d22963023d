package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/linestream"
)

// podWorker is one worker that has said hello. podLives.mu guards it.
type podWorker struct {
	hello   linestream.Hello
	life    *podLife        // of a container, once that is known
	replica history.Replica // the zero value until it has a slot
	started history.Span    // when it got that

	heard int64 // number of the last line that came
	lines int   // that were events
	wrong int   // lines that were not
	first string
	left  bool   // no more lines come
	why   string // and why, where that is out of order

	over *lifeEnd // nil = it may live
	told bool     // its replica.exit was told, or will not be
}

// hello takes note of a worker. Whoever was in the same container before it is dead.
func (f *PodFleet) hello(h linestream.Hello) {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	w := &podWorker{hello: h}
	for _, l := range f.lives.lives {
		if l.worker == h.Life {
			w.life = l
		}
	}
	for _, old := range f.workers {
		switch {
		case old.hello.UID != h.UID || old.over != nil:
		case old.hello.At.From > h.At.To: // heard of late: it is the one before
			f.succeeded(w, old.hello.At.To)
		default:
			f.succeeded(old, h.At.To)
		}
	}
	f.workers = append(f.workers, w)
	if w.life != nil && w.life.end != nil {
		f.ended(w, w.life.end)
	}
	f.assign()
}

// succeeded ends a worker whose container has another by now.
func (f *PodFleet) succeeded(w *podWorker, at int64) {
	if w.life != nil {
		f.lives.finish(w.life, at, history.BySuccessor, "")
		return
	}
	from := w.started.From
	if sign, ok := f.line.Sign(w.hello.Life); ok {
		from = max(from, sign)
	}
	f.ended(w, &lifeEnd{Span: history.Span{From: min(from, at), To: at}, by: history.BySuccessor})
}

// logged reads a line of a container's log: its first says who the worker is, the others which line of the worker's they are, and up to
// which the store had acknowledged them by then. What was not acknowledged when a worker died need not have come.
func (f *PodFleet) logged(l *podLife, line []byte, _ history.Span) {
	number, text, ok := bytes.Cut(line, []byte(" "))
	number, kept, concurrent := bytes.Cut(number, []byte("/"))
	n, err := strconv.ParseInt(string(number), 10, 64)
	if !ok || err != nil {
		return
	}
	if n > 0 {
		k := n - 1 // a worker that waits for one line before it prints the next need not say so
		if concurrent {
			if k, err = strconv.ParseInt(string(kept), 10, 64); err != nil || k >= n {
				return
			}
		}
		if !l.astray {
			l.kept = max(l.kept, k)
		}
		return
	}
	var hello struct {
		Life string `json:"life"`
	}
	if json.Unmarshal(text, &hello) != nil || hello.Life == "" {
		return
	}
	if l.worker != "" && l.worker != hello.Life { // the node shows the next life's log before the API server knows of that
		l.astray = true
		return
	}
	l.worker, l.kept = hello.Life, 0
	for _, w := range f.workers {
		if w.hello.Life == hello.Life && w.life == nil {
			w.life, l.incarnation = l, w.replica.Incarnation
			if l.end != nil && w.over == nil {
				f.ended(w, l.end)
			}
		}
	}
}

// sign is the last instant at which a container's life surely lived.
func (f *PodFleet) sign(l *podLife) int64 {
	if l.worker == "" {
		return l.began.From
	}
	at, _ := f.line.Sign(l.worker)
	return max(at, l.began.From)
}

// hear turns a line into a claim.
func (f *PodFleet) hear(line linestream.Line) {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	w := f.worker(line.Life)
	if w == nil || w.replica.Incarnation == "" || w.told {
		return
	}
	w.heard = max(w.heard, line.N)
	e, err := f.claim(w, line)
	if err != nil {
		w.bad(line.Text, err)
		return
	}
	w.lines++
	f.o.Pods.OnEvent(e)
}

// claim moves an event of a worker to the runner's clock. Its bracket cannot begin before the worker was told who it is, nor end after
// its line was heard.
func (f *PodFleet) claim(w *podWorker, line linestream.Line) (history.Event, error) {
	var e history.Event
	err := claim(new(history.Parser), line.Text, &w.replica, 0, &e)
	if err != nil {
		return e, err
	}
	e.Clock = history.ClockBounds
	if e.Kind == history.ReplicaReady {
		e.Replica.Metrics = "" // it is an address on the pod's loopback, which is not ours
	}
	possible := history.Span{From: w.started.From, To: line.Heard}
	at, answered := line.Shift.Runner(e.Span), line.Shift.Runner(history.At(e.To))
	var ok bool
	if e.Span, ok = at.Intersect(possible); !ok {
		return e, fmt.Errorf("stamped %v, and it was told who it is and heard in %v", at, possible)
	}
	if e.Call != nil && e.Outcome != "" {
		e.Call.Answered = max(answered.From, possible.From)
	}
	return e, nil
}

func (f *PodFleet) worker(life string) *podWorker {
	for _, w := range f.workers {
		if w.hello.Life == life {
			return w
		}
	}
	return nil
}

func (w *podWorker) bad(line []byte, err error) {
	w.wrong++
	if w.first == "" {
		w.first = badLine(line, err)
	}
}

// left takes note that no more lines of a worker come. That is no end of a process.
func (f *PodFleet) left(e linestream.End) {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	if w := f.worker(e.Life); w != nil {
		w.left = true
		if e.Err != nil {
			w.why = e.Err.Error()
			if !errors.Is(e.Err, linestream.ErrGone) { // what it claimed from then on is lost, which its log does not always show
				w.bad(nil, e.Err)
			}
		}
		f.wake()
	}
}

// wake wakes whoever waits for the ends of workers.
func (f *PodFleet) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// lifeEnded ends the worker that the container's life was.
func (f *PodFleet) lifeEnded(l *podLife) {
	for _, w := range f.workers {
		if w.life == l && w.over == nil {
			f.ended(w, l.end)
			return
		}
	}
	if l.worker != "" { // it has not said hello to the fleet
		return
	}
	// No log says whose life this was. It was that of the only one there, if that one is not heard any more.
	var only []*podWorker
	for _, w := range f.workers {
		if w.hello.UID == l.pod.UID && w.over == nil && w.life == nil && w.hello.At.To < l.end.To {
			only = append(only, w)
		}
	}
	if len(only) == 1 && only[0].replica.Incarnation != "" {
		f.ends.Go(func() { f.suppose(only[0], l) })
	}
}

// suppose takes a life for a worker's, unless that worker is heard after its end.
func (f *PodFleet) suppose(w *podWorker, l *podLife) {
	<-time.After(signQuiet)
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	if sign, ok := f.line.Sign(w.hello.Life); w.over == nil && w.life == nil && l.worker == "" && (!ok || sign <= l.end.To) {
		end := *l.end
		if ok {
			end.From = max(end.From, sign)
		}
		w.life, l.incarnation = l, w.replica.Incarnation
		f.ended(w, &end)
	}
}

// ended notes a worker's end, and has it told after the last of its lines.
func (f *PodFleet) ended(w *podWorker, end *lifeEnd) {
	w.over = end
	if w.replica.Incarnation == "" {
		w.told = true
		f.line.Forget(w.hello.Life)
		return
	}
	f.ends.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastLines)
		defer cancel()
		err := f.line.Settle(ctx, w.hello.Life)
		if read := f.reading(w); read != nil {
			select {
			case <-read:
			case <-ctx.Done():
			}
		}
		f.recordEnd(w, err)
	})
}

// reading is closed when the log of a worker has been read; nil = nobody reads it.
func (f *PodFleet) reading(w *podWorker) <-chan struct{} {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	if w.life == nil {
		return nil
	}
	return w.life.read
}

func (f *PodFleet) recordEnd(w *podWorker, unsettled error) {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	r := w.replica
	r.Lines, r.Bad, r.BadLine = w.lines, w.wrong, w.first
	r.Wanted = f.o.Wanted != nil && f.o.Wanted(r.Incarnation)
	l := w.life
	if l == nil {
		b := f.body(w)
		l = &podLife{pod: &pod{}, end: w.over}
		l.pod.Name, l.pod.UID, l.pod.Node, l.pod.Labels, l.restarts = b.Name, b.UID, b.Node, b.Labels, b.Restarts
	} else {
		r.Unheard = int(max(0, l.kept-w.heard))
	}
	told := *l
	end := *w.over
	end.From = min(max(end.From, w.started.From), end.To)
	told.end = &end
	e := told.exit(r)
	if w.why != "" {
		e.Replica.Exit += "; its line: " + w.why
	} else if unsettled != nil && !errors.Is(unsettled, context.Canceled) {
		e.Replica.Exit += "; its last lines: " + unsettled.Error()
	}
	w.told = true
	f.mu.Lock()
	delete(f.assigned, r.Incarnation)
	f.mu.Unlock()
	f.line.Forget(w.hello.Life)
	f.o.Pods.OnEvent(e)
	f.wake()
}
