package facts

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// What replicas of somebody's own say of whether they hold a lock: the claims of a system that makes none. A belief lasts from the reading
// that first shows it to the one that no longer does, and each of its ends lies between two readings. It ends with its replica.

// believer is what one life said of itself under a key of a lock.
type believer struct {
	lock        string
	key, who    string
	place       int            // among all
	sure, maybe []stretchOf    // in which it surely held, or may have; their holder is its place among all
	blind       []history.Span // in which it lived, moved and could not be asked, each longer than is tolerated
	apart       int64          // so long it may have been otherwise between two readings; 0 where a log tells of each change
	n           int            // times that it began to
	again       []history.Span // from when on it said so to when it did again: nothing tells what was between, and a line tells of a new grant
	seen        []int64        // the events that say so
}

// of reports that b tells of who under the key.
func (b *believer) of(k *Key, who string) bool {
	return b.who == who && (b.key == k.Name || b.key == "" && k.Loop)
}

// until is when b was surely heard before t: what it said later may be about the grant that it had from t on.
func (b *believer) until(t int64) int64 {
	t -= b.apart
	for _, s := range b.again {
		if s.From < t && s.To > t {
			t = s.From
		}
	}
	return t
}

// reading is what a source said, from the first look that showed it to the last.
type reading struct {
	holds, gone bool
	first, last history.Span
	n           int64
}

// believers of the lock, a life and a key each.
func (ix *Facts) believers(lock string) []*believer {
	type of struct{ who, key string }
	said, order := map[of][]reading{}, []of{}
	cut := ix.cutLines[history.BeliefProbe(lock)]
	add := func(o of, r reading) {
		if said[o] == nil {
			order = append(order, o)
		}
		said[o] = append(said[o], r)
	}
	for _, ev := range ix.beliefs[lock] {
		b := ev.Belief
		o := of{ix.lifeOf(ev), ev.Key}
		if o.who == "" || b.Gone == history.GoneExited {
			continue
		}
		r := reading{holds: b.Holds, gone: b.Gone != "", first: ev.Span, last: ev.Span, n: ev.N}
		if rs := said[o]; len(rs) > 0 {
			last := &rs[len(rs)-1]
			if b.By == experiments.HolderByLog && !b.Direct && !r.gone && r.holds != last.holds { // its lines, which tell of each change, were taken for its last life's
				continue
			}
			_, untold := firstIn(cut, history.Span{From: last.first.From, To: ev.To}) // a line in between that told of another change
			switch {
			case b.Direct:
				last.last = ev.Span
			case b.Prev != nil:
				last.last = *b.Prev
			}
			if last.holds == r.holds && last.gone == r.gone && !(b.Direct && (untold || b.Holds)) {
				last.last = r.last
				continue
			}
		}
		add(o, r)
	}
	var all []*believer
	for i, o := range order {
		all = append(all, ix.believer(lock, o.who, o.key, said[o], i))
	}
	return all
}

// lifeOf is whose belief an event tells of. A line of a log that goes on over restarts is of the life that lived when it was written.
func (ix *Facts) lifeOf(ev *history.Event) string {
	who := ev.Belief.Incarnation
	d, dead := ix.Deaths[who]
	if !ev.Belief.Direct || !dead || ev.From < d.To {
		return who
	}
	for _, s := range ix.Starts {
		if next := s.Replica.Incarnation; history.ReplicaOf(next) == history.ReplicaOf(who) && s.From >= d.From && s.From <= ev.To {
			who = next
		}
	}
	return who
}

