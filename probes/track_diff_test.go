//go:build full

package probes

// Copies of the observers that track replaces, against which it is held.

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/postgres"
	"github.com/lockdrill/lockdrill/lockcore"
)

// oldWatched is a key and what its last look showed.
type oldWatched struct {
	lock, key string
	name      string // of the key at the store
	job       bool   // it is a job's: free once that is done
	near, far bool   // it is in the list of that name; in both until its turn comes among the others
	absent    int    // looks in a row that showed it absent, since somebody was last expected to hold it
	seen      bool
	span      history.Span
	last      oldState
	named     Named // whom its token means: known once, it stays, since a pod may have another life by the next look
	since     int64 // the token came after this; 0 = at any time before the first look
}

// state of a lock key at one instant.
type oldState struct {
	value  string // token
	epoch  string // its fingerprint
	pttl   int64  // ns, or absent, or -1 = no expiry
	server int64  // microseconds
}

// observe takes in what a look showed and appends an event if it is news.
func (w *oldWatched) observe(events []history.Event, s oldState, at history.Span, final bool, names Names) []history.Event {
	if w.seen && !final && s.pttl == absent && w.last.pttl == absent { // as nearly all keys, nearly always
		w.span, w.last.server = at, s.server
		return events
	}
	s.epoch = w.last.epoch
	if !w.seen || s.value != w.last.value {
		s.epoch, w.named, w.since = lockcore.Fingerprint(s.value), Named{}, w.span.From
	}
	if s.epoch == "" && s.pttl != absent {
		s.epoch = unknown // an empty value is no token
	}
	news := w.news(s, at)
	if names.Holder != nil && w.named.Holder == "" && s.pttl != absent {
		before := w.named
		w.named = names.Holder(Unclaimed{w.lock, w.key, s.value, w.since})
		news = news || w.named != before
	}
	if news || final {
		e := history.Event{
			Kind: history.LookKind, Span: at, Source: sourceKeys, Lock: w.lock, Key: w.key, Epoch: s.epoch,
			Look: &history.Look{Present: s.pttl != absent, PTTL: s.pttl, Server: s.server, Final: final},
		}
		if s.pttl != absent {
			e.Look.Holder, e.Look.By, e.Look.Disputed = w.named.Holder, w.named.By, w.named.Disputed
		}
		if names.Shown && s.pttl != absent {
			e.Look.Named = cut(s.value)
		}
		if news && w.seen {
			before := w.span
			e.Look.Prev = &before
			if w.last.pttl >= 0 {
				e.Look.PrevPTTL = max(1, w.last.pttl)
			}
		}
		events = append(events, e)
	}
	w.seen, w.span, w.last = true, at, s
	return events
}

// news reports whether s differs from the last look by more than the passing of time. That no key was there at the first
// look is none.
func (w *oldWatched) news(s oldState, at history.Span) bool {
	switch {
	case !w.seen:
		return s.pttl != absent
	case s.value != w.last.value, (s.pttl < 0 || w.last.pttl < 0) && s.pttl != w.last.pttl:
		return true
	case s.pttl < 0:
		return false
	}
	surelyPassed := max(0, at.From-w.span.To)
	return s.pttl > w.last.pttl-surelyPassed+pttlError
}

// oldAdvised is a key and what its last look showed.
type oldAdvised struct {
	lock, key string
	id        postgres.Key
	known     bool // its id is
	seen      bool
	span      history.Span
	epoch     string // of the last look; "" = nobody held it
	named     Named
	since     int64
}

// observe takes in what a look showed and appends an event if it is news.
func (w *oldAdvised) observe(events []history.Event, s postgres.Session, there bool, now time.Time, at history.Span, final bool, names Names) []history.Event {
	epoch := ""
	if there {
		epoch = s.ID()
	}
	news := epoch != w.epoch
	if news {
		w.named, w.since = Named{}, w.span.From
	}
	if names.Holder != nil && w.named.Holder == "" && there {
		before := w.named
		w.named = names.Holder(Unclaimed{w.lock, w.key, s.Name(), w.since})
		news = news || w.named != before
	}
	if news || final {
		e := history.Event{
			Kind: history.LookKind, Span: at, Source: sourceKeys, Lock: w.lock, Key: w.key, Epoch: epoch,
			Look: &history.Look{PTTL: absent, Server: now.UnixMicro(), Final: final},
		}
		if there {
			e.Look.Present, e.Look.PTTL, e.Look.Named = true, endless, cut(s.Name())
			e.Look.Holder, e.Look.By, e.Look.Disputed = w.named.Holder, w.named.By, w.named.Disputed
		}
		if news && w.seen {
			before := w.span
			e.Look.Prev = &before
		}
		events = append(events, e)
	}
	w.seen, w.span, w.epoch = true, at, epoch
	return events
}

