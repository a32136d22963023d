package analysis

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Recorded histories of a leader of somebody's own whose replicas are asked every 200 ms whether they lead.

var svcLeader = want{"leader", "svc:leader", 3}

// asked begins such a run.
func asked(says string) foreignTape {
	t := watched(says)
	t.schema = history.SchemaNumbered
	return t
}

// tells adds the look that shows a change: what was before was seen 200 ms earlier.
func (t foreignTape) tells(at float64, who string, leads bool, gone string) {
	b := &history.Belief{Incarnation: who, Holds: leads, By: "metric", Gone: gone}
	for i := range t.events {
		if o := t.events[i].Belief; o != nil && o.Incarnation == who {
			b.Prev = &history.Span{From: ns(at - 200*ms), To: ns(at - 198*ms)}
		}
	}
	t.add(at, at+2*ms, history.Event{Kind: history.BeliefKind, Source: "probe:belief:leader", Lock: "leader", Belief: b})
}

// finally ends the run, with the last look at who leads.
func (t foreignTape) finally(revert float64, leader string, others ...string) *tape {
	last := func(who string, leads bool) {
		b := &history.Belief{Incarnation: who, Holds: leads, By: "metric", Final: true, Prev: &history.Span{From: ns(71.8), To: ns(71.802)}}
		t.add(72.1, 72.102, history.Event{Kind: history.BeliefKind, Source: "probe:belief:leader", Lock: "leader", Belief: b})
	}
	last(leader, true)
	for _, who := range others {
		last(who, false)
	}
	return t.over(revert, 72, experiments.ProbeKeys, history.BeliefProbe("leader"))
}

// saysSo: the leader's renewals stay out from 10 on, its lease ends at 13, and another leads from 13.25 on. It says until then that it leads.
func saysSo(until float64) *tape {
	t := asked("a leader cannot renew, and says that it leads")
	t.tells(0.5, "r1.1", true, "")
	t.tells(0.5, "r2.1", false, "")
	t.reign(1, 10, svcLeader, "a", "r1.1")
	if until < 13 {
		t.tells(until, "r1.1", false, "")
	}
	t.look(13.001, svcLeader, "", 0)
	t.reign(13.25, 25.25, svcLeader, "b", "r2.1")
	t.tells(13.4, "r2.1", true, "")
	if until > 13 {
		t.tells(until, "r1.1", false, "")
	}
	return t.thenKilled(28.5)
}

// thenKilled: r2.1 is killed as it leads, and r1.1 leads from then on.
func (t foreignTape) thenKilled(again float64) *tape {
	t.kill(25.3, "kill-leader#1", "after_renew", "b")
	t.start(25.9, "r2.2")
	t.tells(26.1, "r2.2", false, "")
	t.look(28.25, svcLeader, "", 0)
	t.reign(again, 71.5, svcLeader, "c", "r1.1")
	t.tells(again+0.1, "r1.1", true, "")
	return t.finally(26, "r1.1", "r2.2")
}

// replaced: the leader's key is another's at 11, two seconds before its lease ends. It says until then that it leads.
func replaced(until float64) *tape {
	t := asked("a leader's key is another's before its lease ends")
	t.tells(0.5, "r1.1", true, "")
	t.tells(0.5, "r2.1", false, "")
	t.reign(1, 10, svcLeader, "a", "r1.1")
	if until < 11 {
		t.tells(until, "r1.1", false, "")
	}
	t.look(11, svcLeader, "", 0)
	t.reign(11.25, 25.25, svcLeader, "b", "r2.1")
	t.tells(11.4, "r2.1", true, "")
	if until > 11 {
		t.tells(until, "r1.1", false, "")
	}
	return t.thenKilled(28.5)
}

// vacant: the leader is killed at 25.3, its lease ends at 28.25, and another leads from then on.
func vacant(again float64) *tape {
	t := asked("a leader is killed, and another leads so much later")
	t.tells(0.5, "r1.1", false, "")
	t.tells(0.5, "r2.1", true, "")
	t.reign(1.25, 25.25, svcLeader, "b", "r2.1")
	return t.thenKilled(again)
}

// untold: nobody ever says that it leads, or, where asked, one could not be asked for six seconds.
func untold(asks bool) *tape {
	t := asked("of a leader's replicas too little is known")
	t.tells(0.5, "r1.1", false, "")
	t.tells(0.5, "r2.1", asks, "")
	t.reign(1.25, 25.25, svcLeader, "b", "r2.1")
	if asks {
		t.tells(16, "r1.1", false, history.GoneTimeout)
		t.tells(22, "r1.1", false, "")
		return t.thenKilled(28.5)
	}
	t.kill(25.3, "kill-leader#1", "after_renew", "b")
	t.start(25.9, "r2.2")
	t.look(28.25, svcLeader, "", 0)
	t.reign(28.5, 71.5, svcLeader, "c", "r1.1")
	return t.over(26, 72, experiments.ProbeKeys, history.BeliefProbe("leader"))
}