// believer puts the readings of one life in order.
func (ix *Facts) believer(lock, who, key string, rs []reading, place int) *believer {
	b := &believer{lock: lock, key: key, who: who, place: place}
	tolerated := ix.MaxGap(history.BeliefProbe(lock))
	read := ix.Probes[history.BeliefProbe(lock)]
	life := ix.lifeSpan(who)
	end := ix.Last
	if read != nil {
		end = read.Read
	}
	if l := ix.Exp.Lock(lock); l != nil && l.Belief != nil && l.Belief.Log == nil && read != nil {
		b.apart = read.largest
	}
	if _, dead := ix.Deaths[who]; dead { // it stood until then, as far as it was asked
		rs[len(rs)-1].last.From = max(rs[len(rs)-1].last.From, min(end, life.To-b.apart))
	}
	surely := func(from, to int64) { // what one reading leaves off at, the next goes on with
		to = min(to, life.From)
		if n := len(b.sure); n > 0 && from <= b.sure[n-1].to {
			b.sure[n-1].to = max(b.sure[n-1].to, to)
		} else if from < to {
			b.sure = append(b.sure, stretchOf{from, to, place})
		}
	}
	perhaps := func(from, to int64) { b.maybe = append(b.maybe, stretchOf{from, min(to, life.To), place}) }
	cut := ix.cutLines[history.BeliefProbe(lock)]
	var good *reading // the last one that could be made
	began := int64(0) // of the belief that goes on, from when it may have
	for i := range rs {
		r := &rs[i]
		if r.gone {
			continue
		}
		before := history.Span{From: ix.bornAt(who), To: r.first.To}
		if good != nil {
			before = history.Span{From: good.last.From, To: r.first.To}
		}
		dark := i > 0 && rs[i-1].gone && b.dark(ix, who, before, tolerated)
		held := good != nil && good.holds
		switch {
		case r.holds && !held:
			began = before.From
			b.n, b.seen = b.n+1, append(b.seen, r.n)
		case !r.holds && held:
			perhaps(began, r.first.To)
		case !r.holds && (dark || i > 0 && rs[i-1].gone && ix.stoodIn(who, before)): // who stands goes on to believe what it came to just before
			perhaps(before.From, before.To)
		}
		if good != nil && !held { // a line that was cut may have told that it led
			if at, hidden := firstIn(cut, history.Span{From: good.first.From, To: r.first.To}); hidden {
				perhaps(at, r.first.To)
			}
		}
		if r.holds && held && !dark { // it was only not asked, or stood still
			b.again = append(b.again, history.Span{From: good.last.From, To: r.first.To})
			surely(max(good.first.To, good.last.From), uncut(cut, good.first, min(r.first.To, max(r.first.From, r.last.From))))
		}
		if r.holds {
			surely(r.first.To, uncut(cut, r.first, r.last.From))
		}
		good = r
	}
	switch last := &rs[len(rs)-1]; {
	case last.gone:
		unseen := history.Span{From: ix.bornAt(who), To: min(end, life.To)}
		if good != nil {
			unseen.From = good.last.From
		}
		dark := b.dark(ix, who, unseen, tolerated)
		if good == nil && !dark { // nothing is known of it
			dark, b.blind = true, append(b.blind, unseen)
		}
		switch {
		case good != nil && good.holds:
			perhaps(began, life.To)
		case dark:
			perhaps(unseen.From, life.To)
		}
	case last.holds:
		perhaps(began, life.To)
	default:
		if at, hidden := firstIn(cut, history.Span{From: last.first.From, To: Open}); hidden {
			perhaps(at, life.To)
		}
	}
	if ix.within != nil {
		b.sure, b.maybe = cutTo(b.sure, *ix.within), cutTo(b.maybe, *ix.within)
	}
	return b
}

// firstIn is when the first of the cut lines that were written in w was, at the earliest.
func firstIn(cut []history.Span, w history.Span) (at int64, some bool) {
	at = Open
	for _, s := range cut {
		if s.From <= w.To && s.To >= w.From {
			at, some = min(at, max(s.From, w.From)), true
		}
	}
	return at, some
}

// uncut is until when a belief that was told at since surely lasted, where that was until to by the lines that could be read.
func uncut(cut []history.Span, since history.Span, to int64) int64 {
	at, _ := firstIn(cut, history.Span{From: since.From, To: to})
	return min(to, max(at, since.To))
}

// stoodIn reports that a life surely stood still for some of s.
func (ix *Facts) stoodIn(who string, s history.Span) bool {
	return slices.ContainsFunc(ix.Pauses[who], func(p Pause) bool { return common(p.Surest, s) > 0 })
}

// dark notes a stretch in which a life could not be asked for longer than is tolerated, but for what of it the life surely stood still.
func (b *believer) dark(ix *Facts, who string, s history.Span, tolerated int64) bool {
	standing := int64(0)
	for _, p := range ix.Pauses[who] {
		standing += common(p.Surest, s)
	}
	if s.Width()-standing <= tolerated {
		return false
	}
	b.blind = append(b.blind, s)
	return true
}

