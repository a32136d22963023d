package facts

import (
	"cmp"
	"iter"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Together is a time in which two replicas surely believed to hold one key.
type Together struct {
	Key          string // "" = of a lock with one key, whose believers do not name it
	A, B         string // incarnations, in the order in which their beliefs began
	history.Span        // in which both surely did
	Evidence     []int64
}

// Together are the times in which two replicas surely believed to hold a key of the lock, in the order of time, but for those in which one
// of them stood still. A time in which several did names each beside the one that did so longest.
func (ix *Facts) Together(lock string) (all []Together) {
	if !ix.Exp.Observed() {
		for _, k := range ix.KeysOf(lock) {
			held, _, _ := ix.holds(k, verdict.LevelBelief)
			var sure []stretchOf
			for _, s := range held {
				sure = append(sure, ix.moving(k.Epochs[s.holder].Replica, s)...)
			}
			all = append(all, ix.together(k.Name, sure, func(i int) (string, []int64) { return k.Epochs[i].Replica, []int64{k.Epochs[i].N} })...)
		}
	} else {
		believers := ix.believers(lock)
		keys := map[string][]stretchOf{}
		for _, b := range believers {
			for _, s := range b.sure {
				keys[b.key] = append(keys[b.key], ix.moving(b.who, s)...)
			}
		}
		for key, sure := range keys {
			all = append(all, ix.together(key, sure, func(i int) (string, []int64) { return believers[i].who, believers[i].seen })...)
		}
	}
	slices.SortFunc(all, func(a, b Together) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Key, b.Key), cmp.Compare(a.B, b.B))
	})
	return all
}

// moving is a stretch of a life without its pauses.
func (ix *Facts) moving(who string, s stretchOf) []stretchOf {
	left := []stretchOf{s}
	for _, p := range ix.Pauses[who] {
		left = cutOut(left, p.Widest)
	}
	return left
}

// together are the times in which two of the stretches of one key overlap; those of the same two that follow upon another are one.
func (ix *Facts) together(key string, sure []stretchOf, who func(holder int) (string, []int64)) (all []Together) {
	for _, c := range collisions(sure) {
		x, y := sure[c[0]], sure[c[1]]
		a, seenA := who(x.holder)
		b, seenB := who(y.holder)
		t := Together{Key: key, A: a, B: b, Span: history.Span{From: max(x.from, y.from), To: min(x.to, y.to, ix.Last)}, Evidence: Cite(slices.Concat(seenA, seenB)...)}
		if n := len(all) - 1; n >= 0 && (all[n].A == a && all[n].B == b || all[n].A == b && all[n].B == a) && all[n].To >= t.From {
			all[n].To = max(all[n].To, t.To)
		} else if t.To > t.From && a != b {
			all = append(all, t)
		}
	}
	return all
}

// Believed is when each life of a replica of somebody's own surely said that it held a key of the lock.
func (ix *Facts) Believed(lock string) map[string][]history.Span {
	said := map[string][]history.Span{}
	for _, b := range ix.believers(lock) {
		for _, s := range b.sure {
			if s.to = min(s.to, ix.Last); s.to > s.from {
				said[b.who] = append(said[b.who], history.Span{From: s.from, To: s.to})
			}
		}
	}
	return said
}

// BlindBelief is a life that lived in w and could not be asked for too long whether it holds the lock, and what it was that came instead of an
// answer; ok is false where each could.
func (ix *Facts) BlindBelief(lock string, w history.Span) (who, why string, dark history.Span, ok bool) {
	for _, b := range ix.believers(lock) {
		for _, s := range b.blind {
			if s.From >= w.To || s.To <= w.From {
				continue
			}
			for _, ev := range ix.beliefs[lock] {
				if ev.Belief.Gone != "" && ix.lifeOf(ev) == b.who && ev.From < s.To && ev.To > s.From {
					why = cmp.Or(ev.Belief.Why, ev.Belief.Gone)
					break
				}
			}
			return cmp.Or(ix.Writer(b.who), b.who), why, s, true
		}
	}
	return "", "", history.Span{}, false
}

// BelievedWhileStanding reports that somebody may have believed to hold the lock when a pause kept him standing.
func (ix *Facts) BelievedWhileStanding(lock string) bool {
	for _, b := range ix.believers(lock) {
		for _, p := range ix.Pauses[b.who] {
			if slices.ContainsFunc(b.maybe, func(s stretchOf) bool { return s.from <= p.Widest.To && s.to >= p.Widest.From }) {
				return true
			}
		}
	}
	return false
}

// Leaderless is for how long nobody led in w: nobody said so, or, where nobody is asked, nobody who lived had the key. Where nobody ever said
// so, or one that had the key never did, what is asked may tell nothing of it, and whoever had the key may have led.
func (ix *Facts) Leaderless(lock string, w history.Span) (d Dur, n int, evidence []int64) {
	if ix.within != nil {
		w, _ = w.Intersect(*ix.within)
	}
	var sure, maybe []stretchOf
	unread := int64(0)
	l := ix.Exp.Lock(lock)
	asked := l != nil && l.Belief != nil
	if asked {
		for _, b := range ix.believers(lock) {
			short, again := ix.betweenReadings(b, w)
			sure, maybe, n = append(sure, b.sure...), slices.Concat(maybe, b.maybe, short), n+b.n
			evidence = append(evidence, b.seen...)
			unread += again
		}
	}
	for e, until := range ix.holdsOf(lock) {
		switch {
		case !asked:
			sure = append(sure, stretchOf{e.Granted.To, until.From, 0})
			n, evidence = n+1, append(evidence, e.N)
		case n > 0 && !ix.silent(e, until):
			continue
		}
		maybe = append(maybe, stretchOf{e.Granted.From, until.To, 0})
	}
	if !asked || n == 0 {
		unseen := ix.Probes[ix.Looker(lock)].Blinds(w, 0) // somebody may have come and gone there, however short it was
		for _, k := range ix.KeysOf(lock) {               // or a shot alone have found him
			unseen = append(unseen, ix.foundUnseen(k)...)
			unseen = append(unseen, ix.tickedUnseen(k)...)
		}
		for _, s := range unseen {
			maybe = append(maybe, stretchOf{s.From, s.To, 0})
		}
		for _, s := range ix.losses { // or been lost with the store's data, before a look showed it
			maybe = append(maybe, stretchOf{s.From - ix.probeOf(ix.Looker(lock)).largest, s.To, 0})
		}
	}
	none := w.Width() - filled(sure, w)
	return Dur{Lo: w.Width() - filled(maybe, w), Hi: min(w.Width(), none+unread)}, n, Cite(evidence...)
}

