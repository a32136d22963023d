package analysis

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// without drops the events for which drop says so, and numbers the rest anew.
func without(h *history.History, drop func(*history.Event) bool) {
	h.Events = slices.DeleteFunc(h.Events, func(ev history.Event) bool { return drop(&ev) })
	renumber(h)
}

// renumber gives the events of an edited history their numbers anew.
func renumber(h *history.History) {
	for i := range h.Events {
		h.Events[i].N = int64(i + 1)
	}
}

// with adds events to a history, in the order of recording.
func with(h *history.History, more ...history.Event) {
	h.Events = append(h.Events, more...)
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return cmp.Compare(a.To, b.To) })
	renumber(h)
}

// voided makes a confirmed shot one that never happened.
func voided(h *history.History, shot string, why history.VoidReason) {
	for i := range h.Events {
		ev := &h.Events[i]
		if ev.Op == shot && ev.Kind == history.FaultConfirmed {
			ev.Kind = history.FaultVoid
			f := *ev.Fault
			f.Why = why
			ev.Fault = &f
		}
	}
	if why == history.NoTarget {
		without(h, func(ev *history.Event) bool { return ev.Op == shot && ev.Kind == history.FaultApplied })
	}
}

func slo(e *experiments.Experiment, measure string) *experiments.SLO {
	for i := range e.SLOs {
		if e.SLOs[i].Measure() == measure {
			return &e.SLOs[i]
		}
	}
	return nil
}

// retold changes one thing in a recorded drill.
type retold struct {
	name string
	take func(e *experiments.Experiment, h *history.History)
	lock string // of the row that tells
	row  string
	why  string
	next string
	want verdict.Verdict
}

// says is a row that has to be inconclusive, for want of what was taken away.
func says(name string, take func(*experiments.Experiment, *history.History), lock, row, why, next string) retold {
	return retold{name, take, lock, row, why, next, verdict.Inconclusive}
}

// stays is a row that is answered all the same.
func stays(name string, take func(*experiments.Experiment, *history.History), lock, row string, want verdict.Verdict) retold {
	return retold{name: name, take: take, lock: lock, row: row, want: want}
}

// missingFaults are drills whose faults did not do what they were declared to do.
func missingFaults() []retold {
	return []retold{
		says("no victim", func(_ *experiments.Experiment, h *history.History) {
			for _, s := range []string{"kill-leader#1", "kill-leader#2", "kill-worker#1"} {
				voided(h, s, history.NoTarget)
			}
		}, "leader", "takeover.max", "none of the 2 shots of fault kill-leader hit a lock holder (no_target)", "Aim the fault"),
		says("victim moved", func(_ *experiments.Experiment, h *history.History) { voided(h, "kill-leader#2", history.Moved) },
			"leader", "takeover.max", "1 of 2 shots of fault kill-leader hit a lock holder (moved)", "after_grant"),
		says("victim moved, and the runner did not notice", func(_ *experiments.Experiment, h *history.History) {
			for i := range h.Events { // the release reached the store before the kill
				if ev := &h.Events[i]; ev.Kind == history.RenewInvoke && ev.Epoch == "a5" || ev.Op == "kill-worker#1" && ev.Kind == history.FaultApplied {
					ev.Span = ev.Add(7e9)
				}
			}
		}, "job", "takeover.max", "no shot of fault kill-worker hit", ""),
		says("unconfirmed fault", func(_ *experiments.Experiment, h *history.History) {
			without(h, func(ev *history.Event) bool { return ev.Op == "kill-leader#2" && ev.Kind == history.FaultConfirmed })
		}, "leader", "takeover.max", "unconfirmed", "no effect"),
	}
}