// A replica that could not be asked for a moment, and says before and after it that it leads, has said so all the while.
func TestWhatOneCouldNotBeAskedForAMomentIsSaidOn(t *testing.T) {
	tp := saysSo(16)
	said := foreignTape{tape: tp}
	for i := range tp.events {
		if b := tp.events[i].Belief; b != nil && b.Incarnation == "r1.1" && !b.Holds {
			rest := slices.Clone(tp.events[i:])
			tp.events = tp.events[:i]
			said.tells(12.4, "r1.1", false, history.GoneTimeout)
			said.tells(14, "r1.1", true, "")
			tp.events = append(tp.events, rest...)
			break
		}
	}
	e, _ := load(t, "believes-on")
	for measure, lo := range map[string]float64{"loss_to_fence": 1.237, "overlap.belief": 2.398} {
		if r := rowOf(t, Judge(e, tp.history(t)), measure); r.Verdict != verdict.Fail || math.Abs(r.Lo-lo) > 2e-3 {
			t.Errorf("%s: %s [%g, %v] %s", measure, r.Verdict, r.Lo, orOpen(r.Hi), r.Why)
		}
	}
}

// Under a pause a holder may say that it leads beside another, and accuses nobody; where none did for longer than the limit, the promise was kept.
func TestAPauseThatMadeNoTwoLeadersIsAnswered(t *testing.T) {
	data, err := os.ReadFile("../scenarios/testdata/believes-on/experiment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := strings.Replace(string(data), "faults:\n", "faults:\n  - {id: stop, at: 1s, for: 1s, pause: {holder_of: leader}}\n", 1)
	e, err := experiments.Parse("pause.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for until, want := range map[float64]verdict.Verdict{12.5: verdict.Pass, 16: verdict.Inconclusive} {
		tp := foreignTape{saysSo(until)}
		tp.strike(6, 7, "stop#1", "a", history.Fault{Kind: "pause", Declared: 1e9, Expected: 1e9, Observed: 1e9})
		if r := rowOf(t, Judge(e, tp.history(t)), "overlap.belief"); r.Verdict != want {
			t.Errorf("until %g: %s [%g, %v] %s", until, r.Verdict, r.Lo, orOpen(r.Hi), r.Why)
		}
	}
}

// Somebody may have led while nobody looked: where nobody is asked, the looks at the key are all that is known of leaders. The lease of the
// one that is killed at 25.3 ends at 28.25, another is seen to lead from 45 on, and from 29 to 43 nobody looks.
func TestSomebodyMayHaveLedWhileNobodyLooked(t *testing.T) {
	tp := vacant(45)
	tp.blind(29, 43)
	e, _ := load(t, "leaderless-long")
	h := tp.history(t)
	e.System.Locks[0].Belief, slo(e, "leaderless").Leaderless = nil, experiments.AtMost(10*time.Second)
	without(h, func(ev *history.Event) bool {
		return ev.Belief != nil || ev.Coverage != nil && ev.Coverage.Probe == history.BeliefProbe("leader")
	})
	e.SLOs = e.SLOs[:1]
	if r := rowOf(t, Judge(e, h), "leaderless"); r.Verdict != verdict.Inconclusive || math.Abs(r.Lo-5.7) > 0.1 || r.Hi == nil || math.Abs(*r.Hi-19.7) > 0.1 {
		t.Errorf("%s [%g, %v] %s %+v", r.Verdict, r.Lo, orOpen(r.Hi), r.Why, r.Missing)
	}
}

// The next life of a killed leader leads again, and says so in the log in which the dead one wrote.
func TestALineAfterADeathIsOfTheNextLife(t *testing.T) {
	tp := asked("a log goes on over a restart")
	line := func(at float64, who string, leads bool) {
		tp.add(at, at+200*ms, history.Event{Kind: history.BeliefKind, Source: "probe:belief:leader", Lock: "leader",
			Belief: &history.Belief{Incarnation: who, Holds: leads, By: experiments.HolderByLog, Direct: true}})
	}
	line(0.5, "r1.1", false)
	line(0.5, "r2.1", true)
	tp.reign(1.25, 25.25, svcLeader, "b", "r2.1")
	tp.kill(25.3, "kill-leader#1", "after_renew", "b")
	tp.start(25.9, "r2.2")
	line(26, "r2.2", false)
	tp.look(28.25, svcLeader, "", 0)
	tp.reign(28.5, 71.5, svcLeader, "c", "r2.2")
	line(28.6, "r2.1", true)
	line(71.6, "r2.2", false)
	e, _ := load(t, "leaderless-long")
	e.System.Locks[0].Belief = &experiments.Belief{Log: &experiments.BeliefLog{Gain: "leads", Lose: "follows"}, Every: 200 * time.Millisecond}
	r := rowOf(t, Judge(e, tp.over(26, 72, experiments.ProbeKeys, history.BeliefProbe("leader")).history(t)), "leaderless")
	if r.Verdict != verdict.Pass || math.Abs(r.Lo-3.5) > 0.1 || r.Hi == nil || math.Abs(*r.Hi-3.9) > 0.1 {
		t.Errorf("%s [%g, %v] %s %+v", r.Verdict, r.Lo, orOpen(r.Hi), r.Why, r.Missing)
	}
}

// Where no answer can be read, the row says what came in its place. Where nobody ever says that it leads, and the key has a holder, what is asked
// may tell nothing, and nobody is blamed; where the key has none either, nobody led.
func TestWhatCannotBeReadIsSaidInPlaceOfNobody(t *testing.T) {
	const why, nobody = "no exposition: line 1 is no sample", "No replica ever said that it holds lock leader."
	for _, unread := range []bool{true, false} {
		e, _ := load(t, "leaderless-long")
		h := untold(false).history(t)
		edit(h, func(ev *history.Event) bool { return ev.Belief != nil && unread }, func(ev *history.Event) {
			ev.Belief.Gone, ev.Belief.Why = history.GoneUnreadable, why
		})
		for _, limit := range []time.Duration{time.Second, 10 * time.Second} { // the key has no holder for 3.2 s
			e.SLOs = []experiments.SLO{{Lock: "leader", Overlap: &experiments.OverlapLimit{Level: verdict.LevelBelief, Time: *experiments.AtMost(limit)}}, {Lock: "leader", Leaderless: experiments.AtMost(limit)}}
			for _, measure := range []string{"overlap.belief", "leaderless"} {
				want := verdict.Inconclusive
				if measure == "leaderless" && !unread && limit == time.Second {
					want = verdict.Fail
				}
				r := rowOf(t, Judge(e, h), measure)
				if r.Verdict != want || want != verdict.Fail && (strings.Contains(r.Why, why) != unread || strings.Contains(r.Why, nobody) == unread) {
					t.Errorf("%s of %s, unread %v: %s %s", measure, limit, unread, r.Verdict, r.Why)
				}
			}
		}
	}
}

// Nobody claims to hold a lock of somebody's own: who looks for a worker that reports would look in vain.
func TestAWatchedLockThatNobodyHeldAsksForNoWorker(t *testing.T) {
	e, _ := load(t, "leaderless-long")
	h := untold(false).history(t)
	e.System.Locks[0].Belief = nil
	without(h, func(ev *history.Event) bool {
		return ev.Belief != nil || ev.Coverage != nil && ev.Coverage.Probe == history.BeliefProbe("leader")
	})
	edit(h, func(ev *history.Event) bool { return ev.Look != nil }, func(ev *history.Event) { *ev.Look, ev.Epoch = history.Look{PTTL: -2, Prev: ev.Look.Prev}, "" })
	e.SLOs = []experiments.SLO{{Lock: "leader", Vanished: count(0)}}
	lacks := Judge(e, h).SLOs[0].Missing
	i := slices.IndexFunc(lacks, func(m verdict.Missing) bool { return m.Code == verdict.MissingHolders })
	if i < 0 || !strings.Contains(lacks[i].Next, "Check the lock's key") {
		t.Errorf("lacks %+v", lacks)
	}
}

// One that had the key for long and never said that it leads may have led: two leaders beside it would not be seen, and nobody is blamed for the
// time in which it led. One that could not have said so yet, or that said so once, is no such.
func TestAHolderThatNeverSaysSoMayHaveLed(t *testing.T) {
	for _, c := range []struct {
		name       string
		silent     string // never says that it leads
		gap        time.Duration
		overlap    verdict.Verdict
		leaderless verdict.Verdict
	}{
		{"all say so", "", 2 * time.Second, verdict.Pass, verdict.Pass},
		{"the first leader never does", "r2.1", 2 * time.Second, verdict.Inconclusive, verdict.Inconclusive},
		{"and held it for no longer than one may stay unasked", "r2.1", 30 * time.Second, verdict.Pass, verdict.Fail},
	} {
		e, _ := load(t, "leaderless-long")
		e.System.Locks[0].Belief.MaxGap = c.gap
		h := vacant(28.5).history(t)
		for i := range h.Events {
			if b := h.Events[i].Belief; b != nil && b.Incarnation == c.silent {
				said := *b
				said.Holds = false
				h.Events[i].Belief = &said
			}
		}
		few := experiments.AtMost(6 * time.Second)
		e.SLOs = []experiments.SLO{{Lock: "leader", Overlap: &experiments.OverlapLimit{Level: verdict.LevelBelief, Time: *few}}, {Lock: "leader", Leaderless: few}}
		j := Judge(e, h)
		o, l := rowOf(t, j, "overlap.belief"), rowOf(t, j, "leaderless")
		if o.Verdict != c.overlap || l.Verdict != c.leaderless || strings.Contains(o.Why, "held lock leader for") != (c.overlap == verdict.Inconclusive) {
			t.Errorf("%s: overlap %s %s; leaderless %s [%g, %v] %s", c.name, o.Verdict, o.Why, l.Verdict, l.Lo, orOpen(l.Hi), l.Why)
		}
	}
}
