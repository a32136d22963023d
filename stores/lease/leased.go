package lease

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// leased is a Lease object: what its watch and its looks have shown, and how much of that was reported.
type leased struct {
	kind  *witness.Kind // of whose events they are
	names witness.Names // of whoever it names

	mu      sync.Mutex
	news    []change      // told by the watch, and not reported yet
	known   bool          // the watch has told something
	told    chan struct{} // closed when it tells of the next change, stands or breaks
	broken  error         // why it does not watch at present
	samples []sample      // of versions that may not be reported yet

	witness.Track        // the state that was reported last
	last          change // as the watch told it
	hole          bool   // what came just before it is not known, and nothing was reported since that says so
	early         int64  // the lease ends no sooner
	late          int64  // and no later
}

func newLeased(lock, name string, kind *witness.Kind, holder func(witness.Unclaimed) witness.Named, now int64) *leased {
	return &leased{Track: witness.Track{Lock: lock, Key: name, At: history.Span{From: now}}, kind: kind, names: witness.Names{Holder: holder, Shown: true}, told: make(chan struct{})}
}

// change is a state of the object that the watch told of.
type change struct {
	record
	version string // "" = there is no object
	at      int64  // when it was told
	kube    kube.LeaseChange
}

// sample is a version that a look showed, at an instant in at.
type sample struct {
	version string
	at      history.Span
}

// record is what an election is decided by.
type record struct {
	there             bool
	named             string // "" = released
	transitions       int32
	duration          time.Duration
	acquired, renewed int64 // of the holder's clock: compared, never computed with
	epoch             string
}

func recordOf(l kube.Lease, ok bool) record {
	if !ok {
		return record{}
	}
	r := record{there: true, named: l.Holder, transitions: l.Transitions, duration: l.Duration, acquired: l.Acquired.UnixNano(), renewed: l.Renewed.UnixNano()}
	if r.held() {
		r.epoch = protocol.LeaseEpoch(l.Holder, l.Transitions, l.Acquired)
	}
	return r
}

// contended is the record as contenders of client-go compare it: they write its times out to the second, so that of two renewals in the
// same second the later prolongs nothing for them.
func (r record) contended() record {
	r.acquired, r.renewed = r.acquired/int64(time.Second), r.renewed/int64(time.Second)
	return r
}

func (r *record) held() bool { return r.there && r.named != "" }

// record takes what the watch tells. A new list that shows the version that was told last shows that nothing was missed.
func (w *leased) record(c kube.LeaseChange, clock func() int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := change{record: recordOf(c.Lease, c.There), version: c.Lease.ResourceVersion, at: clock(), kube: c}
	latest := w.last
	if len(w.news) > 0 {
		latest = w.news[len(w.news)-1]
	}
	if c.Listed && c.There && n.version == latest.version {
		return
	}
	w.news, w.known = append(w.news, n), true
	w.wake()
}

// wake lets those look again who wait.
func (w *leased) wake() {
	close(w.told)
	w.told = make(chan struct{})
}

func (w *leased) heard(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = err
	w.wake()
}

// note keeps what a look showed; that there is no object has no version.
func (w *leased) note(s sample) {
	if s.version == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, s)
}

// await waits until the watch has told of what a look showed.
func (w *leased) await(ctx context.Context, s sample) error {
	for {
		w.mu.Lock()
		reached, told, broken := w.reached(s.version), w.told, w.broken
		w.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-told:
		case <-ctx.Done():
			return fmt.Errorf("the watch of lease %s has not told of what a look showed: %w", w.Key, cmp.Or(broken, ctx.Err()))
		}
	}
}

// reached reports that the watch has told of a version, or that there is a list in its place. That there is no object has no version:
// what was told of that before the watch broke says nothing of now.
func (w *leased) reached(version string) bool {
	return w.known && (version != "" || w.broken == nil) && (w.Seen && w.last.version == version ||
		slices.ContainsFunc(w.news, func(c change) bool { return c.version == version || c.kube.Covers(version) }))
}

// report appends what the watch has told since the last time. A change came after the last look that showed the version before, and
// before it was told.
func (w *leased) report(events []history.Event, s sample, final bool) []history.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recall()
	for _, c := range w.news {
		events = w.take(events, c)
		w.recall()
	}
	w.news = nil
	// What was seen before this look was asked has been told since, or lies where the watch told nothing.
	w.samples = slices.DeleteFunc(w.samples, func(o sample) bool { return o.at.To < s.at.From })
	shown := w.At
	at := witness.Sight{Span: shown, Final: final, Told: &witness.Told{Prev: shown, Direct: !w.hole}}
	if s.version == w.last.version {
		at.Span = s.at
	}
	events = w.show(events, at)
	w.At = shown // others may have seen it later
	return events
}

// recall takes the latest sample of the present version. That there is no object may have been seen before there was one, or after.
func (w *leased) recall() {
	w.samples = slices.DeleteFunc(w.samples, func(s sample) bool {
		if s.version != w.last.version {
			return false
		}
		if s.at.From > w.At.From {
			w.At = s.at
		}
		return true
	})
}

// take makes a change the present state, and appends an event if it is news.
func (w *leased) take(events []history.Event, c change) []history.Event {
	at := history.Span{From: min(w.At.From, c.at), To: c.at}
	if w.Seen && c.kube.Listed {
		w.hole = true
		events = append(events, history.Event{Kind: history.GapKind, Span: at, Source: w.kind.Source, Coverage: &history.Coverage{
			Probe: w.kind.Probe, Why: "the watch of lease " + w.Key + " was cut, and what was changed before the next list was not told", Failed: true, Largest: at.Width(),
		}})
	}
	news := w.Seen && c.record != w.last.record || !w.Seen && c.held()
	switch {
	case !w.Seen: // it may have been renewed just now, or long ago
		w.early, w.late = at.From, at.To+int64(c.duration)
	case c.contended() != w.last.contended():
		w.early, w.late = at.From+int64(c.duration), at.To+int64(c.duration)
	case c.record != w.last.record: // contenders of client-go do not see that it was extended, others may
		w.late = at.To + int64(c.duration)
	}
	w.last = c
	return w.show(events, witness.Sight{Span: at, Told: &witness.Told{News: news, Prev: w.At, Direct: !w.hole}})
}

// show tells of the present state. Where others may lie before it, nobody knows whose release it was.
func (w *leased) show(events []history.Event, at witness.Sight) []history.Event {
	r := &w.last.record
	s := witness.State{Value: r.named, Epoch: r.epoch, Left: witness.Absent, Released: r.there && !r.held() && (at.Final || !w.hole)}
	if r.held() {
		s.Left = max(0, w.late-at.To)
		s.Slack = max(0, at.From+s.Left-w.early)
	}
	before := len(events)
	events = w.See(events, w.kind.Source, &w.names, s, at)
	w.hole = w.hole && len(events) == before
	return events
}
