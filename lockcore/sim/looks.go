package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// probes is what the two probes have seen. They look at fixed periods; what shows nothing new is not played through.
type probes struct {
	ledger  int   // entries that were told
	planned bool  // a look at the ledger is planned
	number  int64 // of that look
	fresh   []history.Event
	away    []history.Span // when the locks' store did not answer
	lives   int            // of the locks' store
}

// sample is what the key probe last saw of one key.
type sample struct {
	watched int64 // since when; 0 = not watched. Times are shifted by 1, so that the beginning counts
	planned bool
	seen    bool // a look has shown something already
	holder  int
	ends    int64
}

// Watch has the key probe look at a key from now on.
func (w *World) Watch(lock, key string) {
	k := w.keyOf(lock, key)
	if k.sampled.watched == 0 {
		k.sampled.watched = w.now + 1
		w.watched = append(w.watched, k)
	}
}

func (w *World) sorted() []*keyState {
	keys := make([]*keyState, 0, len(w.keys))
	for _, k := range w.keys {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b *keyState) int { return cmp.Compare(a.name, b.name) })
	return keys
}

// sampleAt is the bracket of the look number n of a period, with the instant in it at which the store answered. It draws from no
// randomness but its own number: whether anybody looks changes nothing.
func (w *World) sampleAt(every time.Duration, n int64, salt uint64) (at history.Span, instant int64) {
	h := mix(w.cfg.Seed ^ mix(uint64(n)+salt<<40))
	width := int64(w.cfg.Net.Most-w.cfg.Net.Least) + 1
	sent := n * int64(every)
	instant = sent + int64(w.cfg.Net.Least) + int64(h%uint64(width))
	return history.Span{From: sent, To: instant + int64(w.cfg.Net.Least) + int64(h>>32%uint64(width))}, instant
}

// period is how often a probe really looks: a look is made when the one before it is there.
func (w *World) period(s Sampling) time.Duration {
	if s.Every <= 0 {
		return 0
	}
	turns := (2*w.cfg.Net.Most + s.Every) / s.Every
	return turns * s.Every
}

// nextSample is the first look whose instant is not before t.
func (w *World) nextSample(every time.Duration, t int64, salt uint64) int64 {
	n := max(0, t/int64(every)-1-2*int64(w.cfg.Net.Most)/int64(every))
	for {
		if _, instant := w.sampleAt(every, n, salt); instant >= t {
			return n
		}
		n++
	}
}

const (
	saltKeys   = 1
	saltLedger = 2
	saltLives  = 3
)

// changed has the key looked at, where somebody does.
func (w *World) changed(k *keyState) {
	every := w.period(w.cfg.Looks.Keys)
	if !w.recording() || every <= 0 || k.sampled.watched == 0 || k.sampled.planned {
		return
	}
	k.sampled.planned = true
	_, instant := w.sampleAt(every, w.nextSample(every, w.now, saltKeys), saltKeys)
	w.plan(moment{at: instant, kind: atLook, key: k})
}

// look is one look at a key whose state may have changed: what it shows is told when the reply is there.
func (w *World) look(k *keyState) {
	k.sampled.planned = false
	if w.store.away() {
		return // back has it looked at again
	}
	w.expire(k)
	every := w.period(w.cfg.Looks.Keys)
	n := w.nextSample(every, w.now, saltKeys)
	at, _ := w.sampleAt(every, n, saltKeys)
	if !w.news(k) {
		return
	}
	e := w.shown(k, at, false)
	before := w.sampleBefore(n)
	if k.sampled.seen || before.From >= k.sampled.watched-1 && n > 0 {
		e.Look.Prev = w.bodies.spans.New(before)
	}
	k.sampled.seen, k.sampled.holder, k.sampled.ends = true, k.holder, k.ends
	w.sayAt(at.To, e)
}

// news reports whether the key differs from what was seen last by more than the passing of time.
func (w *World) news(k *keyState) bool {
	const rounding = int64(2 * time.Millisecond)
	if k.holder != k.sampled.holder {
		return true
	}
	return k.holder != 0 && k.ends > k.sampled.ends+rounding
}

// shown is what a look at the key shows now.
func (w *World) shown(k *keyState, at history.Span, final bool) history.Event {
	e := history.Event{Kind: history.LookKind, Span: at, Source: "probe:lock_keys", Lock: k.lock, Key: k.name,
		Look: w.bodies.looks.New(history.Look{PTTL: -2, Server: w.server().UnixMicro(), Final: final})}
	if k.holder != 0 {
		e.Epoch = w.epochOf(k.holder)
		e.Look.Present, e.Look.PTTL = true, (k.ends-w.now)/1e6*1e6
		if k.ends == Never {
			e.Look.PTTL = -1
		}
	}
	return e
}

// entered has the ledger looked at: it has a new entry.
func (w *World) entered() {
	every := w.period(w.cfg.Looks.Ledger)
	if !w.recording() || every <= 0 || w.probes.planned {
		return
	}
	w.probes.planned = true
	w.probes.number = w.nextSample(every, w.now+1, saltLedger)
	_, instant := w.sampleAt(every, w.probes.number, saltLedger)
	w.plan(moment{at: instant, kind: atRead})
}

// read is the look at the ledger that was planned: what it shows is told when the reply is there.
func (w *World) read() {
	w.probes.planned = false
	every := w.period(w.cfg.Looks.Ledger)
	at, _ := w.sampleAt(every, w.probes.number, saltLedger)
	before, _ := w.sampleAt(every, w.probes.number-1, saltLedger)
	w.probes.fresh = w.entries(history.Span{From: max(0, before.From), To: at.To}, w.probes.fresh[:0])
	for i := range w.probes.fresh {
		w.sayAt(at.To, w.probes.fresh[i])
	}
}

// entries adds what is new in the ledger.
func (w *World) entries(at history.Span, out []history.Event) []history.Event {
	for _, x := range w.ledger.Entries(int64(w.probes.ledger)) {
		w.probes.ledger++
		out = append(out, history.Event{
			Kind: history.LedgerEntry, Span: at, Source: "probe:ledger", Lock: w.keys[x.Key].lock, Key: x.Key, Epoch: x.Epoch, Fence: x.Fence, Op: x.Op,
			Entry: w.bodies.entries.New(history.Entry{Pos: x.Pos, Subject: x.Subject, Loop: x.Loop, State: x.State, Terminal: x.Terminal,
				Accepted: x.Accepted, Reason: x.Reason, Writer: x.Writer}),
		})
	}
	return out
}