// oldLeased is a Lease object: what its watch and its looks have shown, and how much of that was reported.
type oldLeased struct {
	lock, name string
	kind       *Kind // of whose events they are

	mu      sync.Mutex
	news    []change      // told by the watch, and not reported yet
	known   bool          // the watch has told something
	told    chan struct{} // closed when it tells of the next change, stands or breaks
	broken  error         // why it does not watch at present
	samples []sample      // of versions that may not be reported yet

	last   change       // the state that was reported last
	seen   bool         // there was one
	span   history.Span // the last time that this state was seen, at an instant in it
	hole   bool         // what came just before it is not known, and nothing was reported since that says so
	holder string       // incarnation; known once for an epoch, it stays: a pod may have another life by the next look
	early  int64        // the lease ends no sooner
	late   int64        // and no later
}

func newOldLeased(lock, name string, kind *Kind, now int64) *oldLeased {
	w := &oldLeased{lock: lock, name: name, kind: kind, told: make(chan struct{})}
	w.span.From = now
	return w
}

// record takes what the watch tells. A new list that shows the version that was told last shows that nothing was missed.
func (w *oldLeased) record(c kube.LeaseChange, clock func() int64) {
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
func (w *oldLeased) wake() {
	close(w.told)
	w.told = make(chan struct{})
}

func (w *oldLeased) heard(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = err
	w.wake()
}

func (w *oldLeased) note(s sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, s)
}

// report appends what the watch has told since the last time. A change came after the last look that showed the version before, and
// before it was told.
func (w *oldLeased) report(events []history.Event, s sample, final bool, holder func(string) string) []history.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recall()
	for _, c := range w.news {
		events = w.take(events, c, holder)
		w.recall()
	}
	w.news = nil
	// What was seen before this look was asked has been told since, or lies where the watch told nothing.
	w.samples = slices.DeleteFunc(w.samples, func(o sample) bool { return o.at.To < s.at.From })
	at := w.span
	if s.version == w.last.version {
		at = s.at
	}
	if found := w.names(holder); found || final {
		e := w.event(at)
		if e.Look.Final = final; found {
			w.follow(&e, w.span)
		}
		events = append(events, e)
	}
	return events
}

// recall takes the latest sample of the present version. That there is no object may have been seen before there was one, or after.
func (w *oldLeased) recall() {
	w.samples = slices.DeleteFunc(w.samples, func(s sample) bool {
		if s.version != w.last.version {
			return false
		}
		if s.at.From > w.span.From {
			w.span = s.at
		}
		return true
	})
}

// take makes a change the present state, and appends an event if it is news.
func (w *oldLeased) take(events []history.Event, c change, holder func(string) string) []history.Event {
	prev, at := w.span, history.Span{From: min(w.span.From, c.at), To: c.at}
	if w.hole = w.hole || w.seen && c.kube.Listed; w.seen && c.kube.Listed {
		events = append(events, history.Event{Kind: history.GapKind, Span: at, Source: w.kind.Source, Coverage: &history.Coverage{
			Probe: w.kind.Probe, Why: "the watch of lease " + w.name + " was cut, and what was changed before the next list was not told", Failed: true, Largest: at.Width(),
		}})
	}
	news := w.seen && c.record != w.last.record || !w.seen && c.held()
	switch {
	case !w.seen: // it may have been renewed just now, or long ago
		w.early, w.late = at.From, at.To+int64(c.duration)
	case c.contended() != w.last.contended():
		w.early, w.late = at.From+int64(c.duration), at.To+int64(c.duration)
	case c.record != w.last.record: // contenders of client-go do not see that it was extended, others may
		w.late = at.To + int64(c.duration)
	}
	if c.epoch != w.last.epoch {
		w.holder = ""
	}
	first := !w.seen
	w.seen, w.span, w.last = true, at, c
	if found := w.names(holder); !found && !news {
		return events
	}
	e := w.event(at)
	if !first {
		w.follow(&e, prev)
	}
	return append(events, e)
}

// names finds the incarnation that holds, where it was not known before.
func (w *oldLeased) names(holder func(string) string) (found bool) {
	if w.holder == "" && w.last.held() {
		w.holder = holder(w.last.named)
		return w.holder != ""
	}
	return false
}

