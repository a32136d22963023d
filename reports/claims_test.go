package reports

import (
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// forms are all that tell people what a run counted and how it was watched, whole and on as few lines as they can.
func forms(t *testing.T, r Run) map[string]string {
	t.Helper()
	text := func(w io.Writer, r Run) error {
		return Terminal(w, r.Judgement, Options{Width: 100_000, Verbose: true})
	}
	brief := func(w io.Writer, r Run) error { return Terminal(w, r.Judgement, Options{Width: 100_000}) }
	post := func(w io.Writer, r Run) error { return Postmortem(w, r, Options{}) }
	all := map[string]string{"page": outline(t, htmlOf(t, r))}
	for name, write := range map[string]func(io.Writer, Run) error{"text": text, "brief text": brief, "markdown": markdownOf, "junit": JUnit, "post-mortem": post} {
		all[name] = strings.NewReplacer("\\", "", "&gt;", ">", "&lt;", "<").Replace(written(t, write, r))
	}
	return all
}

// recordedCase is a history of scenarios/testdata, changed.
func recordedCase(t *testing.T, name string, change func(*history.Event)) Run {
	t.Helper()
	e, h := testkit.Run(t, filepath.Join("..", "scenarios", "testdata", name))
	for i := range h.Events {
		change(&h.Events[i])
	}
	return runOf(e, h)
}

func unchanged(*history.Event) {}

// Of a system that tells nothing of them no form says that there were no abandonments, stale writes and debts; of our own each does that
// says how many there were.
func TestNoFormCountsWhatNothingTells(t *testing.T) {
	claims := []string{"abandonments: 0", "abandonments  0", "abandonments | 0", "0 applied, 0 refused", "no key stayed taken"}
	says := func(r Run) map[string]string {
		found := map[string]string{}
		for form, text := range forms(t, r) {
			for _, claim := range claims {
				if strings.Contains(text, claim) {
					found[form] = claim
				}
			}
		}
		return found
	}
	e, h := testkit.Run(t, filepath.Join("..", "scenarios", "testdata", "effects-read"))
	e.System.Locks, e.System.Effects[0].Lock, e.System.Effects[0].Name = nil, "", "job"
	if found := says(runOf(e, h)); len(found) > 0 {
		t.Errorf("of effects alone it is said: %v", found)
	}
	observed := recordedCase(t, "pods-observed-lease", unchanged)
	if found := says(observed); len(found) > 0 {
		t.Errorf("of an observed system it is said: %v", found)
	}
	const why = "An observed system does not tell lockdrill when it works, asks and gives up."
	for form, text := range forms(t, observed) {
		if counts := form != "brief text" && form != "junit"; counts != strings.Contains(text, why) {
			t.Errorf("%s: that it is not known is said: %v", form, !counts)
		}
	}
	for _, form := range []string{"page", "text", "markdown", "post-mortem"} {
		if says(recorded(t, "pass-1"))[form] == "" {
			t.Errorf("%s does not say of our own locks what did not happen", form)
		}
	}
	if text := written(t, metricsOf, observed); strings.Contains(text, "lockdrill_run_abandonments{") {
		t.Error("a metric counts abandonments of an observed system")
	}
	if text := written(t, metricsOf, recorded(t, "pass-1")); !strings.Contains(text, "lockdrill_run_abandonments{") {
		t.Error("no metric counts abandonments of our own locks")
	}
}

// How the run ended and whether it cleaned up stand once in each form; what was undone one by one has a table of its own.
func TestTheEndOfARunIsSaidOnce(t *testing.T) {
	r := recorded(t, "pass-1")
	for form, text := range forms(t, r) {
		if run, clean := strings.Count(text, "completed after"), len(regexp.MustCompile(`clean-up\W+verified`).FindAllString(text, -1)); form != "junit" && (clean != 1 || run != 1 && form != "brief text") {
			t.Errorf("%s: the run %d times, clean-up %d times", form, run, clean)
		}
	}
}

// A row that lacks looks, or whose limit lies within what was measured, may owe that to a gap: beside it no form calls gaps harmless.
func TestGapsAreCalledHarmlessOnlyWhereNoRowOwesThemAnything(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("..", "scenarios", "testdata", "*", "history.jsonl"))
	if err != nil || len(dirs) < 40 {
		t.Fatal(dirs, err)
	}
	const harmless = "no effect on the verdict"
	gaps, without := 0, 0
	for _, path := range dirs {
		r := runIn(t, filepath.Dir(path))
		owes := len(r.Judgement.Missing) > 0
		for _, s := range r.Judgement.Rows() {
			owes = owes || s.Verdict == verdict.Inconclusive && len(s.Missing) == 0
			for _, m := range s.Missing {
				owes = owes || m.Code.OfLooks()
			}
		}
		text := delayText(r.Judgement)
		if text != "" {
			gaps++
		}
		if !owes && text != "" && strings.Contains(text, harmless) {
			without++
		}
		if owes && strings.Contains(text, harmless) {
			t.Errorf("%s: %s", filepath.Dir(path), text)
		}
	}
	if gaps < 3 {
		t.Errorf("%d histories with gaps: this test tries nothing", gaps)
	}
	late := recorded(t, "pass-1") // innocent: a gap, and every row is answered
	late.Judgement.Probes[0].Gaps, late.Judgement.Probes[0].LargestGap = 1, at(0.079)
	widened := recorded(t, "pass-1") // guilty, without a code: the figure may have been widened
	widened.Judgement.Probes[0].Gaps, widened.Judgement.Probes[0].LargestGap = 1, at(0.079)
	widened.Judgement.SLOs[0].Verdict = verdict.Inconclusive
	for form, text := range forms(t, late) {
		if tells := form != "junit" && form != "post-mortem"; strings.Contains(text, harmless) != tells {
			t.Errorf("%s: a harmless gap is called so: %v", form, !tells)
		}
	}
	for form, text := range forms(t, widened) {
		if strings.Contains(text, harmless) {
			t.Errorf("%s calls a gap harmless beside a row that is not answered", form)
		}
	}
}

