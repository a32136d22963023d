package analysis

import "github.com/lockdrill/lockdrill/history"

// measureTick measures a loop's tick gap: from the last accepted tick before the fault to anybody's next. A trial that was
// cut short at cut tells nothing of what came later.
func (ix *Facts) measureTick(k *keyIndex, t *trial, cut int64) {
	if !k.loop {
		return
	}
	f := t.shot.applied.Span
	t.idle = true
	for _, w := range t.e.works {
		if w.start.From <= f.To && w.end.To >= f.From {
			t.idle = false
		}
	}
	var last, next *effect
	for _, tick := range k.effects {
		if tick.State != history.StateTick || !tick.fresh() {
			continue
		}
		before := tick.span.To <= f.From
		if t.shot.does.Kills { // a killed victim's ticks came before the fault, however late they were seen
			before = tick.epoch.rank <= t.e.rank
		}
		switch {
		case before && next == nil:
			last = tick
		case !before && next == nil:
			next = tick
		}
	}
	if last == nil {
		return
	}
	until := min(cut, ix.watched(probeLedger, f.To))
	d := dur{lo: max(0, until-last.span.To), hi: open}
	if next != nil && next.span.From <= cut {
		d, until = between(last.span, next.span), next.span.To
	}
	t.tickSpan = history.Span{From: last.span.From, To: until}
	d.lo = ix.attested(t.e.lock, d.lo)
	t.tick = &d
}