// event is a look at the present state.
func (w *oldLeased) event(at history.Span) history.Event {
	r := &w.last.record
	l := &history.Look{PTTL: absent, Released: r.there && !r.held()}
	if r.held() {
		l.Present, l.PTTL = true, max(0, w.late-at.To)
		l.Slack = max(0, at.From+l.PTTL-w.early)
		l.Named, l.Holder = cut(r.named), w.holder
	}
	return history.Event{Kind: history.LookKind, Span: at, Source: w.kind.Source, Lock: w.lock, Key: w.name, Epoch: r.epoch, Look: l}
}

// follow says which state came before the event's. Where others may lie between, nobody knows whose release it was.
func (w *oldLeased) follow(e *history.Event, prev history.Span) {
	e.Look.Prev, e.Look.Direct = &prev, !w.hole
	e.Look.Released = e.Look.Released && !w.hole
	w.hole = false
}

type oldEtcd struct {
	locks  map[string]string
	rivals map[string][]*rival
	shown  map[string]etcdShown
	looked etcdLook
	news   []history.Event
}

// etcdShown is a state of a lock as it was reported.
type etcdShown struct {
	epoch string
	at    history.Span // the last time that it was seen
	seen  bool
	torn  bool // changes before it may have escaped
}

// change reports who has a lock now, if that is news.
func (p *oldEtcd) change(key string, at history.Span) {
	before, holder := p.shown[key], p.holder(key)
	epoch := ""
	if holder != nil {
		epoch = epochOf(holder)
	}
	if before.epoch == epoch && (before.seen || epoch == "") {
		return
	}
	p.report(key, holder, at, before)
}

func (p *oldEtcd) holder(key string) *rival {
	if all := p.rivals[key]; len(all) > 0 {
		return all[0]
	}
	return nil
}

// report adds an event of a lock as it is.
func (p *oldEtcd) report(key string, holder *rival, at history.Span, before etcdShown) {
	e := p.event(key, holder, at)
	if before.seen {
		prev := before.at
		if !before.torn { // nothing was told in between
			prev.From = max(prev.From, min(p.looked.at.From, at.From))
			prev.To = max(prev.To, prev.From)
		}
		e.Look.Prev, e.Look.Direct = &prev, !before.torn
	}
	p.shown[key] = etcdShown{epoch: e.Epoch, at: at, seen: true}
	p.news = append(p.news, e)
}

func (p *oldEtcd) event(key string, holder *rival, at history.Span) history.Event {
	e := history.Event{Kind: history.LookKind, Span: at, Source: sourceKeys, Lock: p.locks[key], Key: key, Look: &history.Look{PTTL: absent}}
	if holder != nil {
		e.Epoch, e.Fence = epochOf(holder), holder.created
		e.Look.Present, e.Look.PTTL = true, 0
		if holder.lease == clientv3.NoLease {
			e.Look.PTTL = -1
		} else if holder.granted > 0 {
			e.Look.PTTL, e.Look.Slack = (holder.left+1)*int64(time.Second), int64(time.Second)
		}
	}
	return e
}

func (p *oldEtcd) leases(a leaseAnswer) {
	r := p.holder(a.key)
	fresh := r.granted == 0
	prolonged := !fresh && (a.left > r.left || a.left == r.left && a.at.From-r.asked >= int64(time.Second))
	if fresh || prolonged || a.left < r.left {
		r.left, r.asked, r.granted = a.left, a.at.To, time.Duration(a.granted)*time.Second
	}
	if fresh || prolonged {
		before := p.shown[a.key]
		e := p.event(a.key, r, a.at)
		prev := before.at
		e.Look.Prev, e.Look.Direct = &prev, !before.torn
		p.shown[a.key] = etcdShown{epoch: e.Epoch, at: a.at, seen: true}
		p.news = append(p.news, e)
	}
}

func sameEvents(t *testing.T, seed uint64, i int, a, b []history.Event) {
	t.Helper()
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("seed %d, look %d:\n%s\n%s", seed, i, textOf(a), textOf(b))
	}
}

func textOf(all []history.Event) (s string) {
	for _, e := range all {
		if s += fmt.Sprintf("%v %s %s", e.Span, e.Kind, e.Epoch); e.Look != nil {
			s += fmt.Sprintf(" %+v", *e.Look)
			if e.Look.Prev != nil {
				s += fmt.Sprint(" prev ", *e.Look.Prev)
			}
		}
		s += "; "
	}
	return s
}

