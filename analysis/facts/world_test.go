package facts

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// world is a store with one key and replicas that use it badly and well, in virtual time. It knows the truth of what it puts
// into the history. Times are ns.
type world struct {
	r      *rand.Rand
	now    int64
	queue  moments
	events []history.Event
	n      int

	holder string // true state of the key
	expiry int64
	fence  int64

	grants []string // in true order
	truth  map[string]*fate
	dead   map[string]bool
	died   map[string]int64

	refused, served []int64 // when the store refused, or granted, what a replica was told of
}

// fate is what really happened to an epoch.
type fate struct {
	granted, freed int64
	believed       [2]int64

	holder  string // replica
	done    int64  // from here on nobody needed the key; open = never
	orphan  bool   // its caller gave up before it learnt of the grant
	planned bool   // left to its TTL
	reached bool   // the first release came to the store
	settled bool   // a release was answered or skipped, or a renewal succeeded after the work
}

func newWorld(seed, run uint64) *world {
	return &world{r: rand.New(rand.NewPCG(seed, run)), truth: map[string]*fate{}, dead: map[string]bool{}, died: map[string]int64{}, now: 1e9}
}

type moment struct {
	at int64
	n  int
	do func()
}

type moments []moment

func (m moments) Len() int { return len(m) }

func (m moments) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(m[i].at, m[j].at), cmp.Compare(m[i].n, m[j].n)) < 0
}

func (m moments) Swap(i, j int) { m[i], m[j] = m[j], m[i] }

func (m *moments) Push(x any) { *m = append(*m, x.(moment)) }

func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

const (
	worldTTL    = int64(1000e6)
	worldFlight = int64(100e6) // op timeout, and longest flight after it
)

func (w *world) after(d int64, do func()) {
	w.n++
	heap.Push(&w.queue, moment{w.now + d, w.n, do})
}

func (w *world) rnd(max int64) int64 { return 1 + w.r.Int64N(max) }

// expire frees the key if its time is up.
func (w *world) expire() {
	if w.holder != "" && w.now >= w.expiry {
		w.truth[w.holder].freed = w.expiry
		w.holder = ""
	}
}

func (w *world) record(source string, kind history.Kind, from, to int64, ev history.Event) {
	if w.dead[source] {
		return
	}
	ev.Kind, ev.Source, ev.Span = kind, source, history.Span{From: from, To: to}
	ev.Lock, ev.Key = "l", "k"
	w.events = append(w.events, ev)
}

// call sends an operation; it takes effect later, even if its caller has given up or died; then is called with its result, or
// with "" if the reply was lost.
func (w *world) call(rep, verb, epoch string, apply func() (string, history.Event), then func(string)) {
	w.n++
	op, sent := strconv.Itoa(w.n), w.now
	w.record(rep, history.Kind(verb+".invoke"), sent, sent, history.Event{Epoch: epoch, Op: op, Call: &history.Call{TTL: worldTTL}})
	if w.dead[rep] {
		return
	}
	lost := w.r.IntN(6) == 0
	flight := w.rnd(20e6)
	if lost {
		flight = w.rnd(2 * worldFlight)
	}
	reply := func(result string, ev history.Event, out history.Outcome) {
		ev.Epoch, ev.Op, ev.Outcome = epoch, op, out
		ev.Call = &history.Call{Result: result, Holder: ev.Source}
		if !w.dead[rep] {
			w.record(rep, history.Kind(verb+".return"), sent, w.now, ev)
			then(result)
		}
	}
	w.after(flight, func() {
		if lost && w.r.IntN(2) == 0 {
			return // the request was lost
		}
		w.expire()
		result, ev := apply()
		if lost {
			return
		}
		out := history.Fail
		if result == history.ResultGranted || result == history.ResultRenewed || result == history.ResultReleased {
			out = history.OK
		}
		w.after(w.rnd(20e6), func() { reply(result, ev, out) })
	})
	if lost {
		w.after(worldFlight, func() { reply(history.ResultError, history.Event{}, history.Unknown) })
	}
}

