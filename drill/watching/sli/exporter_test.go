package sli

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/drill/watching"
	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/history"
)

const ms = int64(time.Millisecond)

// world is a lock in virtual time, and a watch that looks at it through an exporter: it tells news, as the probe of keys does.
type world struct {
	t      *testing.T
	x      *Exporter
	key    string
	now    int64
	value  string
	end    int64 // of the lease
	looked bool
	last   history.Span
	was    string
	left   int64
}

func newWorld(t *testing.T, key string) *world {
	return &world{t: t, x: New(nil), key: key, now: int64(time.Hour)}
}

// look looks once; blind is a look that fails.
func (w *world) look(blind bool) {
	if w.now >= w.end {
		w.value = ""
	}
	at := history.Span{From: w.now - ms, To: w.now + ms}
	if blind {
		w.x.Looked(watching.State{Failed: w.x.failed + 1, Last: at})
		return
	}
	left := int64(-2)
	if w.value != "" {
		left = w.end - w.now
	}
	longer := w.value != "" && left > w.left-(at.From-w.last.To)+3*ms
	if w.looked && (w.value != w.was || longer) || !w.looked && w.value != "" {
		e := history.Event{Kind: history.LookKind, Source: "probe:lock_keys", Key: w.key, Epoch: w.value, Span: at, Look: &history.Look{Present: w.value != "", PTTL: left}}
		if w.looked {
			before := w.last
			e.Look.Prev, e.Look.PrevPTTL = &before, max(0, w.left)
		}
		if err := w.x.See(watching.Seen{Event: e, Values: draft.Tokens}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.looked, w.last, w.was, w.left = true, at, w.value, left
	w.x.Looked(watching.State{Failed: w.x.failed, Last: at})
}

// until looks every 50 ms or so until t.
func (w *world) until(r *rand.Rand, t int64) {
	for w.now+30*ms < t {
		w.now += 30*ms + r.Int64N(40*ms)
		w.look(false)
	}
	w.now = max(w.now, t)
	if w.now >= w.end {
		w.value = ""
	}
}

// figures are what the exporter shows, series by series; histograms by their _sum and _count.
func figures(t *testing.T, x *Exporter) map[string]float64 {
	t.Helper()
	families, err := x.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "lockdrill_watch_")
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			of := "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.Histogram != nil:
				all[name+"_sum"+of], all[name+"_count"+of] = m.Histogram.GetSampleSum(), float64(m.Histogram.GetSampleCount())
			case m.Counter != nil:
				all[name+of] = m.Counter.GetValue()
			case m.Gauge != nil:
				all[name+of] = m.Gauge.GetValue()
			}
		}
	}
	return all
}

func (w *world) ended(how facts.LeaseEnd) int {
	return int(figures(w.t, w.x)["leases_ended_total{"+string(how)+",sched:leader}"])
}

// sums are the sums of the histogram's values, and how many there are.
func (w *world) sums(name string) (lo, hi float64, n int) {
	all := figures(w.t, w.x)
	name, part, _ := strings.Cut(name, " of ")
	if part != "" {
		part = "," + part
	}
	return all[name+"_sum{lo,sched:leader"+part+"}"], all[name+"_sum{hi,sched:leader"+part+"}"], int(all[name+"_count{hi,sched:leader"+part+"}"])
}