var somebody = []Named{{}, {Holder: "r1.1", By: "value"}, {Disputed: "two say so"}}

func TestTrackSaysWhatLookedAtKeysSaid(t *testing.T) {
	events := 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		tokens := []string{"dddd", "aaaa", "bbbb", "cccc"}
		known := map[string]Named{}
		names := Names{Shown: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			names.Holder = func(u Unclaimed) Named { return known[u.Value] }
		}
		old, now := &oldWatched{lock: "l", key: "k"}, &track{lock: "l", key: "k"}
		if r.IntN(4) == 0 {
			old.seen, old.span, old.last = true, history.Span{From: 1, To: 2}, oldState{pttl: absent}
			now.seen, now.at, now.last = true, history.Span{From: 1, To: 2}, state{left: absent}
		}
		at, left, value := int64(0), absent, ""
		for i := range 30 {
			passed := int64(r.IntN(10_000_000))
			at += passed
			if left >= 0 {
				if left = left - passed; left < 0 {
					value, left = "", absent
				}
			}
			switch r.IntN(6) {
			case 0:
				value, left = tokens[r.IntN(4)], int64(r.IntN(50_000_000))
			case 1:
				if value != "" {
					left = int64(r.IntN(50_000_000))
				}
			case 2:
				value, left = "", absent
			case 3:
				if value != "" {
					left = endless
				}
			case 4:
				known[tokens[r.IntN(4)]] = somebody[r.IntN(3)]
			}
			s := oldState{value: value, pttl: left / 1_000_000 * 1_000_000, server: at / 1000}
			if left < 0 {
				s.pttl = left
			}
			span, final := history.Span{From: at, To: at + int64(r.IntN(3_000_000))}, i == 29
			a := old.observe(nil, s, span, final, names)
			b := now.see(nil, sourceKeys, &names, now.ofToken(state{value: s.value, left: s.pttl, server: s.server}), sight{Span: span, final: final})
			events += len(a)
			sameEvents(t, seed, i, a, b)
			if at = span.To; r.IntN(5) == 0 && old.last.pttl != absent { // as keyspace's persist
				old.span.From, now.at.From = old.span.To, now.at.To
			}
		}
	}
	t.Logf("%d events of Redis, all the same", events)
}

func TestTrackSaysWhatAdvisoryLocksSaid(t *testing.T) {
	events := 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		known := map[string]Named{}
		names := Names{}
		if r.IntN(2) == 0 {
			names.Holder = func(u Unclaimed) Named { return known[u.Value] }
		}
		old, now := &oldAdvised{lock: "l", key: "k"}, &track{lock: "l", key: "k"}
		var sessions []postgres.Session
		for i, name := range []string{"a", "b", "a"} {
			sessions = append(sessions, postgres.Session{Backend: postgres.Backend{PID: i, Started: time.UnixMicro(int64(i) * 1000)}, Application: name})
		}
		at, who := int64(0), -1
		for i := range 30 {
			at += int64(r.IntN(10_000_000))
			switch r.IntN(4) {
			case 0:
				who = r.IntN(3)
			case 1:
				who = -1
			case 2:
				known[[]string{"a", "b"}[r.IntN(2)]] = somebody[r.IntN(3)]
			}
			span, wall := history.Span{From: at, To: at + int64(r.IntN(3_000_000))}, time.UnixMicro(at/1000)
			var s postgres.Session
			all := map[postgres.Key]postgres.Session{}
			if who >= 0 {
				s = sessions[who]
				all[postgres.Key{}] = s
			}
			a := old.observe(nil, s, who >= 0, wall, span, i == 29, names)
			b := now.see(nil, sourceKeys, &Names{names.Holder, true}, stateOf(all, postgres.Key{}, wall), sight{Span: span, final: i == 29})
			events += len(a)
			sameEvents(t, seed, i, a, b)
			at = span.To
		}
	}
	t.Logf("%d events of PostgreSQL, all the same", events)
}