// live is a replica: it asks, holds, renews, gives back, and may die at any moment.
func (w *world) live(rep string) {
	w.n++
	id := fmt.Sprintf("e%d", w.n)
	var at int64 // when the store answered
	w.call(rep, "acquire", id, func() (string, history.Event) {
		at = w.now
		if w.holder != "" {
			return history.ResultHeld, history.Event{Source: w.holder}
		}
		w.fence++
		w.holder, w.expiry = id, w.now+worldTTL
		w.grants = append(w.grants, id)
		f := w.fateOf(id)
		f.granted, f.holder = w.now, rep
		if f.orphan {
			f.done = w.now
		}
		return history.ResultGranted, history.Event{Fence: w.fence}
	}, func(result string) {
		switch result {
		case history.ResultGranted:
			w.served = append(w.served, at)
			w.truth[id].believed[0] = w.now
			w.hold(rep, id)
			return
		case history.ResultHeld:
			w.refused = append(w.refused, at)
		default:
			w.refused = append(w.refused, w.now)
			w.orphan(rep, id)
		}
		w.after(w.rnd(300e6), func() { w.live(rep) })
	})
}

// hold works, renews now and then, and in the end gives the lock back in one of many ways, or leaves it to its TTL.
func (w *world) hold(rep, id string) {
	w.n++
	op := strconv.Itoa(w.n)
	w.record(rep, history.WorkEnter, w.now, w.now, history.Event{Epoch: id, Op: op, Work: &history.Work{Subject: "j"}})
	w.keep(rep, id, op)
}

func (w *world) keep(rep, id, op string) {
	again := func() { w.after(w.rnd(300e6), func() { w.live(rep) }) }
	w.after(w.rnd(500e6), func() {
		if w.dead[rep] {
			return
		}
		switch w.r.IntN(10) {
		case 0: // left to its TTL
			w.truth[id].planned = true
			w.notice(rep, id, "expired")
			w.stop(rep, id, op)
			again()
		case 1: // given up, and not given back
			w.notice(rep, id, "count")
			w.stop(rep, id, op)
			w.record(rep, history.ReleaseSkipped, w.now, w.now, history.Event{Epoch: id, Call: &history.Call{Why: "after_abandon"}})
			w.truth[id].settled = true
			again()
		case 2: // the renewals outlive the work
			w.stop(rep, id, op)
			w.after(w.rnd(50e6), func() { w.renew(rep, id, func(bool) { w.giveBack(rep, id, 1, again) }) })
		case 3, 4, 5:
			w.stop(rep, id, op)
			w.after(w.rnd(150e6), func() { w.giveBack(rep, id, 2, again) })
		default:
			w.renew(rep, id, func(ok bool) {
				if ok {
					w.keep(rep, id, op)
					return
				}
				w.notice(rep, id, "not_owned")
				w.stop(rep, id, op)
				again()
			})
		}
	})
}

func (w *world) renew(rep, id string, then func(ok bool)) {
	done := w.truth[id].done != Open
	w.call(rep, "renew", id, func() (string, history.Event) {
		if w.holder != id {
			return history.ResultAbsent, history.Event{}
		}
		w.expiry = w.now + worldTTL
		return history.ResultRenewed, history.Event{}
	}, func(result string) {
		ok := result == history.ResultRenewed
		w.truth[id].settled = w.truth[id].settled || ok && done
		then(ok)
	})
}

func (w *world) notice(rep, id, reason string) {
	w.record(rep, history.FenceObserved, w.now, w.now, history.Event{Epoch: id, Abandon: &history.Abandon{Reason: reason}})
	w.disbelieve(id)
}

func (w *world) disbelieve(id string) { w.truth[id].believed[1] = min(w.truth[id].believed[1], w.now) }

func (w *world) release(id string) func() (string, history.Event) {
	return func() (string, history.Event) {
		if w.holder != id {
			return history.ResultAbsent, history.Event{}
		}
		w.holder = ""
		w.truth[id].freed = w.now
		return history.ResultReleased, history.Event{}
	}
}

// fateOf finds or makes the truth about an epoch.
func (w *world) fateOf(id string) *fate {
	if w.truth[id] == nil {
		w.truth[id] = &fate{granted: Open, freed: Open, believed: [2]int64{Open, Open}, done: Open}
	}
	return w.truth[id]
}

// kill ends a replica at a random instant.
func (w *world) kill(rep string) {
	w.after(w.rnd(8e9), func() {
		for _, t := range w.truth {
			if t.believed[0] != Open && t.believed[1] == Open && w.believer(t) == rep {
				t.believed[1] = w.now
			}
		}
		w.record(rep, history.ReplicaExit, w.now-w.rnd(1e6), w.now+w.rnd(5e6), history.Event{Replica: &history.Replica{Name: rep, Incarnation: rep}})
		w.events[len(w.events)-1].Source = "runner"
		w.dead[rep], w.died[rep] = true, w.now
	})
}

