package lint_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/history/lint"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/scenarios"
)

// rehearsed is a shipped scenario in virtual time, by a worker that is right, and what the rules need to know of its locks.
func rehearsed(t *testing.T, name string, seed int64) ([]history.Event, map[string]lint.Lock) {
	t.Helper()
	data, _ := scenarios.Get(name)
	e, err := experiments.Parse(name, data)
	if err != nil {
		t.Fatal(err)
	}
	d, err := rehearsal.New(e, sim.DefaultNet()).Run(t.Context(), seed)
	if err != nil {
		t.Fatal(err)
	}
	locks, scaled := map[string]lint.Lock{}, experiments.Scale(e)
	for _, l := range scaled.System.Locks {
		w := scaled.WorkUnder(l.Name)
		locks[l.Name] = lint.Lock{Policy: l.Policy, Unfenced: w != nil && !w.Fenced, NoLook: w != nil && !w.Look}
	}
	return d.History.Events, locks
}

func found(events []history.Event, locks map[string]lint.Lock, stepped bool) []lint.Finding {
	l := lint.New(locks)
	if stepped {
		l.Stepped()
	}
	for i := range events {
		l.See(&events[i])
	}
	return l.End()
}

func codes(list []lint.Finding) []string {
	var all []string
	for _, f := range list {
		all = append(all, f.Code)
	}
	return slices.Compact(all)
}

// A worker that is right breaks no rule, whatever fault it meets.
func TestARightWorkerIsSilent(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios.List() {
		data, _ := scenarios.Get(s.Name)
		if e, err := experiments.Parse(s.Name, data); err != nil || e.Observed() || e.Store != nil {
			continue
		}
		for seed := range int64(3) {
			events, locks := rehearsed(t, s.Name, seed+1)
			for _, f := range found(events, locks, false) {
				t.Errorf("%s, seed %d: %s %s: %s %v", s.Name, seed+1, f.Code, f.Source, f.What, f.Evidence)
			}
		}
	}
}

// each changes events one by one; none = it is left out.
func each(change func(e *history.Event) (keep bool)) func([]history.Event) []history.Event {
	return func(all []history.Event) (out []history.Event) {
		for _, e := range all {
			if e.Call != nil {
				call := *e.Call
				e.Call = &call
			}
			if e.Write != nil {
				write := *e.Write
				e.Write = &write
			}
			if e.Entry != nil {
				entry := *e.Entry
				e.Entry = &entry
			}
			if e.Replica != nil {
				replica := *e.Replica
				e.Replica = &replica
			}
			if change(&e) {
				out = append(out, e)
			}
		}
		return out
	}
}

func without(kinds ...history.Kind) func([]history.Event) []history.Event {
	return each(func(e *history.Event) bool { return !slices.Contains(kinds, e.Kind) })
}

// moved puts each event of the first kind behind the next of the second kind of its epoch.
func moved(kind, behind history.Kind) func([]history.Event) []history.Event {
	return func(all []history.Event) (out []history.Event) {
		kept := map[string]history.Event{}
		for _, e := range all {
			if e.Kind == kind {
				kept[e.Epoch] = e
				continue
			}
			out = append(out, e)
			if k, waits := kept[e.Epoch]; waits && e.Kind == behind {
				out = append(out, k)
				delete(kept, e.Epoch)
			}
		}
		return out
	}
}

