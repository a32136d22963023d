package conductor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// A burst that struck a job about to end would be over before it is felt.
func TestABurstStrikesTheJobGrantedLast(t *testing.T) {
	c := New(loopDrill(1), 1)
	for i, key := range []string{"a", "b", "c"} {
		c.world.held[key] = &epoch{key: key, lock: "loop", granted: []int64{5, 9, 7}[i]}
	}
	keys := c.world.heldKeys("loop")
	burst := &series{f: &experiments.Fault{Spec: &fault.Failures{Of: lockcore.OpRenew}}, does: fault.Traits{Fails: lockcore.OpRenew}}
	kill := &series{f: &experiments.Fault{Spec: &fault.Kill{}}, does: fault.Traits{Kills: true}}
	struck := map[string]bool{}
	for range 100 {
		if got := c.aim(burst, keys); got != "b" {
			t.Fatalf("a burst strikes %s, want b, which was granted last", got)
		}
		struck[c.aim(kill, keys)] = true
	}
	if len(struck) != 3 {
		t.Errorf("100 kills struck only %v", struck)
	}
}

// Classes come as often as their shares say, at any point of the stream, and work as long as is theirs.
func TestClassesAreDealtByTheirShares(t *testing.T) {
	hold := experiments.Hold{P50: time.Second, P99: time.Second}
	long := experiments.Hold{P50: time.Minute, P99: time.Minute}
	for _, c := range []struct {
		classes []experiments.JobClass
		first   string
		of100   map[string]int
	}{
		{nil, "....", map[string]int{"": 100}},
		{[]experiments.JobClass{{Name: "a"}, {Name: "b"}}, "abab", map[string]int{"a": 50, "b": 50}},
		{[]experiments.JobClass{{Name: "a", Share: .75}, {Name: "b", Share: .25, Hold: &long}}, "aaba", map[string]int{"a": 75, "b": 25}},
		{[]experiments.JobClass{{Name: "a", Share: .99}, {Name: "b", Share: .01, Hold: &long}}, "aaaa", map[string]int{"a": 99, "b": 1}},
	} {
		s := &stream{work: &experiments.Work{Hold: hold, Classes: c.classes}}
		order, got := "", map[string]int{}
		for s.next = 1; s.next <= 100; s.next++ {
			k := s.deal()
			order += cmp.Or(k.Name, ".")
			got[k.Name]++
			if want := map[bool]experiments.Hold{false: hold, true: long}[k.Name == "b" && k.Share < .5]; *k.Hold != want {
				t.Errorf("class %s works %v, want %v", k.Name, *k.Hold, want)
			}
		}
		if order[:4] != c.first || !maps.Equal(got, c.of100) {
			t.Errorf("dealt %s... %v, want %s... %v", order[:8], got, c.first, c.of100)
		}
	}
}

// A holder that stands still never answers an offer of the job that it holds: another one is asked each time.
func TestAJobIsNotOfferedToItsHolder(t *testing.T) {
	e := loopDrill(1)
	e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: lockcore.Policy{TTL: time.Second}})
	e.System.Work = []experiments.Work{{Lock: "job", Jobs: 1, Rate: 10, Hold: experiments.Hold{P50: time.Millisecond}, Redeliver: 100 * time.Millisecond}}
	holder := ""
	s := play(t, e, func(s *stage) {
		s.onOffer = func(o Offer) {
			if holder == "" {
				holder = o.To
				s.see(history.Event{Kind: history.AcquireInvoke, Source: o.To, Lock: "job", Key: o.Key, Epoch: "e"})
				s.see(history.Event{Kind: history.AcquireReturn, Source: o.To, Lock: "job", Key: o.Key, Epoch: "e", Outcome: history.OK, Call: &history.Call{}})
			}
		}
	})
	if len(s.offers) < 5 {
		t.Fatalf("%d offers", len(s.offers))
	}
	to := map[string]bool{}
	for _, o := range s.offers[1:] {
		if to[o.To] = true; o.To == holder && slices.Contains(s.alive, holder) {
			t.Errorf("offered to %s, which holds the job", holder)
		}
	}
	if len(to) < 2 {
		t.Errorf("offered only to %v", to)
	}
}

// Every job that is not finished is offered again each redelivery period, to another replica; a finished one is not.
func TestJobsAreRedeliveredUntilTheyAreFinished(t *testing.T) {
	e := loopDrill(1)
	e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: lockcore.Policy{TTL: time.Second}})
	e.System.Work = []experiments.Work{{Lock: "job", Jobs: 2, Rate: 10, Hold: experiments.Hold{P50: time.Millisecond, P99: 10 * time.Millisecond}, Redeliver: 500 * time.Millisecond}}
	s := play(t, e, func(s *stage) {
		s.after(200*time.Millisecond, func() {
			s.see(history.Event{Kind: history.JobAck, Lock: "job", Key: "job:job-00001", Job: &history.Job{ID: "job-00001", Ack: history.AckDone}})
		})
	})
	var first, second []Offer
	for _, o := range s.offers {
		if o.Job == "job-00001" {
			first = append(first, o)
		} else {
			second = append(second, o)
		}
	}
	if len(first) != 1 || first[0].Again || first[0].Key != "job:job-00001" {
		t.Errorf("the finished job was offered as %+v", first)
	}
	if len(second) < 4 {
		t.Fatalf("the unfinished job was offered %d times", len(second))
	}
	for i, o := range second[1:] {
		if !o.Again || o.To == second[i].To {
			t.Errorf("redelivery %d: %+v after %+v", i+1, o, second[i])
		}
	}
}