// Whatever a lock's holders do, the truth lies within the figures, and these are not much wider than the looks are apart.
func TestFiguresHoldTheTruth(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 35))
		w := newWorld(t, "sched:leader")
		w.until(r, w.now+200*ms)
		var held, takeover, residual, slack float64
		holds, takeovers, ends := 0, 0, map[facts.LeaseEnd]int{}
		failed, ran := int64(0), int64(0)
		for n := range 8 {
			ttl := 500*ms + r.Int64N(2000*ms)
			w.value, w.end = fmt.Sprint("token-", n), w.now+ttl
			granted, renewed := w.now, w.now
			if failed != 0 {
				takeover += float64(w.now-failed) / 1e9
				residual += float64(ran-failed) / 1e9
				takeovers++
			}
			for range r.IntN(4) {
				w.until(r, w.now+ttl/3)
				w.end, renewed = w.now+ttl, w.now
			}
			w.until(r, w.now+100*ms)
			ended := w.end
			if r.IntN(2) == 0 { // it dies after its last renewal
				failed = renewed + r.Int64N(w.end-renewed)
				ran = w.end
				slack += float64(ttl) / 1e9
				w.until(r, w.end+200*ms)
				ends[facts.EndRanOut]++
			} else if ended = min(w.now, w.end-150*ms); ended <= w.now { // it releases, well before the end
				ended, failed = w.now, 0
				w.value, w.end = "", 0
				ends[facts.EndEarly]++
			}
			held += float64(ended-granted) / 1e9
			holds++
			w.until(r, w.now+150*ms+r.Int64N(800*ms))
		}
		for how, want := range ends {
			if got := w.ended(how); got != want {
				t.Fatalf("seed %d: %d leases ended as %s, want %d", seed, got, how, want)
			}
		}
		if lo, hi, n := w.sums("held_seconds"); n != holds || held < lo || held > hi || hi-lo > float64(holds)*.16 {
			t.Fatalf("seed %d: %d holds of [%g, %g] s, in truth %d of %g", seed, n, lo, hi, holds, held)
		}
		if lo, hi, n := w.sums("takeover_seconds"); n != takeovers || takeover < lo || takeover > hi || hi-lo > slack+float64(takeovers)*.2 {
			t.Fatalf("seed %d: %d takeovers of [%g, %g] s, in truth %d of %g", seed, n, lo, hi, takeovers, takeover)
		}
		if lo, hi, n := w.sums("takeover_part_seconds of left of the lease"); n != takeovers || residual < lo || residual > hi || hi-lo > slack+float64(takeovers)*.2 {
			t.Fatalf("seed %d: left of the lease %d times [%g, %g] s, in truth %d of %g", seed, n, lo, hi, takeovers, residual)
		}
		if lo, hi, n := w.sums("takeover_part_seconds of pickup"); n != takeovers || takeover-residual < lo || takeover-residual > hi || hi-lo > float64(takeovers)*.2 {
			t.Fatalf("seed %d: %d pickups of [%g, %g] s, in truth %d of %g", seed, n, lo, hi, takeovers, takeover-residual)
		}
		if takeovers > 0 {
			native(t, w.x)
		}
	}
}

// native says that the parts have buckets that are as fine as any, and what alerts ask the buckets of has none.
func native(t *testing.T, x *Exporter) {
	t.Helper()
	families, err := x.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil && h.GetSampleCount() > 0 {
				if is, want := len(h.GetPositiveSpan())+int(h.GetZeroCount()) > 0, f.GetName() == "lockdrill_watch_takeover_part_seconds"; is != want || len(h.GetBucket()) == 0 {
					t.Fatalf("%s: a native histogram %v, want %v, and %d plain buckets", f.GetName(), is, want, len(h.GetBucket()))
				}
			}
		}
	}
}

// What nobody looked at is not made up.
func TestABlindWatchSaysSo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	w := newWorld(t, "sched:leader")
	w.until(r, w.now+200*ms)
	w.value, w.end = "a", w.now+10_000*ms
	w.until(r, w.now+300*ms)
	for range 300 { // 15 s, in which the lease is over
		w.now += 50 * ms
		w.look(true)
	}
	if all := figures(t, w.x); all["looks_total{failed}"] != 300 || has(all, "holders{") {
		t.Errorf("while looks fail it says who holds: %v", all)
	}
	w.until(r, w.now+200*ms)
	w.value, w.end = "b", w.now+10_000*ms
	w.until(r, w.now+200*ms)
	if got := w.ended(facts.EndUnseen); got != 1 || !has(figures(t, w.x), "holders{") {
		t.Errorf("%d leases ended unseen", got)
	}
	if _, _, n := w.sums("takeover_seconds"); n != 0 {
		t.Errorf("%d takeovers of which nobody knows", n)
	}
	// It was free for a while, and nobody looked: somebody may have held it meanwhile.
	w.until(r, w.end+200*ms)
	for range 100 {
		w.now += 50 * ms
		w.look(true)
	}
	w.until(r, w.now+2000*ms)
	w.value, w.end = "c", w.now+10_000*ms
	w.until(r, w.now+200*ms)
	if lo, hi, n := w.sums("takeover_seconds"); n != 1 || lo > .3 || hi < 15 {
		t.Errorf("after a blind stretch %d takeovers of [%g, %g] s", n, lo, hi)
	}
}

// A release just before the lease's end looks like that end, and the range holds it.
func TestAReleaseJustBeforeTheEnd(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	w := newWorld(t, "sched:leader")
	w.until(r, w.now+200*ms)
	w.look(false)
	w.now += 2 * ms
	granted := w.now
	w.value, w.end = "a", w.now+1000*ms
	w.look(false)
	w.until(r, w.end-30*ms)
	w.look(false)
	w.now += 5 * ms
	held := float64(w.now-granted) / 1e9
	w.value = ""
	w.until(r, w.now+300*ms)
	if lo, hi, n := w.sums("held_seconds"); n != 1 || lo > held || hi < held {
		t.Errorf("%d holds of [%g, %g] s, in truth one of %g", n, lo, hi, held)
	}
}