// lifeSpan is the bracket of a life's end; open where nobody saw it, and no later life of the replica began.
func (ix *Facts) lifeSpan(who string) history.Span {
	if d, dead := ix.Deaths[who]; dead {
		return d.Span
	}
	end := history.Span{From: Open, To: Open}
	born := ix.bornAt(who)
	for _, s := range ix.Starts {
		if next := s.Replica.Incarnation; next != who && history.ReplicaOf(next) == history.ReplicaOf(who) && s.From > born {
			end.To = min(end.To, s.To)
		}
	}
	return end
}

// bornAt is the earliest instant at which a life may have begun.
func (ix *Facts) bornAt(who string) int64 {
	for _, s := range ix.Starts {
		if s.Replica.Incarnation == who {
			return s.From
		}
	}
	return 0
}

// beliefOverlap integrates believers beyond one of each key of the lock.
func (ix *Facts) beliefOverlap(lock string) overlap {
	var o overlap
	keys, order := map[string][]*believer{}, []string{}
	all := ix.believers(lock)
	for _, b := range all {
		if keys[b.key] == nil {
			order = append(order, b.key)
		}
		keys[b.key] = append(keys[b.key], b)
		o.N += b.n
	}
	for _, key := range order {
		var sure, maybe []stretchOf
		for _, b := range keys[key] {
			sure, maybe = append(sure, b.sure...), append(maybe, b.maybe...)
		}
		o.Lo += excess(sure)
		o.Hi = Plus(o.Hi, excess(maybe))
		for i, ss := range [][]stretchOf{sure, maybe} {
			x, y, found := collision(ss)
			if !found || len(o.Evidence) >= maxEvidence {
				continue
			}
			a, b := all[ss[x].holder], all[ss[y].holder]
			o.Evidence = Cite(slices.Concat(o.Evidence, a.seen, b.seen)...)
			if i == 0 && o.Who == "" {
				from, to := max(ss[x].from, ss[y].from), min(ss[x].to, ss[y].to)
				o.Who = fmt.Sprintf("%s and %s both said that they held %s from %s, for %s", ix.Writer(a.who), ix.Writer(b.who), cmp.Or(key, "lock "+lock), figures.Clock(from), figures.Short(min(to, ix.Last)-from))
			}
		}
	}
	return o
}

// losses of a lock of somebody's own, and how long their holders went on to say that they held it.
type losses struct {
	Dur      // the longest
	N        int
	Evidence []int64
	Why      string // of the longest
}

// LossToBelief is from the end of each key that its holder did not give back to when the holder says that it holds no more. A pause is taken
// off: who stands still can notice nothing. Of an end that may have been a release, only the upper end is told.
func (ix *Facts) LossToBelief(lock string) (out losses) {
	all := ix.believers(lock)
	if len(all) == 0 { // nobody was ever asked
		out.Hi = Open
	}
	l := ix.Exp.Lock(lock)
	for k, e := range ix.EpochsOf(lock) {
		freed := e.Lease.Freed
		if e.Stranger || e.Ghost || e.Lease.gave != nil || freed.From == Open || ix.takenDown(freed.From) {
			continue
		}
		v, early := ix.vanishings[e]
		if planned := l != nil && l.Loop() && l.Policy.Loop.Mode == lockcore.LoopTTLHold; planned && !early && !e.Lease.lost {
			continue
		}
		who, _ := ix.HolderOf(e)
		if life := ix.lifeSpan(who); min(life.From, life.To) <= freed.To {
			continue
		}
		if who == "" { // nobody is known who would have to notice
			out.Hi = Open
			continue
		}
		var d Dur
		for _, b := range all {
			if b.of(k, who) {
				d = d.Worst(ix.heldOn(b, freed, ix.regrant(k, e, b)))
			}
		}
		d = ix.lessStanding(e, d, freed.From, Plus(freed.To, d.Hi))
		if out.Hi = max(out.Hi, d.Hi); early && v.by == "" && d.Lo == 0 { // it may have been a release
			continue
		}
		if out.N++; out.N == 1 || d.Lo > out.Lo {
			out.Evidence = Cite(e.N, v.n)
			more := d.String()
			if d.Hi == Open {
				more = "at least " + figures.Short(d.Lo)
			}
			out.Why = fmt.Sprintf("%s lost key %s at %s, and said for %s more that it held it", ix.Writer(who), k.Name, figures.Clock(freed.To), more)
		}
		out.Lo = max(out.Lo, d.Lo)
	}
	return out
}

