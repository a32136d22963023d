package analysis

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// number gives the events of an edited history their numbers, and the ledger's entries their positions, anew: as a careful hand would.
func number(h *history.History) {
	pos := int64(0)
	for i := range h.Events {
		ev := &h.Events[i]
		if ev.N = int64(i + 1); ev.Entry != nil {
			pos++
			entry := *ev.Entry
			entry.Pos, ev.Entry = pos, &entry
		}
	}
}

// repeat writes the first event that matches twice.
func repeat(h *history.History, match func(*history.Event) bool) {
	i := slices.IndexFunc(h.Events, func(ev history.Event) bool { return match(&ev) })
	h.Events = slices.Insert(h.Events, i+1, h.Events[i])
	number(h)
}

// refuse turns an accepted write into a refused one, in the ledger's entry and in its writer's word.
func refuse(h *history.History, subject, state, epoch, reason string) {
	edit(h, func(ev *history.Event) bool {
		return ev.Epoch == epoch && (ev.Entry != nil && ev.Entry.Subject == subject && ev.Entry.State == state ||
			ev.Kind == history.WriteReturn && ev.Write.Subject == subject && ev.Write.State == state)
	}, func(ev *history.Event) {
		if ev.Entry != nil {
			entry := *ev.Entry
			entry.Accepted, entry.Reason, ev.Entry = false, reason, &entry
			return
		}
		write := *ev.Write
		write.Accepted, write.Reason, ev.Write = false, reason, &write
	})
}

// shift moves the instant at which a fault was applied.
func shift(h *history.History, shot string, by float64) {
	edit(h, func(ev *history.Event) bool { return ev.Op == shot && ev.Kind == history.FaultApplied }, func(ev *history.Event) { ev.Span = ev.Add(ns(by)) })
}

// A recorded history contradicts itself nowhere. One that was changed, as a careful hand would, passes nothing, and a finding names the
// event.
func TestAnEditedHistoryPassesNothing(t *testing.T) {
	kind := func(k history.Kind) func(*history.Event) bool {
		return func(ev *history.Event) bool { return ev.Kind == k }
	}
	for name, c := range map[string]struct {
		of   string
		edit func(*history.History)
		says string
	}{
		"an answer twice":                {"good-drill", func(h *history.History) { repeat(h, kind(history.AcquireReturn)) }, "same event twice: acquire.return of r1.1"},
		"an end of work twice":           {"good-drill", func(h *history.History) { repeat(h, kind(history.WorkExit)) }, "same event twice: work.exit"},
		"a look twice":                   {"acquire-replies-undone", func(h *history.History) { repeat(h, kind(history.LookKind)) }, "same event twice: look of probe:lock_keys"},
		"a confirmation twice":           {"good-drill", func(h *history.History) { repeat(h, kind(history.FaultConfirmed)) }, "same event twice: fault.confirmed"},
		"an entry of the ledger twice":   {"good-drill", func(h *history.History) { repeat(h, kind(history.LedgerEntry)) }, "is of the same operation as entry 1"},
		"a fault later than it was":      {"good-drill", func(h *history.History) { shift(h, "kill-leader#2", 3) }, "fault kill-leader#2 was confirmed by T+33.0s, before it was applied at T+36.0s"},
		"a fault earlier than it was":    {"good-drill", func(h *history.History) { shift(h, "kill-leader#2", -3) }, "fault kill-leader#2 was applied at T+30.0s, before it was announced at T+33.0s"},
		"a lasting fault later":          {"burst-standard", func(h *history.History) { shift(h, "burst#1", 5) }, "after that was recorded"},
		"a first terminal as fenced":     {"good-drill", func(h *history.History) { refuse(h, "j1", "succeeded", "a1", "fenced") }, "none before it has a higher one"},
		"a first terminal as terminal":   {"good-drill", func(h *history.History) { refuse(h, "j1", "succeeded", "a1", "terminal") }, "no entry before it says so"},
		"a refusal for no reason":        {"good-drill", func(h *history.History) { refuse(h, "j1", "succeeded", "a1", "") }, "without a reason"},
		"a duplicate as fenced":          {"replica-dies-no-look", func(h *history.History) { refuseSecond(t, h, "fenced") }, "was refused for its fence"},
		"a duplicate as terminal":        {"replica-dies-no-look", func(h *history.History) { refuseSecond(t, h, "terminal") }, "the experiment does not say strict: true"},
		"a stale write as fenced":        {"pause-90s-unfenced", func(h *history.History) { refuseSecond(t, h, "fenced") }, "the experiment says fenced: false"},
		"entries in another order":       {"good-drill", swapEntries, "before one ahead of it was written"},
		"two entries at one position":    {"good-drill", onePosition, "the ledger has two entries at position 1"},
		"two effects at one position":    {"effects-twice", onePosition, "appears twice"},
		"an accepted write as a refusal": {"pause-90s-fenced", acceptRefused, "was accepted, and one before it has a higher fence"},
	} {
		t.Run(name, func(t *testing.T) {
			e, h := load(t, c.of)
			if j := Judge(e, h); strings.Contains(whys(j), "contradicts itself") {
				t.Fatalf("the recorded history: %s", whys(j))
			}
			c.edit(h)
			j := Judge(e, h)
			if !slices.ContainsFunc(j.Missing, func(m verdict.Missing) bool {
				return m.Code == verdict.MissingRecord && strings.Contains(m.Why, c.says)
			}) {
				t.Errorf("%s: want %q", whys(j), c.says)
			}
			if !slices.ContainsFunc(j.Findings, func(f verdict.Finding) bool { return strings.Contains(f.What, c.says) && len(f.Evidence) > 0 }) {
				t.Errorf("no finding: %+v", j.Findings)
			}
			for _, r := range j.SLOs {
				if r.Verdict == verdict.Pass {
					t.Errorf("%s of %s passes", r.Measure, r.Lock)
				}
			}
		})
	}
}

