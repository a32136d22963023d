package rehearsal

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// drawDark is a stretch in which nobody looks at the keys, by the seed.
func drawDark(seed uint64) history.Span {
	r := rand.New(rand.NewPCG(seed, 17))
	from := int64(between(r, time.Second, 12*time.Second))
	return history.Span{From: from, To: from + int64(between(r, 20*time.Millisecond, 2*time.Second))}
}

// firstLook is how long the look takes with which the probe sees again.
const firstLook = int64(2 * time.Millisecond)

const zeroServer = int64(1767225600) * 1e9 // of virtual time, by the store's clock

// shade is a history without the looks at keys in one stretch.
type shade struct {
	dark history.Span
	out  []history.Event
	keys map[string]*shaded
	seen bool // the probe sees again
	// same are keys whose last look in the dark, or before it, shows them as they are when the probe sees again.
	same map[string]bool
}

// shaded is one key.
type shaded struct {
	shown  *history.Event // the last look that is told
	hidden *history.Event // the last that is not, since
	first  *history.Event // the first that is not
	again  *history.Event // the look with which the probe sees again; nil = that shows nothing new, or may not be told
	at     history.Span   // of it; zero = there was none of this key that shows the state before
	left   int64
}

// inTheDark leaves out of h what looks at keys showed in the dark. The first look after it shows what is then. Where the probe was blind
// there anyway, or nothing was looked at yet, h stays as it is.
func inTheDark(h *history.History, dark history.Span) *history.History {
	if dark.From >= dark.To || !watchedAll(h, dark) {
		return h
	}
	s := &shade{dark: dark, keys: map[string]*shaded{}, same: sameAfter(h, dark)}
	for _, ev := range h.Events {
		if !s.seen && ev.At >= dark.To+firstLook {
			s.seesAgain()
		}
		switch {
		case ev.Look != nil && !ev.Look.Final && ev.To <= dark.To && ev.To > dark.From:
			s.hide(ev)
		case ev.Look != nil:
			s.tell(ev)
		case ev.Kind == history.CoverageKind && ev.Coverage.Probe == experiments.ProbeKeys && ev.From < dark.From && ev.To > dark.To:
			s.uncover(ev)
		default:
			s.add(ev)
		}
	}
	shaded := *h
	shaded.Events = s.out
	return &shaded
}

// sameAfter are the keys that did not change between the last look that ended before the dark's end and the first after it.
func sameAfter(h *history.History, dark history.Span) map[string]bool {
	same, known := map[string]bool{}, map[string]bool{}
	for i := range h.Events {
		ev := &h.Events[i]
		if ev.Look == nil || known[ev.Key] || ev.To <= dark.To {
			continue
		}
		prev := ev.Look.Prev
		known[ev.Key], same[ev.Key] = true, prev == nil && ev.Look.Final || prev != nil && prev.From >= dark.To+firstLook
	}
	return same
}

// watchedAll reports that one stretch of coverage of the keys contains s.
func watchedAll(h *history.History, s history.Span) bool {
	for i := range h.Events {
		if ev := &h.Events[i]; ev.Kind == history.CoverageKind && ev.Coverage.Probe == experiments.ProbeKeys && ev.From < s.From && ev.To > s.To+firstLook {
			return true
		}
	}
	return false
}

func (s *shade) add(ev history.Event) {
	ev.N, ev.Seq = int64(len(s.out))+1, 0 // its streams have other numbers than those of the run
	if ev.Note != nil {
		note := *ev.Note
		note.Last = nil
		ev.Note = &note
	}
	s.out = append(s.out, ev)
}

func (s *shade) of(key string) *shaded {
	if s.keys[key] == nil {
		s.keys[key] = &shaded{}
	}
	return s.keys[key]
}

func (s *shade) hide(ev history.Event) {
	k := s.of(ev.Key)
	if k.hidden = &ev; k.first == nil {
		k.first = &ev
	}
}

// ends is when the lease that a look shows is over at the earliest.
func ends(ev *history.Event) int64 {
	return ev.Look.Server*1e3 - zeroServer + ev.Look.PTTL
}

// seesAgain makes the first looks after the dark.
func (s *shade) seesAgain() {
	s.seen = true
	for key, k := range s.keys {
		now := k.hidden
		if now == nil {
			now = k.shown
		}
		if now == nil || !s.same[key] {
			continue
		}
		at := history.Span{From: s.dark.To, To: s.dark.To + firstLook}
		k.at = at
		if now.Look.Present && now.Look.PTTL > 0 {
			instant := at.From + firstLook/2
			instant += (ends(now) - instant) % 1e6 // so that whole milliseconds are left
			if k.left = ends(now) - instant; k.left <= 0 {
				k.at = history.Span{} // it is over by then, and a look tells so
				continue
			}
			ev := *now
			l := *now.Look
			l.PTTL, l.Server, l.Prev, l.PrevPTTL = k.left, (instant+zeroServer)/1e3, nil, 0
			ev.Look = &l
			now = &ev
		}
		k.again = now
	}
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		k := s.keys[key]
		if k.hidden == nil || k.again == nil || k.shown != nil && k.shown.Epoch == k.again.Epoch && !k.again.Look.Present {
			continue
		}
		ev := *k.again
		l := *ev.Look
		ev.Span, ev.At, ev.Look = k.at, k.at.To, &l
		switch prev := k.first.Look.Prev; {
		case prev != nil && prev.To <= s.dark.From:
			l.Prev, l.PrevPTTL = prev, k.first.Look.PrevPTTL
		case k.shown != nil:
			l.Prev, l.PrevPTTL = &k.shown.Span, max(0, k.shown.Look.PTTL)
		}
		k.shown = &ev
		s.add(ev)
	}
}

// tell is a look that is told: the one before it may have been in the dark.
func (s *shade) tell(ev history.Event) {
	k := s.of(ev.Key)
	untold := k.hidden != nil && k.again == nil // the state before was never seen
	if prev := ev.Look.Prev; prev != nil && prev.To > s.dark.From && ev.From > s.dark.From && (untold || prev.From < s.dark.To) {
		l := *ev.Look
		switch {
		case k.at.To > 0 && k.at.To <= ev.From && !untold:
			l.Prev, l.PrevPTTL = &k.at, k.left
		case k.shown != nil:
			l.Prev, l.PrevPTTL = &k.shown.Span, max(0, k.shown.Look.PTTL)
		default:
			l.Prev, l.PrevPTTL = nil, 0
		}
		ev.Look = &l
	}
	if !ev.Look.Final && !ev.Look.Present && k.shown != nil && !k.shown.Look.Present { // what was there in between nobody saw
		return
	}
	k.shown = &ev
	if s.seen || ev.To > s.dark.To {
		k.hidden = nil
	}
	s.add(ev)
}

// uncover tells of the gap.
func (s *shade) uncover(ev history.Event) {
	part := func(from, to int64, final bool) {
		c := *ev.Coverage
		c.Final, c.Largest = final, min(c.Largest, to-from)
		e := ev
		e.Span, e.Coverage = history.Span{From: from, To: to}, &c
		s.add(e)
	}
	part(ev.From, s.dark.From, false)
	gap := ev
	gap.Kind, gap.Span = history.GapKind, s.dark
	gap.Coverage = &history.Coverage{Probe: experiments.ProbeKeys, Why: "nobody looked", Largest: s.dark.Width()}
	s.add(gap)
	part(s.dark.To, ev.To, ev.Coverage.Final)
}