func TestTrackSaysWhatLeasesSaid(t *testing.T) {
	events := 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		known := map[string]string{}
		holder := func(named string) string { return known[named] }
		kind := []*Kind{&kindLease, &kindKeys}[r.IntN(2)]
		old, now := newOldLeased("l", "k", kind, 5), newLeased("l", "k", kind, func(u Unclaimed) Named { return Named{Holder: holder(u.Value)} }, 5)
		at, version := int64(10), 0
		clock := func() int64 { return at }
		l, there := kube.Lease{Key: "k", Duration: 15 * time.Millisecond}, false
		change := func(listed bool) {
			c := kube.LeaseChange{Lease: l, There: there, Listed: listed}
			if !there {
				c.Lease = kube.Lease{}
			}
			old.record(c, clock)
			now.record(c, clock)
		}
		wrote := func() {
			version++
			l.ResourceVersion = fmt.Sprint(version)
			change(false)
		}
		look := func() sample {
			s := sample{at: history.At(at)}
			at += int64(r.IntN(3_000_000))
			if s.at.To = at; there {
				s.version = l.ResourceVersion
				old.note(s)
				now.note(s)
			}
			return s
		}
		change(true)
		for i := range 30 {
			at += int64(r.IntN(10_000_000))
			switch r.IntN(9) {
			case 0, 1:
				there, l.Holder, l.Acquired = true, []string{"a", "b", ""}[r.IntN(3)], time.Unix(0, at)
				l.Transitions++
				l.Renewed = l.Acquired
				wrote()
			case 2, 3:
				if there {
					l.Renewed = l.Renewed.Add(time.Duration(r.IntN(2_000_000_000)))
					wrote()
				}
			case 4:
				if there {
					there = false
					change(false)
				}
			case 5:
				known[[]string{"a", "b"}[r.IntN(2)]] = []string{"", "r1.1", "r2.1"}[r.IntN(3)]
			case 6:
				change(true)
			case 7:
				look()
			}
			s := look()
			if r.IntN(3) == 0 {
				look() // for a strike
			}
			final := i == 29
			a, b := old.report(nil, s, final, holder), now.report(nil, s, final)
			events += len(a)
			sameEvents(t, seed, i, a, b)
		}
	}
	t.Logf("%d events of leases, all the same", events)
}

func TestTrackSaysWhatEtcdSaid(t *testing.T) {
	events := 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 4))
		rivals, locks := map[string][]*rival{}, map[string]string{"a": "l", "b": "l"}
		old := &oldEtcd{locks: locks, rivals: rivals, shown: map[string]etcdShown{}}
		now := &Etcd{locks: locks, rivals: rivals, shown: map[string]*etcdLock{}}
		at, revision := int64(10), int64(0)
		for i := range 40 {
			at += int64(r.IntN(10_000_000))
			key := []string{"a", "b"}[r.IntN(2)]
			told := history.Span{From: min(old.looked.at.From, at), To: at}
			switch r.IntN(8) {
			case 0, 1, 2:
				revision++
				n := &rival{name: key, created: revision, lease: clientv3.LeaseID(r.IntN(2)), value: []string{"", "x", "y"}[r.IntN(3)]}
				if len(rivals[key]) > 0 && n.value != "" {
					*rivals[key][0] = *n
				} else {
					rivals[key] = append(rivals[key], n)
				}
				old.change(key, told)
				now.change(key, told)
			case 3, 4:
				if len(rivals[key]) > 0 {
					rivals[key] = slices.Delete(rivals[key], 0, 1)
				}
				old.change(key, told)
				now.change(key, told)
			case 5:
				for k, s := range old.shown {
					s.torn = true
					old.shown[k] = s
				}
				for _, l := range now.shown {
					l.torn = true
				}
			case 6, 7:
				if h := now.holder(key); h != nil && h.lease != clientv3.NoLease {
					a := leaseAnswer{key: key, of: h, lease: h.lease, at: history.Span{From: at - 5, To: at}, left: int64(r.IntN(3)), granted: 5}
					before := *h
					old.leases(a)
					*h = before
					now.showLeases([]leaseAnswer{a})
				}
			}
			if r.IntN(3) == 0 {
				old.looked.at = history.Span{From: at, To: at + 1000}
				now.looked.at = old.looked.at
				at += 1000
			}
			for i := range now.news { // a look gives it its lock
				now.news[i].Lock = locks[now.news[i].Key]
			}
			sameEvents(t, seed, i, old.news, now.news)
			events += len(old.news)
			old.news, now.news = nil, nil
		}
		for _, key := range []string{"a", "b"} {
			e := old.event(key, old.holder(key), history.Span{From: at, To: at + 5})
			e.Look.Final = true
			last := *now.lock(key)
			got := last.see(nil, sourceKeys, &Names{}, stateOfRival(now.holder(key)), sight{Span: history.Span{From: at, To: at + 5}, final: true, told: &told{}})
			got[0].Lock = locks[key]
			sameEvents(t, seed, 40, []history.Event{e}, got)
		}
	}
	t.Logf("%d events of etcd, all the same", events)
}