// missingLooks are drills in which a witness looked away.
func missingLooks() []retold {
	return []retold{
		says("blind key probe", func(_ *experiments.Experiment, h *history.History) {
			blindAt(h, "lock_keys", 30)
		}, "leader", "overlap.belief", "Probe lock_keys was delayed 4s at T+28.0s (limit 50ms)", "max_gap"),
		says("looks that failed", func(_ *experiments.Experiment, h *history.History) {
			with(h, history.Event{Kind: history.GapKind, Span: history.Span{From: ns(30), To: ns(31.5)}, Source: "probe:lock_keys", Coverage: &history.Coverage{Probe: "lock_keys", Why: "NOPERM", Failed: true}})
		}, "leader", "overlap.belief", "because its looks failed: NOPERM", ""),
		stays("late looks at a ledger, which keeps what it was told", func(_ *experiments.Experiment, h *history.History) {
			blindAt(h, "ledger", 35) // docs/decisions/judging.md
		}, "leader", "takeover.max", verdict.Pass),
		says("silent key probe", func(_ *experiments.Experiment, h *history.History) {
			without(h, func(ev *history.Event) bool { return ev.Source == "probe:lock_keys" })
		}, "leader", "overlap.belief", "Probe lock_keys was delayed", ""),
		says("blind ledger probe during a trial, and no final read", func(_ *experiments.Experiment, h *history.History) {
			blindAt(h, "ledger", 35)
			without(h, func(ev *history.Event) bool {
				return ev.Coverage != nil && ev.Coverage.Final && ev.Coverage.Probe == "ledger"
			})
		}, "leader", "takeover.max", "Probe ledger was delayed", ""),
	}
}

// missingSubstance are drills that ask more than the run can answer.
func missingSubstance() []retold {
	return []retold{
		says("no job ever finished", func(_ *experiments.Experiment, h *history.History) {
			without(h, func(ev *history.Event) bool {
				return ev.Write != nil && ev.Write.Terminal || ev.Entry != nil && ev.Entry.Terminal
			})
			pos := int64(0)
			for i := range h.Events {
				if en := h.Events[i].Entry; en != nil {
					pos++
					en.Pos = pos
				}
			}
		}, "job", "duplicate_terminal_states", "No job of lock job ever finished", "Check that the replicas do the work"),
		says("too few jobs", func(e *experiments.Experiment, _ *history.History) {
			slo(e, "duplicate_terminal_states").DuplicateTerminalStates.MinJobs = 5
		}, "job", "duplicate_terminal_states", "4 finished, and the SLO needs at least 5 jobs", "more jobs"),
		says("too few jobs, of a count that no job is needed for", func(e *experiments.Experiment, _ *history.History) {
			e.SLOs = append(e.SLOs, experiments.SLO{Lock: "job", FenceRegressions: &experiments.CountLimit{Bound: *experiments.AtMost(0), MinJobs: 5}})
		}, "job", "fence_regressions", "4 finished, and the SLO needs at least 5 jobs", "more jobs"),
		says("a lock without events", func(_ *experiments.Experiment, h *history.History) {
			without(h, func(ev *history.Event) bool { return ev.Lock == "job" })
		}, "job", "takeover.max", "Lock job has no events at all", "somebody uses the lock"),
		says("a percentile with too few kills", func(e *experiments.Experiment, _ *history.History) {
			d := time.Minute
			slo(e, "takeover").Takeover = &experiments.DurationLimits{P95: &d}
		}, "leader", "takeover.p95", "Too few: 2 kills without a miss; p95 at 95% confidence needs 59", "repeat: {count: 59}"),
		says("luck", func(e *experiments.Experiment, _ *history.History) {
			d := 8 * time.Second
			slo(e, "takeover").Takeover.Max = &d
		}, "leader", "takeover.max", "It passed by luck: the slowest took [6.192, 6.194]s, but the lock's timings allow 3.5s (ttl 6s - renewal 2s - op 500ms) to 9.004s", "ttl + poll at most 6.9s"),
		says("luck of a tick gap", func(e *experiments.Experiment, _ *history.History) {
			d := 9500 * time.Millisecond
			slo(e, "tick_gap").TickGap.Max = &d
		}, "leader", "tick_gap.max", "It passed by luck", ""),
	}
}