// Each rule is broken by a worker that is wrong in one thing.
func TestEachRuleIsTold(t *testing.T) {
	t.Parallel()
	asked := map[string]int{}
	tellings := map[string]func([]history.Event) []history.Event{
		"unanswered_offer": without(history.JobAck),
		"acked_undone": each(func(e *history.Event) bool {
			if e.Write != nil {
				e.Write.Terminal = false
			}
			return true
		}),
		"outstays": each(func(e *history.Event) bool {
			if e.Replica != nil && e.Replica.Exit == "exit status 0" {
				e.Replica.Exit, e.Replica.Wanted = "signal: killed", true
			}
			return true
		}),
		"arm_unanswered": each(func(*history.Event) bool { return true }), // rehearsals have no such step
		"dies": each(func(e *history.Event) bool {
			if e.Replica != nil && e.Replica.Exit == "exit status 0" {
				e.Replica.Exit, e.Replica.Wanted = "exit status 1", false
			}
			return true
		}),
		"renewed_of_another": each(func(e *history.Event) bool {
			if e.Kind == history.RenewReturn && e.Outcome == history.Fail {
				e.Outcome, e.Call.Result = history.OK, history.ResultRenewed
			}
			return true
		}),
		"not_ready": without(history.ReplicaReady),
		"exit_status": each(func(e *history.Event) bool {
			if e.Replica != nil && e.Replica.Exit == "exit status 0" {
				e.Replica.Exit = "exit status 3"
			}
			return true
		}),
		"kept_at_the_end": each(func(e *history.Event) bool {
			return e.Lock != "job" || e.Kind != history.ReleaseInvoke && e.Kind != history.ReleaseReturn && e.Kind != history.ReleaseSkipped && e.Kind != history.FenceObserved
		}),
		"no_event": each(func(e *history.Event) bool {
			if e.Kind == history.ReplicaExit {
				e.Replica.Bad, e.Replica.BadLine = 1, "INFO starting"
			}
			return true
		}),
		"late_lines": each(func(e *history.Event) bool {
			if e.Clock == history.ClockShared {
				e.At += int64(30 * time.Millisecond)
			}
			return true
		}),
		"op_reused": each(func(e *history.Event) bool {
			if e.Kind == history.RenewInvoke || e.Kind == history.RenewReturn {
				e.Op = "n1"
			}
			return true
		}),
		"return_without_invoke": without(history.RenewInvoke),
		"return_from": each(func(e *history.Event) bool {
			if e.Kind == history.RenewReturn {
				e.From++
			}
			return true
		}),
		"invoke_without_return": without(history.AcquireReturn),
		"token_reused": each(func(e *history.Event) bool {
			if e.Lock == "job" && e.Epoch != "" {
				e.Epoch = "of " + e.Source
			}
			return true
		}),
		"announced_late": func(all []history.Event) (out []history.Event) {
			return each(func(e *history.Event) bool {
				if e.Kind == history.AcquireInvoke {
					e.At += int64(200 * time.Millisecond)
				}
				return true
			})(moved(history.AcquireInvoke, history.LookKind)(all))
		},
		"no_fence": each(func(e *history.Event) bool {
			e.Fence = 0
			return true
		}),
		"holder_unknown": each(func(e *history.Event) bool {
			if e.Call != nil && e.Call.Holder != "" {
				e.Call.Holder = "a ghost"
			}
			return e.Fault == nil
		}),
		"timeout_is_fail": each(func(e *history.Event) bool {
			if e.Kind == history.RenewReturn && e.Outcome == history.Unknown {
				e.Outcome, e.Call.Result = history.Fail, history.ResultError
			}
			return true
		}),
		"limit_ignored": func(all []history.Event) []history.Event {
			all = each(func(e *history.Event) bool {
				if e.Kind == history.RenewReturn && e.Lock == "loop" {
					e.To, e.At = e.To+int64(time.Second), e.At+int64(time.Second)
				}
				return true
			})(all)
			slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
			return all
		},
		"renewed_in_silence": each(func(e *history.Event) bool {
			return e.Fault == nil && e.Kind != history.RenewInvoke && e.Kind != history.RenewReturn
		}),
		"renewed_after_release": moved(history.RenewInvoke, history.ReleaseInvoke),
		"lost_in_silence":       without(history.FenceObserved),
		"released_at_work":      moved(history.WorkExit, history.ReleaseReturn),
		"left_against_policy": each(func(e *history.Event) bool {
			if e.Kind == history.ReleaseInvoke {
				e.Kind, e.Op, e.Call.Why = history.ReleaseSkipped, "", "ttl_hold"
			}
			return e.Kind != history.ReleaseReturn
		}),
		"work_before_grant": without(history.AcquireReturn),
		"lazy_follower": each(func(e *history.Event) bool {
			if e.Lock == "loop" && (e.Kind == history.AcquireInvoke || e.Kind == history.AcquireReturn) {
				asked[e.Source]++
				return (asked[e.Source]-1)/2%8 == 0
			}
			return true
		}),
		"hasty_ticks": func(all []history.Event) (out []history.Event) {
			for _, e := range all {
				if out = append(out, e); e.Kind == history.LedgerEntry && e.Entry.State == history.StateTick {
					out = append(out, e)
				}
			}
			return out
		},
		"begun_twice": each(func(e *history.Event) bool {
			if e.Entry != nil && e.Entry.State == history.StateTick {
				e.Entry.State = history.StateBegin
			}
			return true
		}),
		"effect_of_nobody": each(func(e *history.Event) bool {
			if e.Kind == history.LedgerEntry {
				e.Epoch = "nobody's"
			}
			return true
		}),
		"done_again": func(all []history.Event) (out []history.Event) { // each epoch begins and ends its job once more
			for _, e := range all {
				if out = append(out, e); e.Kind == history.LedgerEntry && e.Entry.Terminal {
					begin := *e.Entry
					begin.State, begin.Terminal = history.StateBegin, false
					again := e
					again.Entry = &begin
					out = append(out, again, e)
				}
			}
			return out
		},
		"op_of_two_effects": each(func(e *history.Event) bool {
			if e.Write != nil {
				e.Op = e.Epoch
			}
			return true
		}),
		"effect_after_exit": each(func(e *history.Event) bool {
			if e.Kind == history.LedgerEntry && e.Entry.Terminal {
				e.From, e.To = e.From+int64(5*time.Second), e.To+int64(5*time.Second)
			}
			return true
		}),
	}
	for _, r := range lint.Rules() {
		tell := tellings[r.Code]
		if tell == nil {
			t.Errorf("nothing breaks %s", r.Code)
			continue
		}
		told := false
		for seed := int64(1); seed <= 4 && !told; seed++ {
			events, locks := rehearsed(t, "worker-check", seed)
			told = slices.Contains(codes(found(tell(slices.Clone(events)), locks, true)), r.Code)
		}
		if !told {
			t.Errorf("%s is not told", r.Code)
		}
	}
}

