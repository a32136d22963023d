package sim

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// gone notes that the locks' store does not answer from now on.
func (w *World) gone() {
	if n := len(w.probes.away); n == 0 || w.probes.away[n-1].To != Never {
		w.probes.away = append(w.probes.away, history.Span{From: w.now, To: Never})
	}
}

// back notes that it answers again, unless something else still keeps it, and has every watched key looked at.
func (w *World) back() {
	if w.store.away() {
		return
	}
	for i := range w.probes.away {
		w.probes.away[i].To = min(w.probes.away[i].To, w.now)
	}
	for _, k := range w.watched {
		w.changed(k)
	}
}

// sampleBefore is the last good look at the keys before the look n.
func (w *World) sampleBefore(n int64) history.Span {
	every := w.period(w.cfg.Looks.Keys)
	before, instant := w.sampleAt(every, max(0, n-1), saltKeys)
	for _, a := range slices.Backward(w.probes.away) {
		if instant >= a.From && instant < a.To {
			before, instant = w.sampleAt(every, max(0, w.nextSample(every, a.From, saltKeys)-1), saltKeys)
		}
	}
	return before
}

// cover says what a probe has covered up to now, and where it was blind.
func (w *World) cover(probe string, s Sampling, away []history.Span, end int64) {
	source := "probe:" + probe
	from := int64(0)
	s.Every = w.period(s)
	stretch := func(to int64, final bool) {
		w.emit(history.Event{Kind: history.CoverageKind, Span: history.Span{From: from, To: max(from, to)}, Source: source,
			Coverage: w.bodies.coverages.New(history.Coverage{Probe: probe, Samples: 1 + (to-from)/int64(s.Every), Largest: min(to-from, int64(s.Every)+2*int64(w.cfg.Net.Most)), Final: final})})
	}
	for _, a := range away {
		last := max(from, a.From-int64(s.Every))
		next := min(end, a.To+int64(s.Every)+2*int64(w.cfg.Net.Most))
		if next-last <= int64(s.MaxGap) {
			continue
		}
		stretch(last, false)
		w.emit(history.Event{Kind: history.GapKind, Span: history.Span{From: last, To: next}, Source: source,
			Coverage: w.bodies.coverages.New(history.Coverage{Probe: probe, Why: "the store did not answer", Largest: next - last})})
		from = next
	}
	stretch(end, true)
}

// lifeEvery is how often the stores are asked whether they are still the same.
const lifeEvery = 100 * time.Millisecond

// Begin has the first lives of both stores told.
func (w *World) Begin() {
	if !w.recording() {
		return
	}
	w.life("start")
	w.emit(history.Event{Kind: history.StoreIncarnation, Span: history.At(w.now), Source: "runner",
		Incarnation: &history.Incarnation{Store: "ledger", RunID: "ledger-1", Life: 1, Why: "start"}})
}

// life tells, when it is noticed, that the locks' store has begun another life.
func (w *World) life(why string) {
	if !w.recording() {
		return
	}
	w.probes.lives++
	e := history.Event{Kind: history.StoreIncarnation, Span: history.At(w.now), Source: "runner",
		Incarnation: &history.Incarnation{Store: "locks", RunID: "locks-" + strconv.Itoa(w.probes.lives), Life: w.probes.lives, Why: why}}
	if why == "start" {
		w.emit(e)
		return
	}
	n := w.nextSample(lifeEvery, w.now, saltLives)
	at, _ := w.sampleAt(lifeEvery, n, saltLives)
	before, _ := w.sampleAt(lifeEvery, max(0, n-1), saltLives)
	for _, a := range w.probes.away { // it was asked in vain meanwhile
		if before.From >= a.From && before.From < a.To {
			before, _ = w.sampleAt(lifeEvery, max(0, w.nextSample(lifeEvery, a.From, saltLives)-1), saltLives)
		}
	}
	e.Span = history.Span{From: before.From, To: at.To}
	w.After(time.Duration(at.To-w.now), func() { w.emit(e) })
}

// FinalLooks reads everything a last time, and closes what the probes have covered.
func (w *World) FinalLooks() {
	if !w.recording() {
		return
	}
	at := history.Span{From: w.now, To: w.now + 2*int64(w.cfg.Net.Most)}
	for _, k := range w.watched {
		w.expire(k)
	}
	news := w.entries(history.Span{From: max(0, w.now-2*int64(w.period(w.cfg.Looks.Ledger))), To: at.To}, nil)
	var looks []history.Event
	for _, k := range w.watched {
		e := w.shown(k, at, true)
		if w.news(k) && k.sampled.seen {
			n := w.nextSample(w.period(w.cfg.Looks.Keys), w.now, saltKeys)
			before := w.sampleBefore(n)
			e.Look.Prev = &before
		}
		looks = append(looks, e)
	}
	slices.SortFunc(looks, func(a, b history.Event) int { return cmp.Compare(a.Key, b.Key) })
	w.After(time.Duration(at.Width()), func() {
		for _, e := range append(looks, news...) {
			w.emit(e)
		}
		w.cover("lock_keys", w.cfg.Looks.Keys, w.probes.away, at.To)
		w.cover("ledger", w.cfg.Looks.Ledger, nil, at.To)
	})
}