// missingEnds are drills that began or ended wrongly.
func missingEnds() []retold {
	return []retold{
		says("steady state never held", func(_ *experiments.Experiment, h *history.History) {
			for i := range h.Events {
				if p := h.Events[i].Phase; p != nil && p.Name == history.PhaseFaults {
					no := false
					p.Holds, p.Why = &no, "no job finished"
				}
			}
		}, "leader", "overlap.belief", "The steady state was not reached before the first fault: no job finished", "replicas start"),
		says("the ledger lost an entry", func(_ *experiments.Experiment, h *history.History) {
			without(h, func(ev *history.Event) bool { return ev.Entry != nil && ev.Entry.Pos == 7 })
		}, "job", "abandonments", "entries 7 to 7 of the ledger were never seen", "store of its own"),
		says("the ledger lost its last entry", func(_ *experiments.Experiment, h *history.History) {
			last := int64(0)
			for _, ev := range h.Events {
				if ev.Entry != nil {
					last = max(last, ev.Entry.Pos)
				}
			}
			without(h, func(ev *history.Event) bool { return ev.Entry != nil && ev.Entry.Pos == last })
		}, "job", "duplicate_terminal_states", "missing from its final read", ""),
		says("final reads before the horizon", func(_ *experiments.Experiment, h *history.History) {
			for i := range h.Events {
				ev := &h.Events[i]
				if p := ev.Phase; p != nil && p.Name == history.PhaseFinal || ev.Coverage != nil && ev.Coverage.Final {
					ev.From = 61e9
				}
			}
		}, "job", "duplicate_terminal_states", "too early to show a late violation", "max_run"),
		says("no final read of the ledger", func(_ *experiments.Experiment, h *history.History) {
			without(h, func(ev *history.Event) bool {
				return ev.Coverage != nil && ev.Coverage.Final && ev.Coverage.Probe == "ledger"
			})
		}, "job", "duplicate_terminal_states", "not read to its end", ""),
		says("no final read at all", func(_ *experiments.Experiment, h *history.History) {
			without(h, func(ev *history.Event) bool { return ev.Coverage != nil && ev.Coverage.Final })
		}, "job", "abandonments", "not read to its end", ""),
		says("aborted", func(_ *experiments.Experiment, h *history.History) {
			h.Events[len(h.Events)-1].Note.What = "aborted"
		}, "leader", "takeover.max", "The run did not come to its end", ""),
		says("a rehearsal", func(_ *experiments.Experiment, h *history.History) { h.Header.Mode = history.Rehearsal },
			"leader", "takeover.max", "rehearsal", "live"),
		says("nobody else wants the lock", func(_ *experiments.Experiment, h *history.History) {
			without(h, func(ev *history.Event) bool {
				if ev.Kind == history.ReplicaReady && ev.Source == "r2.1" { // who lives wants the loop
					return true
				}
				other := ev.Epoch == "l2" || ev.Epoch == "l3" || strings.HasPrefix(ev.Epoch, "try-")
				return other && ev.Key == "drill:leader" && ev.Fault == nil && ev.Entry == nil || ev.Entry != nil && ev.Entry.Loop && (ev.Epoch == "l2" || ev.Epoch == "l3")
			})
		}, "leader", "takeover.max", "no demand", "two replicas"),
	}
}

