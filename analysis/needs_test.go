package analysis

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// askEverything promises of each lock all that can be promised of a lock, with limits that hardly anything breaks.
func askEverything(e *experiments.Experiment) {
	e.SLOs = nil
	of := reflect.TypeFor[experiments.SLO]()
	for i := range e.System.Locks {
		for k := range of.NumField() {
			f := of.Field(k)
			if f.Type.Kind() != reflect.Pointer || slices.Contains([]string{"Metric", "Logs", "Alert"}, f.Name) {
				continue
			}
			for _, s := range generous(f) {
				s.Lock = e.System.Locks[i].Name
				e.SLOs = append(e.SLOs, s)
			}
		}
	}
}

func generous(f reflect.StructField) (all []experiments.SLO) {
	most, number := *experiments.AtMost(1000 * time.Second), *experiments.AtMost(100000)
	switch f.Name {
	case "Takeover", "TickGap": // how long a run must go on after the last fault follows from these
		most = *experiments.AtMost(9100 * time.Millisecond)
	case "Overlap":
		for _, level := range []string{"belief", "work", "effect"} {
			all = append(all, experiments.SLO{Overlap: &experiments.OverlapLimit{Level: level, Time: most, Count: number}})
		}
		return all
	}
	var set func(v reflect.Value)
	set = func(v reflect.Value) {
		switch b := v.Addr().Interface().(type) {
		case *experiments.Bound[time.Duration]:
			*b = most
		case *experiments.Bound[int]:
			*b = number
		case *experiments.Bound[float64]:
			*b = *experiments.AtMost(1.0)
		default:
			for i := range v.NumField() {
				switch x := v.Field(i); {
				case x.Kind() == reflect.Struct:
					set(x)
				case x.Kind() == reflect.Pointer && x.Type().Elem().Kind() == reflect.Struct:
					x.Set(reflect.New(x.Type().Elem()))
					set(x.Elem())
				}
			}
		}
	}
	var s experiments.SLO
	of := reflect.New(f.Type.Elem())
	set(of.Elem())
	reflect.ValueOf(&s).Elem().FieldByIndex(f.Index).Set(of)
	return append(all, s)
}

// The same facts give the same findings, each once, whatever is asked of them.
func TestFindingsDoNotDependOnWhatIsAsked(t *testing.T) {
	lying := func(h *history.History) { // by its own account it had 100s left
		for i := range h.Events {
			if ev := &h.Events[i]; ev.Kind == history.WorkExit {
				w := *ev.Work
				w.Valid, w.HasValid = 100e9, true
				ev.Work = &w
			}
		}
	}
	for name, lies := range map[string]bool{"good-drill": true, "burst-legacy-count": false, "metrics-disagree": false, "lost-acquire-reply-late": false} {
		e, h := load(t, name)
		if lies {
			lying(h)
		}
		e.SLOs, e.Expect = nil, nil
		unasked := Judge(e, h).Findings
		askEverything(e)
		asked := Judge(e, h).Findings
		if !reflect.DeepEqual(unasked, asked) {
			t.Errorf("%s: %d findings where nothing is asked, %d where everything is: %+v, %+v", name, len(unasked), len(asked), unasked, asked)
		}
		if lies && len(asked) == 0 {
			t.Errorf("%s: nobody found out who lies about the validity", name)
		}
		for i, f := range asked {
			if slices.ContainsFunc(asked[:i], func(o verdict.Finding) bool { return o.What == f.What }) {
				t.Errorf("%s: found twice: %s", name, f.What)
			}
		}
	}
}

// Where lines of replicas were lost, no row passes that leans on what they claim. What rests on the ledger alone is answered all the same.
func TestLostLinesLeaveNoClaimBelieved(t *testing.T) {
	ledgers := []string{"takeover", "tick_gap", "duplicate_terminal_states", "stranded", "fence_regressions", "overlap.effect", "stale_writes"}
	passed := map[string]bool{}
	for _, name := range []string{"good-drill", "release-in-time", "burst-standard", "not-owned-own-release", "classes-short", "lost-acquire-reply-undone"} {
		e, h := load(t, name)
		askEverything(e)
		before := Judge(e, h)
		for i := range h.Events {
			if ev := &h.Events[i]; ev.Kind == history.ReplicaExit {
				r := *ev.Replica
				r.Bad = 2
				ev.Replica = &r
			}
		}
		for i, r := range Judge(e, h).SLOs {
			figure := r.Question.Figure()
			if before.SLOs[i].Verdict != verdict.Pass {
				continue
			}
			passed[figure] = true
			want := verdict.Inconclusive
			if slices.Contains(ledgers, figure) {
				want = verdict.Pass
			}
			if r.Verdict != want || want == verdict.Inconclusive && !strings.Contains(r.Why, "could not be read") {
				t.Errorf("%s: %s of lock %s is %s, want %s: %s", name, r.Measure, r.Lock, r.Verdict, want, r.Why)
			}
		}
	}
	for _, figure := range []string{"lock_debt.max", "lock_debt.effective", "lock_debt.total", "lock_debt.waiter_seconds", "orphan_acquires", "not_owned.renew", "not_owned.release", "held", "wait", "re_executed"} {
		if !passed[figure] {
			t.Errorf("%s passed in none of the histories: nothing was tried", figure)
		}
	}
}

