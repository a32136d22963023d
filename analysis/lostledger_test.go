package analysis

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// A ledger that lost entries shows nothing: what ended a takeover, or finished a job, may be among them. However many they are, they are one
// reason, since each row repeats its reasons.
func TestALostLedgerAnswersNothing(t *testing.T) {
	told := history.Event{Kind: history.StoreIncarnation, Span: history.Span{From: ns(40), To: ns(40.1)}, Source: "probe:ledger",
		Incarnation: &history.Incarnation{Store: "ledger", Life: 2, Why: history.EntriesLost}}
	for name, c := range map[string]struct {
		lost func(ev *history.Event) bool
		more []history.Event
		says string
	}{
		"from the fault on":  {func(ev *history.Event) bool { return ev.Entry.Pos > 12 }, nil, " more like it"},
		"in between":         {func(ev *history.Event) bool { return ev.Entry.Pos > 12 && ev.Entry.Pos < 100 }, nil, ""},
		"every second entry": {func(ev *history.Event) bool { return ev.Entry.Pos%2 == 0 }, nil, " more like it"},
		"all at the end":     {func(ev *history.Event) bool { return ev.Entry.Pos > 3 }, nil, " more like it"},
		"as its probe says":  {func(ev *history.Event) bool { return ev.From > ns(40) }, []history.Event{told}, "the ledger lost entries at T+40.0s"},
	} {
		e, h := load(t, "good-drill")
		without(h, func(ev *history.Event) bool { return ev.Entry != nil && c.lost(ev) })
		with(h, c.more...)
		j := Judge(e, h)
		about := slices.DeleteFunc(slices.Clone(j.Missing), func(l verdict.Missing) bool { return !strings.Contains(l.Why, "ledger") })
		if len(about) == 0 || len(about) > 2 || !slices.ContainsFunc(about, func(l verdict.Missing) bool { return strings.Contains(l.Why, c.says) }) {
			t.Errorf("%s: %d reasons: %+v", name, len(about), about)
		}
		for _, s := range j.SLOs {
			if s.Verdict != verdict.Inconclusive {
				t.Errorf("%s: %s %s is %s: [%v, %v], %s", name, s.Lock, s.Measure, s.Verdict, s.Lo, s.Hi, s.Why)
			}
		}
	}
}

// What never came is attested to no longer than the witness lived that would have shown it, whatever struck the key afterwards; and no
// other witness takes anything of that away.
func TestADeadWitnessAttestsNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		take func(h *history.History)
		lo   float64 // of the takeover that never came, after a kill at 11.01 s; the next is at 33 s
	}{
		{"until the next kill", func(*history.History) {}, 21.99},
		{"the ledger is dead since 14 s", func(h *history.History) { deadFrom(h, facts.ProbeLedger, 14) }, 2.983},
		{"so is the look at the keys, and the ledger lives", func(h *history.History) { deadFrom(h, experiments.ProbeKeys, 14) }, 21.99},
	} {
		e, h := load(t, "good-drill")
		for i := range h.Events { // the successor is granted the key, and never writes
			if x := h.Events[i].Entry; x != nil && h.Events[i].Epoch == "l2" {
				x.Accepted, x.Reason = false, history.ReasonFenced
			}
		}
		c.take(h)
		ix := FactsOf(e, h)
		trials := ix.shot(t, "kill-leader#1").Trials
		trial := trials[slices.IndexFunc(trials, func(t *facts.Trial) bool { return t.E.Lock == "leader" })]
		if got := facts.Seconds(trial.Value.Lo); !trial.Censored() || apart(got, c.lo) > 0.01 {
			t.Errorf("%s: %s at least %gs, want %gs", c.name, trial.End, got, c.lo)
		}
	}
}

// deadFrom lets a probe look a last time at the second: one more look a millisecond before it, and nothing but a gap after it.
func deadFrom(h *history.History, probe string, sec float64) {
	last := history.Span{From: ns(sec - 10*ms), To: ns(sec)}
	without(h, func(ev *history.Event) bool {
		return ev.Source == "probe:"+probe && ev.To > ns(sec)
	})
	end := h.Events[len(h.Events)-1]
	h.Events = append(h.Events[:len(h.Events)-1],
		history.Event{Kind: history.CoverageKind, Span: history.Span{From: ns(sec - 1), To: last.To}, Source: "probe:" + probe, Coverage: &history.Coverage{Probe: probe, Samples: 200, Largest: 6e6}},
		history.Event{Kind: history.GapKind, Span: history.Span{From: last.From, To: end.From}, Source: "probe:" + probe, Coverage: &history.Coverage{Probe: probe, Largest: end.From - last.From}},
		end)
	renumber(h)
}
