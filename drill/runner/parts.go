package runner

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// flown is a fault that may be in effect: one part, or, of several victims that are struck each by itself, one for each.
type flown struct {
	shot  history.Event
	parts []*part
}

// part is what was written down of a fault at once.
type part struct {
	Strike
	id   int // in the journal
	rec  undo.Record
	over bool         // it is undone,
	span history.Span // within this
	err  error        // why it is not
}

// apart is the shot as that of each of its victims, where these are struck each by itself.
func apart(shot history.Event) []history.Event {
	if len(shot.Fault.Victims) < 2 || shot.Fault.Victim != "" || !fault.Seen(shot.Fault.Kind, shot.Fault.Form, shot.Fault.Via).Traits().Apart {
		return []history.Event{shot}
	}
	var all []history.Event
	for _, v := range shot.Fault.Victims {
		one := withFault(shot, func(b *history.Fault) { b.Victim, b.Victims = v, nil })
		one.Op += " " + v
		all = append(all, one)
	}
	return all
}

// inject makes all parts at once. One that fails makes the whole fault void, whatever the others did.
func inject(ctx context.Context, parts []*part) (history.Span, error) {
	spans, errs := make([]history.Span, len(parts)), make([]error, len(parts))
	each(parts, func(i int, p *part) { spans[i], errs[i] = p.Inject(ctx) })
	var all history.Span
	for i, s := range spans {
		if errs[i] != nil {
			return s, errs[i]
		}
		all = hull(all, s)
	}
	return all, nil
}

// confirm sees that all parts took effect, and what they were seen to do together: where each is in effect for a while, that is the window
// in which all were.
func confirm(ctx context.Context, parts []*part, applied history.Span) (history.Span, history.Fault, error) {
	windows, saw, errs := make([]history.Span, len(parts)), make([]history.Fault, len(parts)), make([]error, len(parts))
	each(parts, func(i int, p *part) { windows[i], saw[i], errs[i] = p.Confirm(ctx, applied) })
	window, seen := windows[0], saw[0]
	for i := range parts {
		if errs[i] != nil {
			return windows[i], saw[i], errs[i]
		}
		if i == 0 {
			continue
		}
		if parts[i].rec.Halts() {
			window = history.Span{From: max(window.From, windows[i].From), To: max(window.From, windows[i].From, min(window.To, windows[i].To))}
			seen.Observed = min(seen.Observed, saw[i].Observed)
		} else {
			window = hull(window, windows[i])
		}
		seen.Hits += saw[i].Hits
		seen.Death = together(seen.Death, saw[i].Death)
	}
	return window, seen, nil
}

// together is what is true of each of two deaths: it lived at the earlier sign, and was over within both ends.
func together(a, b *history.Death) *history.Death {
	if a == nil || b == nil {
		return nil
	}
	d := *a
	d.Call, d.Sign = hull(a.Call, b.Call), min(a.Sign, b.Sign)
	both := func(x, y *history.Span) *history.Span {
		if x == nil || y == nil {
			return nil
		}
		s := hull(*x, *y)
		return &s
	}
	d.Object, d.End = both(a.Object, b.Object), both(a.End, b.End)
	return &d
}

// within is how long a shot may take beyond its own limit to be confirmed.
func within(parts ...*part) (most time.Duration) {
	for _, p := range parts {
		most = max(most, cmp.Or(p.Within(), confirmWithin))
	}
	return most
}

// revert ends the part, on a fresh context: whatever happened to the shot's. What was undone is not undone again.
func (p *part) revert(ctx context.Context, r *run) (history.Span, error) {
	if p.over {
		return p.span, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupWithin+p.rec.Takes())
	defer cancel()
	_ = r.Journal.Mark(p.id, undo.UndoIntent, "") // a journal that is lost ends the run, and keeps no fault alive
	p.span, p.err = p.Revert(ctx)
	p.over = p.err == nil
	return p.span, p.err
}

func each(parts []*part, do func(i int, p *part)) {
	var all sync.WaitGroup
	for i, p := range parts {
		all.Go(func() { do(i, p) })
	}
	all.Wait()
}

// hull is the least bracket that has both; the zero bracket is none.
func hull(a, b history.Span) history.Span {
	if a == (history.Span{}) {
		return b
	}
	return history.Span{From: min(a.From, b.From), To: max(a.To, b.To)}
}