// holdsOf are the grants of the lock's keys, and when each was let go.
func (ix *Facts) holdsOf(lock string) iter.Seq2[*Epoch, history.Span] {
	return func(yield func(*Epoch, history.Span) bool) {
		for _, e := range ix.EpochsOf(lock) {
			if !e.Ghost && !e.Stranger && !yield(e, ix.letGo(e)) {
				return
			}
		}
	}
}

// silent reports that a life had e's key until then, awake, for longer than one that is asked may stay unasked, and never in the run said that it
// did: what is asked may tell nothing of it.
func (ix *Facts) silent(e *Epoch, until history.Span) bool {
	held := history.Span{From: e.Granted.To, To: min(until.From, ix.Last)}
	standing := int64(0)
	for _, p := range ix.Pauses[e.Replica] {
		standing += common(p.Widest, held)
	}
	if e.Replica == "" || held.To-held.From-standing <= ix.MaxGap(history.BeliefProbe(e.Lock)) {
		return false
	}
	return !slices.ContainsFunc(ix.believers(e.Lock), func(b *believer) bool {
		return b.of(ix.Keys[e.Key], e.Replica) && (b.n > 0 || len(b.blind) > 0)
	})
}

// EverSaid reports that a replica said at some time that it holds the lock: what is asked tells something of it.
func (ix *Facts) EverSaid(lock string) bool {
	return slices.ContainsFunc(ix.believers(lock), func(b *believer) bool { return b.n > 0 })
}

// SilentHolder is one that had a key of the lock and never said so, and for how long it had; ok is false where all who did said so.
func (ix *Facts) SilentHolder(lock string) (who string, held int64, ok bool) {
	for e, until := range ix.holdsOf(lock) {
		if ix.silent(e, until) {
			return cmp.Or(ix.Writer(e.Replica), e.Replica), min(until.From, ix.Last) - e.Granted.To, true
		}
	}
	return "", 0, false
}

// tickedUnseen is when a loop that gives its key back after each tick may have led between two looks that showed its key to be free: a look
// around each of its effects there; where not all of those could be read, and where none are, at any time.
func (ix *Facts) tickedUnseen(k *Key) (all []history.Span) {
	if loop := ix.policy(k.Lock).Loop; !ix.Exp.Observed() || loop == nil || loop.Mode != lockcore.LoopExplicit {
		return nil
	}
	apart := ix.probeOf(ix.Looker(k.Lock)).largest
	for _, s := range k.Looks {
		if s.epoch != "" || s.next != nil && s.next.direct {
			continue
		}
		free := history.Span{From: max(0, s.prev.From), To: Open}
		if s.next != nil {
			free.To = s.next.First.To
		}
		if ledger := ix.LedgerOf(k.Lock); !ix.Ledgered[k.Lock] || ix.mayHide(k.Lock, free.From) || ix.Unread[ledger] > 0 {
			all = append(all, free)
			continue
		}
		for _, f := range k.Effects {
			if w, in := free.Intersect(history.Span{From: f.Span.From - apart, To: f.Span.To + apart}); in {
				all = append(all, w)
			}
		}
	}
	return all
}

// shownAway is when b said that it held the key while looks around showed that it did not: it may have been granted it between two of them, and
// again between the next.
func shownAway(b *believer, k *Key) (away []stretchOf) {
	for _, s := range k.Looks {
		if e := k.of(s); e != nil && !e.Stranger && b.of(k, cmp.Or(e.Replica, b.who)) {
			continue
		}
		w := history.Span{From: max(0, s.prev.From), To: s.last().To}
		if s.next != nil {
			w.To = s.next.First.To
		}
		away = append(away, cutTo(b.sure, w)...)
	}
	return away
}

// betweenReadings is what b, who is asked again and again, may have done between two readings, by the grants of its keys: led for a short
// time, or ceased to and led again in w, of which it tells for how long at most.
func (ix *Facts) betweenReadings(b *believer, w history.Span) (led []stretchOf, ceased int64) {
	if b.apart == 0 {
		return nil, 0
	}
	for _, k := range ix.KeysOf(b.lock) {
		ceased += filled(shownAway(b, k), w)
		for i, e := range k.Epochs {
			if !b.of(k, cmp.Or(e.Replica, b.who)) {
				continue
			}
			led = append(led, stretchOf{e.Granted.From, Plus(Plus(e.Granted.To, ix.flight(ix.policy(k.Lock).Acquire.Timeout)), b.apart), b.place})
			if i > 0 && slices.ContainsFunc(b.sure, func(s stretchOf) bool { return s.from <= e.Granted.To && s.to >= e.Granted.From }) {
				ceased += b.apart
			}
		}
	}
	return led, ceased
}