// missingEvidence are drills of a single lock or fault, by the recorded one, in which nobody saw what a promise rests on.
func missingEvidence() map[string][]retold {
	type take = func(*experiments.Experiment, *history.History)
	lost := func(drop func(ev *history.Event) bool) take {
		return func(_ *experiments.Experiment, h *history.History) { without(h, drop) }
	}
	blind := func(probe string, at float64) take {
		return func(_ *experiments.Experiment, h *history.History) { blindAt(h, probe, at) }
	}
	void := func(shot string, why history.VoidReason) take {
		return func(_ *experiments.Experiment, h *history.History) { voided(h, shot, why) }
	}
	faults := func(change func(*history.Fault)) take {
		return func(_ *experiments.Experiment, h *history.History) { onFaults(h, change) }
	}
	others := func(ev *history.Event) bool { return ev.Call != nil && strings.HasPrefix(ev.Epoch, "try") }
	hit := func(ev *history.Event) bool { return ev.Kind == history.FaultHit }
	applied := func(ev *history.Event) bool { return ev.Kind == history.FaultApplied }
	unseen := func(_ *experiments.Experiment, h *history.History) {
		edit(h, func(ev *history.Event) bool { return ev.Fault != nil && ev.Fault.Death != nil }, func(ev *history.Event) {
			d, f := *ev.Fault.Death, *ev.Fault
			d.End = nil
			f.Death, ev.Fault = &d, &f
		})
	}
	answered := func(_ *experiments.Experiment, h *history.History) {
		edit(h, applied, func(ev *history.Event) { ev.To, ev.At = 11.15e9, 11.15e9 })
	}
	cutOff := func(bound *experiments.Bound[int]) take {
		return func(e *experiments.Experiment, h *history.History) {
			e.SLOs = []experiments.SLO{{Lock: "job", Abandonments: &experiments.CountLimit{Bound: *bound}}}
			without(h, func(ev *history.Event) bool { return ev.Kind == history.RunEnd })
		}
	}
	confirmed := func(ev *history.Event) bool { return ev.Kind == history.FaultConfirmed }
	return map[string][]retold{
		"release-in-time": {
			says("blind key probe", blind(experiments.ProbeKeys, 12), "job", "lock_debt.max", "Probe lock_keys was delayed", ""),
			says("victim moved", void("kill-holder#1", "moved"), "job", "lock_debt.max", "no shot of fault kill-holder hit a lock holder", ""),
			says("no claims", lost(func(ev *history.Event) bool {
				return ev.Work != nil || ev.Call != nil && ev.Kind != history.AcquireInvoke
			}), "job", "lock_debt.waiter_seconds", "done with its key", ""),
		},
		"lost-acquire-reply-undone": {says("no calls", lost(func(ev *history.Event) bool { return ev.Call != nil }), "job", "orphan_acquires", "Nobody is known to have asked", "")},
		"not-owned-own-release":     {says("no answers", lost(func(ev *history.Event) bool { return ev.Kind == history.RenewReturn }), "job", "not_owned.renew", "No renewal of lock job was answered", "")},
		"classes-short": {
			says("no grants", lost(func(ev *history.Event) bool { return ev.Kind == history.AcquireReturn }), "job", "held[small].max", "No hold of class small", ""),
			says("no final reads", lost(func(ev *history.Event) bool { return ev.Coverage != nil && ev.Coverage.Final }), "job", "wait[small].p90", "not read to its end", ""),
		},
		"proxy-burst": {says("a hit that was not seen", func(e *experiments.Experiment, h *history.History) {
			first := slices.IndexFunc(h.Events, func(ev history.Event) bool { return hit(&ev) })
			h.Events = slices.Delete(h.Events, first, first+1)
			renumber(h)
			onFaults(h, func(f *history.Fault) { f.Hits = min(f.Hits, 2) })
		}, "", "takeover.max", "it hit 2 of 3 operations", "")},
		"latency-felt": {says("too little of it", faults(func(f *history.Fault) { f.Observed = 200e6 }), "", "abandonments", "unconfirmed: 200ms observed, at least 350ms expected", "")},
		"pause-takeover": {
			says("not confirmed", lost(confirmed), "", "takeover.max", "unconfirmed", ""),
			says("never seen to end", lost(func(ev *history.Event) bool {
				return ev.Kind == history.FaultReverted || ev.Kind == history.FaultVerified
			}), "", "overlap.work", "was not seen before the final reads", ""),
		},
		"black-hole-standard": {
			says("blind key probe", blind(experiments.ProbeKeys, 40), "", "overlap.belief", "Probe lock_keys was delayed", ""),
			stays("blind when nobody used the lock", blind(experiments.ProbeKeys, 220), "", "overlap.belief", verdict.Pass),
		},
		"burst-standard": { // too much stands by itself; too little does only where it would have been seen
			says("too little in a run that was cut off", cutOff(atLeast(2)), "job", "abandonments", "", ""),
			stays("too much in a run that was cut off", cutOff(experiments.AtMost(0)), "job", "abandonments", verdict.Fail),
		},
		"pods-crash-slow": { // an end that nobody saw can show that a takeover was short enough, and never that it was too long
			stays("an end that was seen when the shot had been waited for", unseen, "leader", "takeover.max", verdict.Fail),
			says("an end that nobody saw", func(e *experiments.Experiment, h *history.History) {
				unseen(e, h)
				without(h, func(ev *history.Event) bool {
					return ev.Kind == history.ReplicaExit && ev.Replica.Incarnation == "r1.1"
				})
			}, "leader", "takeover.max", "", ""),
		},
		"pods-graceful-ignored": {stays("asked to stop, it died with its lock, beside a fault that crashes holders", func(e *experiments.Experiment, _ *history.History) {
			crash := *e.Faults[0].Spec.(*fault.Kill)
			crash.How = fault.Crash
			e.Faults = append(e.Faults, e.Faults[0])
			e.Faults[1].ID, e.Faults[1].Spec = "crash-leader", &crash
		}, "leader", "takeover.max", verdict.Fail)},
		"pods-crash": {says("a kill by labels that found nobody", func(e *experiments.Experiment, h *history.History) {
			e.Faults[0].Spec = &fault.Kill{Pods: map[string]string{"app": "wroker"}, How: fault.Crash}
			voided(h, "kill-leader#1", "no_target")
		}, "leader", "takeover.max", "", "see kill.pods")},
		"pods-graceful": {
			says("deleted by force, a worker that listens hands over", func(e *experiments.Experiment, h *history.History) {
				e.Faults[0].Spec.(*fault.Kill).How = fault.ForceDelete
				onFaults(h, func(f *history.Fault) { f.Form = fault.ForceDelete })
			}, "leader", "takeover.max", "", "a delete is no SIGKILL"),
			stays("what it held when it was asked is exposed, though it gave it back before the call was answered", answered, "leader", "takeover.max", verdict.Pass),
			says("given back as it was asked, before or after", func(e *experiments.Experiment, h *history.History) {
				answered(e, h)
				edit(h, applied, func(ev *history.Event) { ev.From = 11.1e9 })
			}, "leader", "takeover.max", "", ""),
		},
		"release-failures-retry": {says("not confirmed", void("burst#1", "unconfirmed"), "", "lock_debt.max", "No confirmed fault hit", "")},
		"acquire-replies-undone": {says("no hit was seen", func(e *experiments.Experiment, h *history.History) {
			without(h, hit)
			onFaults(h, func(f *history.Fault) { f.Want = 0 })
		}, "", "orphan_acquires", "No confirmed fault hit", "")},
		"key-stranger": {
			says("nobody else asks", lost(others), "", "overlap.effect", "Nobody else is known to have asked", ""),
			says("nor of a lock that a kill frees at once", func(e *experiments.Experiment, h *history.History) {
				e.Store = &experiments.Store{Kind: experiments.StorePostgres}
				without(h, others)
			}, "", "overlap.effect", "", "terminate: {holder_of: "),
		},
		"pods-observed-lease": {
			says("nobody looked", lost(func(ev *history.Event) bool {
				return ev.Coverage != nil && !ev.Coverage.Final && ev.From > 20e9 && ev.From < 40e9
			}), "leader", "takeover.max", "Probe leases was delayed", ""),
			says("no such pod", lost(confirmed), "leader", "takeover.max", "no shot of fault", ""),
			says("a holder that is no pod", func(_ *experiments.Experiment, h *history.History) {
				edit(h, func(ev *history.Event) bool { return ev.Phase != nil && ev.Phase.Name == history.PhaseFaults }, func(ev *history.Event) {
					no := false
					ev.Phase.Why, ev.Phase.Holds, ev.Phase.Lacks = "no pod that is known holds lock leader", &no, history.NoKnownHolder
				})
			}, "leader", "takeover.max", "", "kubernetes.holder"),
			says("not known to us", lost(func(ev *history.Event) bool { return ev.Look != nil && ev.Epoch == "e1" }), "leader", "takeover.max", "no shot of fault", ""),
		},
	}
}