// A probe whose looks are refused has seen nothing, and each form says what it got: none says that it did not look, nor that a lock has
// no events.
func TestWhatCouldNotBeLookedAtIsNotCalledAbsent(t *testing.T) {
	const refusal = "NOPERM this user has no permissions"
	e, h := testkit.Run(t, filepath.Join("..", "scenarios", "testdata", "pods-observed-lease"))
	kept := h.Events[:0]
	told := false
	for _, ev := range h.Events {
		switch {
		case ev.Kind == history.LookKind, ev.Fault != nil:
			continue
		case ev.Coverage != nil && told:
			continue
		case ev.Coverage != nil:
			told = true
			ev.Kind, ev.Span = history.GapKind, history.Span{From: 0, To: 75e9}
			ev.Coverage = &history.Coverage{Probe: "leases", Why: refusal, Failed: true, Largest: 75e9}
		}
		ev.N = int64(len(kept) + 1)
		kept = append(kept, ev)
	}
	h.Events = kept
	r := runOf(e, h)
	if r.Judgement.Verdict != "inconclusive" {
		t.Errorf("the verdict is %s", r.Judgement.Verdict)
	}
	for form, text := range forms(t, r) {
		if !strings.Contains(text, refusal) {
			t.Errorf("%s does not say what the looks got", form)
		}
		for _, claim := range []string{"never looked", "no events at all", "no effect on the verdict"} {
			if strings.Contains(text, claim) {
				t.Errorf("%s says %q", form, claim)
			}
		}
	}
	for form, text := range forms(t, recordedCase(t, "pods-observed-lease", unchanged)) {
		if strings.Contains(text, "could not look") {
			t.Errorf("%s says that good looks failed", form)
		}
	}
}

// What was declared, fired and void is one sentence, the same in each form that counts shots, and what was fired adds up.
func TestAllFormsCountShotsInOneSentence(t *testing.T) {
	for name := range recordedRuns {
		r := recorded(t, name)
		ids, counts := shotCounts(r.Judgement)
		for _, id := range ids {
			c := counts[id]
			if c.fired != c.confirmed+c.void {
				t.Errorf("%s, %s: %+v does not add up", name, id, c)
			}
			for form, text := range forms(t, r) {
				told := form == "text" || form == "markdown" || form == "page" || form == "post-mortem" || form == "junit" && c.confirmed < c.declared && r.Judgement.Verdict != "pass"
				if told && !strings.Contains(text, id+": "+c.String()) {
					t.Errorf("%s of %s does not say %q", form, name, id+": "+c.String())
				}
			}
		}
	}
	for want, c := range map[string]shotCount{
		"3 of 3 declared shots confirmed":                                {3, 3, 3, 0},
		"3 of 3 declared shots confirmed (4 fired, 1 void)":              {3, 4, 3, 1},
		"2 of 3 declared shots confirmed (2 fired)":                      {3, 2, 2, 0},
		"3 of 3 declared shots confirmed (5 fired, 4 confirmed, 1 void)": {3, 5, 4, 1},
		"0 of 3 declared shots confirmed (none fired)":                   {3, 0, 0, 0},
	} {
		if got := c.String(); got != want {
			t.Errorf("%+v: %s, want %s", c, got, want)
		}
	}
}

// A fault that never came to its first shot is declared all the same: without it, what was declared would add up to less than the file says.
func TestAFaultThatWasNeverFiredIsCounted(t *testing.T) {
	e, h := testkit.Run(t, filepath.Join("testdata", "recorded", "aborted"))
	late := e.Faults[0]
	late.ID, late.Repeat.Count = "later", 5
	e.Faults = append(e.Faults, late)
	r := runOf(e, h)
	for form, text := range forms(t, r) {
		if form != "brief text" && !strings.Contains(text, "later: 0 of 5 declared shots confirmed (none fired)") {
			t.Errorf("%s does not say that a fault was never fired", form)
		}
	}
	if r.Judgement.NeverFired[0].ID != "later" || len(recorded(t, "aborted").Judgement.NeverFired) != 0 {
		t.Errorf("never fired: %+v", r.Judgement.NeverFired)
	}
}

// A takeover of a lock by a fault that was aimed at another one is told apart from those that were aimed at it.
func TestATakeoverSaysHowManyOfItsFaultsWereAimedAtItsLock(t *testing.T) {
	shots := []verdict.FaultResult{{ID: "a", Shot: 1, Lock: "job"}, {ID: "a", Shot: 2, Lock: "job"}, {ID: "b", Shot: 1, Lock: "leader"}, {ID: "c", Shot: 1}}
	of := func(names ...string) string {
		all := map[string]bool{}
		for _, n := range names {
			all[n] = true
		}
		return hits("job", all, shots)
	}
	for want, got := range map[string]string{
		"": of("a#1", "a#2", "c#1"),
		"2 aimed at this lock, 1 at another and hit this one by the way": of("a#1", "a#2", "b#1"),
		"all aimed at another lock and hit this one by the way":          of("b#1"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