func whys(j *verdict.Judgement) string {
	var all []string
	for _, m := range j.Missing {
		all = append(all, m.Why)
	}
	return strings.Join(all, "; ")
}

// refuseSecond refuses the last of the terminal writes of a job that has two.
func refuseSecond(t *testing.T, h *history.History, reason string) {
	seen := map[string]bool{}
	for i := range h.Events {
		en := h.Events[i].Entry
		if en == nil || !en.Terminal || !en.Accepted {
			continue
		}
		if seen[en.Subject] {
			refuse(h, en.Subject, en.State, h.Events[i].Epoch, reason)
			return
		}
		seen[en.Subject] = true
	}
	t.Fatal("no job has two terminal states")
}

// acceptRefused accepts what the ledger refused.
func acceptRefused(h *history.History) {
	edit(h, func(ev *history.Event) bool {
		return ev.Entry != nil && !ev.Entry.Accepted || ev.Kind == history.WriteReturn && !ev.Write.Accepted
	}, func(ev *history.Event) {
		if ev.Entry != nil {
			entry := *ev.Entry
			entry.Accepted, entry.Reason, ev.Entry = true, "", &entry
			return
		}
		write := *ev.Write
		write.Accepted, write.Reason, ev.Write = true, "", &write
	})
}

// swapEntries lets two entries that are far apart change places.
func swapEntries(h *history.History) {
	var at []int
	for i := range h.Events {
		if h.Events[i].Entry != nil {
			at = append(at, i)
		}
	}
	a, b := &h.Events[at[1]], &h.Events[at[len(at)-2]]
	first, last := *a.Entry, *b.Entry
	first.Pos, last.Pos = last.Pos, first.Pos
	a.Entry, b.Entry = &first, &last
}

// onePosition gives the second entry the position of the first.
func onePosition(h *history.History) {
	edit(h, func(ev *history.Event) bool { return ev.Entry != nil && ev.Entry.Pos == 2 }, func(ev *history.Event) {
		entry := *ev.Entry
		entry.Pos, ev.Entry = 1, &entry
	})
}

// What the ledger would have refused, by the file's own rules, and a number that a stream leaves out.
func TestTheRecordIsHeldAgainstItsRules(t *testing.T) {
	says := func(j *verdict.Judgement, what string) {
		t.Helper()
		if !slices.ContainsFunc(j.Findings, func(f verdict.Finding) bool { return f.Code == "" && strings.Contains(f.What, what) }) {
			t.Errorf("no finding says %q: %+v", what, j.Findings)
		}
	}
	e, h := load(t, "replica-dies-no-look")
	e.System.Work[0].Strict = true
	says(Judge(e, h), "had come to its end before it")
	e, h = load(t, "good-drill")
	numbered(h)
	i := slices.IndexFunc(h.Events, func(ev history.Event) bool { return ev.Seq == 2 })
	stream := h.Events[i].Stream()
	h.Events = slices.Delete(h.Events, i, i+1)
	says(Judge(e, h), "the history lacks 1 event of "+stream)
}

// A probe of many keys tells of one gap as often as it has reasons: that changes nothing.
func TestAGapThatIsToldTwiceIsNoContradiction(t *testing.T) {
	e, h := load(t, "good-drill")
	h.Events = append(h.Events, history.Event{Kind: history.GapKind, Source: "probe:lock_keys", Span: history.Span{From: ns(60), To: ns(60.02)}, Coverage: &history.Coverage{Probe: experiments.ProbeKeys, Why: "a key changed"}})
	h.Events[len(h.Events)-1].N = int64(len(h.Events))
	once := Judge(e, h)
	repeat(h, func(ev *history.Event) bool { return ev.Kind == history.GapKind })
	if twice := Judge(e, h); whys(twice) != whys(once) || len(twice.Findings) != len(once.Findings) {
		t.Errorf("%s; %+v", whys(twice), twice.Findings)
	}
}

// A server may answer the last question with a sample that it had not told yet: it is a reading, and the final one. Twice as the same is
// a contradiction.
func TestASampleThatIsFinalTooIsNoContradiction(t *testing.T) {
	for final, contradicts := range map[bool]bool{true: false, false: true} {
		e, h := load(t, "readings")
		i := slices.IndexFunc(h.Events, func(ev history.Event) bool { return ev.Sample != nil && !ev.Sample.Final })
		again := *h.Events[i].Sample
		again.Final = final
		h.Events = slices.Insert(h.Events, i+1, h.Events[i])
		h.Events[i+1].Sample = &again
		number(h)
		if j := Judge(e, h); strings.Contains(whys(j), "same event twice") != contradicts {
			t.Errorf("final %t: %s", final, whys(j))
		}
	}
}