// What was asked about a missing thing must turn inconclusive, with the thing named, and the run must not exit 0. What can be answered without
// it is.
func TestRetoldRecordings(t *testing.T) {
	all := missingEvidence()
	all["good-drill"] = slices.Concat(missingFaults(), missingLooks(), missingSubstance(), missingEnds())
	for drill, cs := range all {
		for _, c := range cs {
			t.Run(drill+": "+c.name, func(t *testing.T) {
				e, h := load(t, drill)
				c.take(e, h)
				j := Judge(e, h)
				if c.want != verdict.Pass && (j.ExitCode == 0 || j.Verdict == "pass") {
					t.Fatalf("exit %d, verdict %s", j.ExitCode, j.Verdict)
				}
				r := row(t, j, c.lock, c.row)
				if r.Verdict != c.want || c.want == verdict.Inconclusive && r.Next == "" || !strings.Contains(r.Why, c.why) || !slices.ContainsFunc(append(r.Missing, verdict.Missing{Next: r.Next}), func(m verdict.Missing) bool { return strings.Contains(m.Next, c.next) }) {
					t.Errorf("got %s\n why  %s\n next %s\nwant %s\n why  ... %s\n next ... %s", r.Verdict, r.Why, r.Next, c.want, c.why, c.next)
				}
			})
		}
	}
}