// Records of a source that nobody could read hide violations and ends alike: rows that rest on it neither pass, nor fail for want of an end. A
// violation that was read stands.
func TestUnreadRecordsAnswerNothing(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		name, history string
		slo           experiments.SLO
		before, after verdict.Verdict
	}{
		{"a takeover in time", "good-drill", experiments.SLO{Lock: "leader", Takeover: experiments.Within(9100 * time.Millisecond)}, verdict.Pass, verdict.Inconclusive},
		{"a takeover too late: the end may have been among them", "good-drill", experiments.SLO{Lock: "leader", Takeover: experiments.Within(second)}, verdict.Fail, verdict.Inconclusive},
		{"no second end", "good-drill", experiments.SLO{Lock: "job", DuplicateTerminalStates: &experiments.CountLimit{Bound: *experiments.AtMost(0)}}, verdict.Pass, verdict.Inconclusive},
		{"a second end that was read", "replica-dies-no-look", experiments.SLO{Lock: "job", DuplicateTerminalStates: &experiments.CountLimit{Bound: *experiments.AtMost(0)}}, verdict.Fail, verdict.Fail},
		{"what rests on keys and claims", "good-drill", experiments.SLO{Lock: "job", UnownedWork: experiments.AtMost(second)}, verdict.Pass, verdict.Pass},
	} {
		e, h := load(t, c.history)
		e.SLOs = []experiments.SLO{c.slo}
		ix := FactsOf(e, h)
		if r := ix.Judge().SLOs[0]; r.Verdict != c.before {
			t.Errorf("%s: %s before, want %s: %s", c.name, r.Verdict, c.before, r.Why)
		}
		ix.Unread = map[string]int64{facts.ProbeLedger: 2}
		r := ix.Judge().SLOs[0]
		if r.Verdict != c.after {
			t.Errorf("%s: %s, want %s: %s", c.name, r.Verdict, c.after, r.Why)
		}
		if unread := slices.ContainsFunc(r.Missing, func(m verdict.Missing) bool { return m.Code == verdict.MissingUnread }); unread != (c.after == verdict.Inconclusive) {
			t.Errorf("%s: lacks %+v", c.name, r.Missing)
		}
	}
}

// Whoever sees nothing at all answers no more than one who missed a little: a row does not pass because all that it rests on is gone.
func TestARowMissesWhatItRestsOn(t *testing.T) {
	gone := func(of func(*history.Event) bool) func(*history.History) {
		return func(h *history.History) {
			h.Events = slices.DeleteFunc(h.Events, func(ev history.Event) bool { return of(&ev) })
		}
	}
	of := func(probe string) func(*history.Event) bool {
		return func(ev *history.Event) bool {
			return ev.Source == "probe:"+probe || strings.HasPrefix(ev.Source, "probe:"+probe+":")
		}
	}
	unlooked := func(h *history.History) { // from before the kill until the key went to another
		h.Events = append(h.Events, history.Event{N: int64(len(h.Events)) + 1, Kind: history.GapKind, Source: "probe:" + experiments.ProbeKeys, Span: history.Span{From: 9e9, To: 13e9},
			Coverage: &history.Coverage{Probe: experiments.ProbeKeys, Why: "limit 1s"}})
	}
	none := &experiments.CountLimit{Bound: *experiments.AtMost(0)}
	second := time.Second
	for _, c := range []struct {
		name, history string
		edit          func(*history.History)
		slo           experiments.SLO
		want          verdict.MissingCode
	}{
		{"a takeover without a ledger ends at the grant that came before it", "good-drill", gone(of("ledger")), experiments.SLO{Lock: "leader", Takeover: experiments.Within(9100 * time.Millisecond)}, verdict.MissingLooks},
		{"the same of somebody's own effects", "effects-read", gone(of("effects")), experiments.SLO{Lock: "job", Takeover: experiments.Within(15 * second)}, verdict.MissingLooks},
		{"a token may have come back while nobody looked", "effects-read", unlooked, experiments.SLO{Lock: "job", DuplicateEpochs: none}, verdict.MissingLooks},
		{"so may a job have been begun anew", "effects-read", unlooked, experiments.SLO{Lock: "job", ReExecuted: &experiments.CountLimit{Bound: *experiments.AtMost(1)}}, verdict.MissingLooks},
		{"nobody ever said that he holds the lock", "believes-on", gone(func(ev *history.Event) bool { return ev.Kind == history.BeliefKind }), experiments.SLO{Lock: "leader", LossToFence: experiments.AtMost(5 * second)}, verdict.MissingBelievers},
	} {
		e, h := load(t, c.history)
		e.SLOs = []experiments.SLO{c.slo}
		if r := Judge(e, h).SLOs[0]; r.Verdict != verdict.Pass {
			t.Errorf("%s: %s before: %s", c.name, r.Verdict, r.Why)
		}
		c.edit(h)
		r := Judge(e, h).SLOs[0]
		if has := func(m verdict.Missing) bool { return m.Code == c.want }; r.Verdict != verdict.Inconclusive || !slices.ContainsFunc(r.Missing, has) {
			t.Errorf("%s: %s, lacks %+v: %s", c.name, r.Verdict, r.Missing, r.Why)
		}
	}
}