// New jobs are offered at their rate, whatever waits for redelivery.
func TestNewJobsDoNotQueueBehindRedeliveries(t *testing.T) {
	e := loopDrill(1)
	e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: lockcore.Policy{TTL: time.Second}})
	e.System.Work = []experiments.Work{{Lock: "job", Jobs: 20, Rate: 10, Redeliver: 5 * time.Second}}
	var at []int64
	play(t, e, func(s *stage) { s.onOffer = func(o Offer) { at = append(at, s.now) } })
	for i := 1; i < 20; i++ {
		if gap := time.Duration(at[i] - at[i-1]); gap < 90*time.Millisecond || gap > 120*time.Millisecond {
			t.Errorf("offer %d came %s after the one before, want 100ms", i+1, gap)
		}
	}
}

// A rate that nobody can keep must not keep the conductor from seeing the time.
func TestOneStepOffersABoundedNumberOfJobs(t *testing.T) {
	e := loopDrill(1)
	e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: lockcore.Policy{TTL: time.Second}})
	e.System.Work = []experiments.Work{{Lock: "job", Jobs: 1_000_000, Rate: 1e6, Redeliver: time.Second}}
	e.Limits.MaxRun = time.Second
	at := map[int64]int{}
	s := play(t, e, func(s *stage) { s.onOffer = func(Offer) { at[s.now]++ } })
	for now, n := range at {
		if n > offersAtOnce {
			t.Fatalf("%d offers in one step, at %s", n, time.Duration(now))
		}
	}
	if s.now > int64(2*time.Second) {
		t.Errorf("the run ended at %s, max_run is 1s", time.Duration(s.now))
	}
}

// A kill between the end of a job and that of its lease shows nothing of a takeover: it is confirmed, and fired again.
func TestABarrenKillIsRepeated(t *testing.T) {
	e := loopDrill(1)
	e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: lockcore.Policy{TTL: time.Second}})
	e.System.Work = []experiments.Work{{Lock: "job", Jobs: 9, Rate: 1, Hold: experiments.Hold{P50: time.Millisecond}, Redeliver: 100 * time.Millisecond}}
	e.Faults[0].Spec = &fault.Kill{HolderOf: "job", Phase: fault.AfterGrant, How: "crash"}
	e.Limits.MaxKills = 4
	for name, c := range map[string]struct {
		before, after history.Kind // what is told of the victim, before the shot and after it
		kills         int
		late          bool // it is told after the next shot was planned
	}{
		"works":                         {kills: 1},
		"has finished":                  {before: history.LedgerEntry, kills: 2},
		"had finished, as is seen":      {after: history.LedgerEntry, kills: 2},
		"had released, as is told":      {after: history.ReleaseInvoke, kills: 2},
		"had finished, as is seen late": {after: history.LedgerEntry, kills: 3, late: true},
		"had finished, void besides":    {before: history.FaultVoid, after: history.LedgerEntry, kills: 2},
	} {
		t.Run(name, func(t *testing.T) {
			want := 1
			e.Faults[0].Repeat = experiments.Repeat{Count: 1, Settled: true}
			if c.late {
				want, e.Faults[0].Repeat = 2, experiments.Repeat{Count: 2, Every: 5 * time.Second}
			}
			epochs := 0
			s := play(t, e, func(s *stage) {
				of := func(kind history.Kind, key, epoch string) {
					if kind == history.LedgerEntry || kind == history.ReleaseInvoke {
						s.see(history.Event{Kind: kind, Lock: "job", Key: key, Epoch: epoch, Call: &history.Call{},
							Entry: &history.Entry{Subject: strings.TrimPrefix(key, "job:"), State: "done", Accepted: true, Terminal: true}})
					}
				}
				s.onOffer = func(o Offer) {
					epochs++
					id := fmt.Sprintf("j%d", epochs)
					s.see(history.Event{Kind: history.AcquireInvoke, Source: o.To, Lock: "job", Key: o.Key, Epoch: id})
					if len(s.fires) == 0 && slices.Contains(s.phases, history.PhaseFaults) {
						of(c.before, o.Key, id)
					}
					s.see(history.Event{Kind: history.AcquireReturn, Source: o.To, Lock: "job", Key: o.Key, Epoch: id, Outcome: history.OK, Call: &history.Call{}})
					s.after(300*time.Millisecond, func() {
						if s.leader == "" || slices.Contains(s.alive, o.To) {
							of(history.LedgerEntry, o.Key, id)
						}
					})
				}
				s.onFire = func(f Fire, b *history.Fault) {
					switch {
					case len(s.fires) > 1:
					case c.before == history.FaultVoid:
						s.see(history.Event{Kind: history.FaultVoid, Fault: b})
						of(c.after, f.Key, f.Epoch)
						return
					case c.late:
						s.after(100*time.Millisecond, func() { of(c.after, f.Key, f.Epoch) })
					default:
						of(c.after, f.Key, f.Epoch)
					}
					victim, _ := s.c.owner(f.Key, f.Epoch)
					s.alive = slices.DeleteFunc(s.alive, func(inc string) bool { return inc == victim })
					rep, _, _ := strings.Cut(victim, ".")
					s.see(history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: rep, Incarnation: victim, Exit: "signal: killed"}})
					s.see(history.Event{Kind: history.FaultConfirmed, Fault: b})
				}
			})
			if len(s.fires) != c.kills {
				t.Errorf("%d kills, want %d", len(s.fires), c.kills)
			}
			if sr := s.c.series[0]; sr.valid != want {
				t.Errorf("%d of them count, want %d", sr.valid, want)
			}
		})
	}
}