// blindAt turns the probe's coverage around the second into a gap.
func blindAt(h *history.History, probe string, sec float64) {
	for i := range h.Events {
		ev := &h.Events[i]
		if c := ev.Coverage; c != nil && c.Probe == probe && ev.From <= ns(sec) && ev.To > ns(sec) {
			ev.Kind = history.GapKind
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause func(e *experiments.Experiment, h *history.History)
		code  int
		word  string
	}{
		{"pass", func(*experiments.Experiment, *history.History) {}, 0, "pass"},
		{"failed", tooTight, 10, "slo-failed"},
		{"aborted", func(_ *experiments.Experiment, h *history.History) { ending(h).What = "aborted" }, 12, "aborted"},
		{"failed, then aborted", func(e *experiments.Experiment, h *history.History) { tooTight(e, h); ending(h).What = "aborted" }, 10, "slo-failed"},
		{"the tool broke", func(e *experiments.Experiment, h *history.History) { tooTight(e, h); ending(h).What = "error" }, 1, "error"},
		{"dirty wins", func(e *experiments.Experiment, h *history.History) {
			tooTight(e, h)
			ending(h).What, ending(h).OK = "error", false
		}, 20, "dirty"},
		{"clean-up not verified", func(_ *experiments.Experiment, h *history.History) {
			for i := range h.Events {
				if h.Events[i].Kind == history.RunCleanup {
					h.Events[i].Note.OK = false
				}
			}
		}, 20, "dirty"},
		{"cut off", func(_ *experiments.Experiment, h *history.History) { h.Events = h.Events[:len(h.Events)-1] }, 11, "inconclusive"},
		{"nothing asked", func(e *experiments.Experiment, _ *history.History) { e.SLOs = nil }, 11, "inconclusive"},
	} {
		e, h := load(t, "good-drill")
		c.cause(e, h)
		if j := Judge(e, h); j.ExitCode != c.code || j.Verdict != c.word {
			t.Errorf("%s: exit %d %s, want %d %s", c.name, j.ExitCode, j.Verdict, c.code, c.word)
		}
	}
}

func tooTight(e *experiments.Experiment, _ *history.History) {
	d := time.Second
	slo(e, "takeover").Takeover.Max = &d
}

func ending(h *history.History) *history.Note { return h.Events[len(h.Events)-1].Note }

// The document has no null lists, and reading it back gives the same.
func TestMarshal(t *testing.T) {
	j := Judge(&experiments.Experiment{TimeScale: 1}, &history.History{Header: history.Header{Schema: 1, TimeScale: 1}})
	b, err := j.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("null")) - bytes.Count(b, []byte(`"largestGap": null`)); n != 0 {
		t.Errorf("%d nulls that are no open end:\n%s", n, b)
	}
	if !bytes.HasSuffix(b, []byte("}\n")) {
		t.Error("no newline at the end")
	}
}