// A replay of an operation that was asked for once is told where the ledger has no such operation: the writer used another id than it says.
func TestReplayOfWhatWasNeverEntered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		asked    int
		entered  string
		answered string
		told     bool
	}{
		{"another id", 1, "x", history.ReasonReplay, true},
		{"a client that asks again by itself", 1, "w1", history.ReasonReplay, false},
		{"asked again", 2, "x", history.ReasonReplay, false},
		{"new", 1, "x", "", false},
	} {
		l := lint.New(map[string]lint.Lock{"job": {}})
		body := func() *history.Write { return &history.Write{Subject: "j", State: "done"} }
		for range c.asked {
			l.See(&history.Event{Kind: history.WriteInvoke, Source: "r1.1", Op: "w1", Write: body()})
		}
		answer := body()
		answer.Accepted, answer.Reason = true, c.answered
		l.See(&history.Event{N: 3, Kind: history.WriteReturn, Source: "r1.1", Op: "w1", Outcome: history.OK, Write: answer})
		l.See(&history.Event{Kind: history.LedgerEntry, Source: "ledger", Op: c.entered, Epoch: "e", Entry: &history.Entry{Writer: "r1.1", Subject: "j"}})
		if told := slices.Contains(codes(l.End()), "op_of_two_effects"); told != c.told {
			t.Errorf("%s: told %t, want %t", c.name, told, c.told)
		}
	}
}

// Announcements that come when the calls are over are told, unless the ends of the calls come as late: then this machine reads late.
func TestLateAnnouncements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		calls            int
		took, said, read time.Duration // of a call; when its announcement and its end are recorded, from its end on
		starved          int           // calls beside these that take long
		told             bool
	}{
		{"with the end", 10, 6 * time.Millisecond, 0, 0, 10, true},
		{"too few", 9, 6 * time.Millisecond, 0, 0, 0, false},
		{"before the end", 10, 6 * time.Millisecond, -time.Millisecond, 0, 0, false},
		{"calls that take no time", 10, 4 * time.Millisecond, 0, 0, 0, false},
		{"all is read late", 10, 6 * time.Millisecond, 0, 5 * time.Millisecond, 0, false},
		{"most of its calls take long: it is starved", 10, 6 * time.Millisecond, 0, 0, 11, false},
	} {
		l, n := lint.New(map[string]lint.Lock{"job": {}}), int64(0)
		see := func(e history.Event) {
			n++
			e.N, e.Source, e.Lock, e.Epoch, e.Op, e.Clock = n, "r1.1", "job", "e", fmt.Sprint("n", (n+1)/2), history.ClockShared
			l.See(&e)
		}
		for i := range c.calls {
			from := int64(time.Duration(i) * time.Second)
			to := from + int64(c.took)
			see(history.Event{Kind: history.RenewInvoke, Span: history.At(from), At: to + int64(c.said), Call: &history.Call{}})
			see(history.Event{Kind: history.RenewReturn, Span: history.Span{From: from, To: to}, At: to + int64(c.read), Outcome: history.OK, Call: &history.Call{}})
		}
		for range c.starved { // calls that take long
			see(history.Event{Kind: history.RenewInvoke, Call: &history.Call{}})
			see(history.Event{Kind: history.RenewReturn, Span: history.Span{To: int64(25 * time.Millisecond)}, At: int64(25 * time.Millisecond), Outcome: history.OK, Call: &history.Call{}})
		}
		if told := slices.Contains(codes(l.End()), "announced_late"); told != c.told {
			t.Errorf("%s: told %t, want %t", c.name, told, c.told)
		}
	}
}

// Each rule says where the document has it, once, and in whole.
func TestRulesNameSectionsOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/worker-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range slices.Concat(lint.Rules(), lint.Judged()) {
		if !strings.Contains("\n"+string(doc), "# "+r.Section+"\n") {
			t.Errorf("rule %s: docs/worker-protocol.md has no section %q", r.Code, r.Section)
		}
		if seen[r.Code] || r.Says == "" || r.Change == "" {
			t.Errorf("rule %s: named twice, or does not say all: %s", r.Code, fmt.Sprint(r))
		}
		seen[r.Code] = true
	}
}