// A token that comes back after its key was gone too early is a holder's who writes on, and no release.
func TestATokenThatComesBackHadVanished(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	w := newWorld(t, "sched:leader")
	w.until(r, w.now+200*ms)
	w.value, w.end = "a", w.now+10_000*ms
	w.until(r, w.now+200*ms)
	w.value = ""
	w.until(r, w.now+200*ms)
	w.value, w.end = "a", w.now+10_000*ms
	w.until(r, w.now+200*ms)
	if got := figures(t, w.x)["vanished_total{sched:leader}"]; got != 1 {
		t.Errorf("%v vanished", got)
	}
}

// Weeks of locks of jobs, of a loop that renews and of keys that are no locks leave a bounded memory and a bounded number of series.
func TestMemoryIsBounded(t *testing.T) {
	x := New([]string{"named"})
	at := int64(0)
	see := func(key, value string, left int64) {
		at += ms
		e := history.Event{Kind: history.LookKind, Source: "probe:lock_keys", Key: key, Epoch: value, Span: history.Span{From: at, To: at},
			Look: &history.Look{Present: value != "", PTTL: left, Prev: &history.Span{From: at - ms, To: at - ms}}}
		if err := x.See(watching.Seen{Event: e, Holder: value}); err != nil {
			t.Fatal(err)
		}
		x.Looked(watching.State{Last: e.Span})
	}
	for n := range 3 * mostKeys {
		key := fmt.Sprint("job:", n)
		see(key, fmt.Sprint("t", n), 20*ms)
		if n%3 > 0 {
			at += 30 * ms // it runs out
		}
		see(key, "", -2)
		see("named", "leader", 10_000*ms+at%7*ms*1000)
		if n%100 == 0 {
			see(fmt.Sprint("loop-", n, "-x"), "w", 1000_000*ms)
			see(fmt.Sprint("text-", n), "no lock", -1)
		}
	}
	if n := len(x.keys); n > mostKeys || len(x.ends) > mostKeys {
		t.Errorf("%d keys and %d ends are kept", n, len(x.ends))
	}
	for key, tape := range x.keys {
		if len(tape.looks) > 4 || cap(tape.looks) > 8 {
			t.Fatalf("%s: %d looks are kept", key, len(tape.looks))
		}
	}
	all := figures(t, x)
	if n := len(x.locks); n > mostLocks+1 || all["grants_total{other}"] == 0 {
		t.Errorf("%d locks have series of their own", n)
	}
	if all["forgotten_keys_total{}"] == 0 {
		t.Error("keys whose lease ran out were forgotten, and it does not say so")
	}
	if got := all["leases_ended_total{ran_out,job:*}"]; got != 2*mostKeys {
		t.Errorf("%v leases of jobs ran out", got)
	}
	if has(all, "grants_total{text") || all["holders{leader,named}"] != 1 {
		t.Errorf("a text without an expiry is no lock, and the leader holds one key: %v", all["holders{leader,named}"])
	}
}

// has reports a series that begins so.
func has(all map[string]float64, prefix string) bool {
	for name := range all {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// A Lease object stays when its holder dies: nobody holds it any more once it has run out, though no look shows a change.
func TestALeaseObjectThatRanOutIsNobodys(t *testing.T) {
	x := New([]string{"svc"})
	renewed := func(at int64) {
		look := &history.Look{Present: true, PTTL: 2000 * ms, Prev: &history.Span{From: at - ms, To: at - ms}}
		if err := x.See(watching.Seen{Holder: "pod-a", Event: history.Event{Kind: history.LookKind, Source: "probe:leases", Key: "svc", Epoch: "pod-a", Span: history.Span{From: at, To: at}, Look: look}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ renewed, looked, held int64 }{{1000, 1000, 1}, {1000, 2900, 1}, {2950, 4900, 1}, {2950, 5000, 0}, {6000, 6001, 1}} {
		renewed(c.renewed * ms)
		x.Looked(watching.State{Last: history.Span{From: c.looked * ms, To: c.looked * ms}})
		if got := figures(t, x)[`holders{pod-a,svc}`]; got != float64(c.held) {
			t.Errorf("renewed at %d, looked at %d: %v held, want %d: %v", c.renewed, c.looked, got, c.held, figures(t, x))
		}
	}
}