// believer finds who holds the belief.
func (w *world) believer(t *fate) string {
	for _, ev := range w.events {
		if ev.Kind == history.AcquireReturn && ev.Outcome == history.OK && w.truth[ev.Epoch] == t {
			return ev.Source
		}
	}
	return ""
}

func (w *world) run(until int64) *history.History {
	for w.queue.Len() > 0 {
		m := heap.Pop(&w.queue).(moment)
		if m.at > until {
			break
		}
		w.now = m.at
		w.expire()
		m.do()
	}
	slices.SortStableFunc(w.events, func(a, b history.Event) int { return cmp.Compare(a.To, b.To) })
	for i := range w.events {
		w.events[i].N = int64(i + 1)
	}
	return &history.History{Header: history.Header{Schema: 1, TimeScale: 1}, Events: w.events}
}

// seedOf gives the seed of a property test: new each time, or SEED, to do one again.
func seedOf(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SEED=%d", seed)
	return seed
}

// Every bracket contains the truth: the instant of each grant, of each lease end, of each belief, the overlap, the debts with
// those who waited for them, and the orphans; grants are in their true order. Replies get lost, calls arrive late, replicas die at any moment.
func TestBracketsContainTheTruth(t *testing.T) {
	seed := seedOf(t)
	exp := &experiments.Experiment{TimeScale: 1, System: experiments.System{Locks: []experiments.Lock{{Name: "l", Key: "k",
		Policy: lockcore.Policy{TTL: time.Duration(worldTTL), OpTimeout: time.Duration(worldFlight), Acquire: lockcore.Acquire{Timeout: time.Duration(worldFlight)}}}}}}
	epochs, seen := 0, debtsSeen{}
	for run := range 500 {
		w := newWorld(seed, uint64(run))
		for _, rep := range []string{"r1", "r2", "r3", "r4"} {
			w.live(rep)
			if rep != "r1" {
				w.kill(rep)
			}
		}
		ix, err := Read(exp, experiments.Scale(exp), w.run(10e9).Source())
		if err != nil {
			t.Fatal(err)
		}
		if len(ix.Findings) > 0 {
			t.Fatalf("run %d: an honest store gives a contradiction: %s", run, ix.Findings[0].What)
		}
		epochs += w.check(t, run, ix.Keys["k"])
		var believed []stretchOf
		for i, id := range w.grants {
			believed = append(believed, stretchOf{w.truth[id].believed[0], w.truth[id].believed[1], i})
		}
		if o, truth := ix.TimeOverlap("l", verdict.LevelBelief), excess(believed); truth < o.Lo || truth > o.Hi {
			t.Fatalf("run %d: %d ns of overlap are not in [%d, %d]", run, truth, o.Lo, o.Hi)
		}
		w.checkDebts(t, run, ix.DebtsOf("l"), &seen)
	}
	if epochs < 1000 {
		t.Errorf("only %d epochs were compared", epochs)
	}
	seen.enough(t)
}

func (w *world) check(t *testing.T, run int, k *Key) int {
	t.Helper()
	rank := 0
	var before *Epoch
	for _, id := range w.grants {
		e, truth := k.Find(id), w.truth[id]
		if e == nil || !e.sure {
			continue // nobody ever learnt of it
		}
		if before != nil && before.surelyAfter(e) || e.Fence != 0 && e.Rank <= rank {
			t.Fatalf("run %d: epoch %s is ranked %d, the one before it at most %d", run, id, e.Rank, rank)
		}
		before = e
		if e.Fence != 0 {
			rank = e.Rank
		}
		in := func(what string, s history.Span, at int64) {
			if at != Open && (at < s.From || at > s.To) {
				t.Fatalf("run %d: epoch %s: %s at %d is not in %v", run, id, what, at, s)
			}
		}
		in("grant", e.Granted, truth.granted)
		in("lease end", e.Lease.Freed, truth.freed)
		if e.Belief != nil {
			in("belief begins", e.Belief.Start, truth.believed[0])
			in("belief ends", e.Belief.End, truth.believed[1])
		}
	}
	return rank
}