// heldOn is how long b said that it held what had ended, up to when it may have been granted it again.
func (ix *Facts) heldOn(b *believer, freed, until history.Span) (d Dur) {
	for _, s := range b.sure {
		if s.to > until.From { // what was read after that may be about the next grant
			s.to = b.until(until.From)
		}
		if s.from <= freed.To && s.to > freed.To {
			d.Lo = max(d.Lo, min(s.to, ix.Last)-freed.To)
		}
	}
	for _, s := range b.maybe {
		if s.from <= freed.To && s.to > freed.From {
			if to := min(s.to, max(until.To, freed.To)); to == Open {
				d.Hi = Open
			} else {
				d.Hi = max(d.Hi, to-freed.From)
			}
		}
	}
	d.Lo = max(0, d.Lo)
	d.Hi = max(d.Lo, d.Hi)
	return d
}

// regrant is when e's holder, b, may have been granted the key again after e; open where it was not.
func (ix *Facts) regrant(k *Key, e *Epoch, b *believer) history.Span {
	until := history.Span{From: Open, To: Open}
	for _, o := range k.Epochs {
		if o != e && o.Rank > e.Rank && (o.Replica == "" || o.Replica == e.Replica) {
			until.From = min(until.From, o.Granted.From)
			if o.Replica != "" {
				until.To = min(until.To, o.Granted.To)
			}
		}
	}
	if b.apart == 0 { // a line tells of each grant
		for _, s := range b.again {
			if s.To > e.Lease.Freed.From {
				until.From = min(until.From, max(e.Lease.Freed.To, s.From))
			}
		}
		return until
	}
	fresh := ix.Exp.FreshTokens(k.Lock)
	for _, s := range k.Looks { // or after another, before a look shows whose it is then; a token that is still there has not been away
		if s.next != nil && s.epoch != "" && s.First.From >= e.Lease.Freed.From && !s.next.direct && !(fresh && s.next.epoch == s.epoch) {
			until.From = min(until.From, s.last().From)
		}
	}
	looker := ix.Looker(k.Lock)
	for _, s := range ix.Probes[looker].Blinds(history.Span{From: e.Lease.Freed.To, To: ix.Last}, ix.MaxGap(looker)) { // or while nobody looked
		until.From = min(until.From, s.From)
	}
	for _, s := range ix.foundUnseen(k) {
		if s.To > e.Lease.Freed.To {
			until.From = min(until.From, max(e.Lease.Freed.To, s.From))
		}
	}
	for _, l := range ix.losses { // or before what it had then was lost
		if l.From > e.Lease.Freed.To {
			until.From = min(until.From, max(e.Lease.Freed.To, l.From-ix.probeOf(looker).largest))
		}
	}
	return until
}

// resigned reports that e's holder surely ceased to say that it held the key when that was gone, or a call's time later: it gave it back.
func (ix *Facts) resigned(k *Key, e *Epoch) bool {
	said := false
	for _, b := range ix.believers(k.Lock) {
		if !b.of(k, e.Replica) {
			continue
		}
		if ix.heldOn(b, e.Lease.Freed, ix.regrant(k, e, b)).Hi > ix.flight(ix.policy(k.Lock).OpTimeout) {
			return false
		}
		said = said || slices.ContainsFunc(b.sure, func(s stretchOf) bool { return s.from <= e.Lease.Freed.To && s.to > e.Granted.From })
	}
	return said
}

// ceasedBefore reports that e's holder, which said that it held the key, may have said by then that it no longer does.
func (ix *Facts) ceasedBefore(k *Key, e *Epoch, then int64) bool {
	return slices.ContainsFunc(ix.believers(k.Lock), func(b *believer) bool {
		held := func(s stretchOf) bool { return s.from <= then && s.to >= e.Granted.From }
		i := slices.IndexFunc(b.sure, held)
		if !b.of(k, e.Replica) || i < 0 || slices.ContainsFunc(b.sure[i:], func(s stretchOf) bool { return held(s) && s.to >= then }) {
			return false
		}
		return slices.ContainsFunc(ix.beliefs[k.Lock], func(ev *history.Event) bool {
			since := ev.From
			if p := ev.Belief.Prev; p != nil && !ev.Belief.Direct {
				since = p.From
			}
			return !ev.Belief.Holds && ev.Belief.Gone == "" && ix.lifeOf(ev) == b.who && ev.Key == b.key && since <= then && ev.To > b.sure[i].from
		})
	})
}
