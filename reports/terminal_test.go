package reports

import (
	"bytes"
	"errors"
	"flag"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/golden"
	"github.com/lockdrill/lockdrill/reports/doc"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the diff")

// isGolden holds got against testdata/name.
func isGolden(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name), got, *update)
}

func at(v float64) *float64 { return &v }

func rng(lo, hi float64) *verdict.Range { return &verdict.Range{Lo: lo, Hi: &hi} }

func takeover(lock, fault string, lo, hi float64) verdict.Takeover {
	return verdict.Takeover{
		Lock: lock, Key: "cordum:reconciler:default", Fault: fault, Victim: "r1.1", Successor: "r2.1", Class: verdict.ClassCrash, End: "effect",
		Lo: lo, Hi: &hi, Residual: rng(lo*0.7, hi*0.7), Pickup: rng(lo*0.25, hi*0.25), Warmup: rng(0.00012, 0.00031),
		Evidence: []int64{int64(fault[len(fault)-1] - '0')},
	}
}

// The slowest takeover that a row names is one of its own: none of another class, which its evidence does not have, and of two open ends the
// one that was seen to last longer.
func TestTheSlowestIsOfTheRow(t *testing.T) {
	j := failed()
	open := func(fault string, lo float64) verdict.Takeover {
		x := takeover("reconciler", fault, lo, lo)
		x.Hi = nil
		return x
	}
	pause := open("gc#2", 500)
	pause.Class, pause.Evidence = verdict.ClassPause, []int64{99}
	j.Takeovers = append(j.Takeovers, open("kill-holder#5", 103), open("kill-holder#6", 64), pause)
	if got, want := slowestOf(j, j.SLOs[0]), "The slowest: kill-holder#5 struck r1.1, and r2.1 took over."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// passed is a judgement with something in every part.
func passed() *verdict.Judgement {
	return &verdict.Judgement{
		SchemaVersion: verdict.VerdictVersion,
		Run: verdict.RunInfo{
			ID: "20260102T030405.000Z-first-drill", Experiment: "first-drill", Status: "completed", Started: "2026-01-02T03:04:05Z",
			Ended: "2026-01-02T03:04:43Z", Seconds: 38.25, Seed: 42, TimeScale: 0.05, Live: true, Steady: true, CleanedUp: true,
		},
		Verdict: "pass",
		SLOs: []verdict.SLOResult{
			{Lock: "reconciler", Measure: "takeover.max", Unit: "s", Limit: 4.75, Declared: 95, Lo: 2.0311, Hi: at(2.0334), N: 3, Of: "kill", Verdict: verdict.Pass, Evidence: []int64{812}},
			{Lock: "job", Measure: "duplicate_terminal_states", Unit: "count", Hi: at(0), N: 2914, Of: "job", Bound: at(0.6316), BoundN: 3, Verdict: verdict.Pass},
			{Lock: "job", Measure: "abandonments", Unit: "count", Limit: 2, Declared: 2, Lo: 1, Hi: at(1), N: 2914, Of: "epoch", Verdict: verdict.Pass},
		},
		Faults: []verdict.FaultResult{
			{ID: "kill-holder", Shots: 3, Shot: 1, Kind: "kill", Confirmed: true},
			{ID: "kill-holder", Shots: 3, Shot: 2, Kind: "kill", Void: true, Why: "moved: r2.1 had released before the kill"},
			{ID: "kill-holder", Shots: 3, Shot: 3, Kind: "kill", Confirmed: true},
			{ID: "kill-holder", Shots: 3, Shot: 4, Kind: "kill", Confirmed: true},
		},
		Takeovers: []verdict.Takeover{
			takeover("reconciler", "kill-holder#1", 0.9127, 0.9142),
			takeover("reconciler", "kill-holder#3", 2.0311, 2.0334),
			takeover("reconciler", "kill-holder#4", 1.5, 1.5021),
		},
		Counts: verdict.Counts{Jobs: 2914, Finished: 2914, TerminalAccepted: 2914, Abandonments: 1, StaleRefused: 2, ReExecuted: 3, ReExecutedAtMost: 19},
		Bands:  []verdict.Band{{Lock: "reconciler", Lo: 0, Hi: 4.62, Sum: "ttl 3s + in flight 100ms + poll 1.5s + op timeout 20ms"}},
		Probes: []verdict.ProbeSummary{
			{ID: "lock_keys", Samples: 7512, LargestGap: at(0.0072)},
			{ID: "ledger", Samples: 7498, LargestGap: at(0.0091)},
		},
	}
}

func failed() *verdict.Judgement {
	j := passed()
	j.Verdict, j.ExitCode, j.Run.TimeScale = "slo-failed", 10, 1
	j.SLOs[0] = verdict.SLOResult{
		Lock: "reconciler", Measure: "takeover.max", Unit: "s", Limit: 30, Declared: 30, Lo: 88.6812, Hi: at(88.6851), N: 30, Of: "kill", Verdict: verdict.Fail,
		Why:      "ttl 60 s, poll 30 s, ttl_hold: the sum says up to 90 s, so a random kill meets 30 s only by luck",
		Next:     "ttl + poll must be <= 30 s, e.g. 20 s + 5 s",
		Evidence: []int64{4, 2, 3, 1, 5, 6, 7, 8, 9, 10},
	}
	j.SLOs[1] = verdict.SLOResult{
		Lock: "job", Measure: "duplicate_terminal_states", Unit: "count", Lo: 1, Hi: at(1), N: 2914, Of: "job", Verdict: verdict.Fail,
		Why: "job 8f31 done by epoch 12 at T+611.2s and by epoch 13 at T+613.0s", Evidence: []int64{9120, 9188},
	}
	j.Counts.Duplicates, j.Counts.StaleApplied, j.Counts.FalseTakeovers = 1, 1, 1
	j.SLOs = append(j.SLOs, verdict.SLOResult{
		Lock: "job", Measure: "not_owned.renew", Unit: "ratio", Limit: 0.01, Lo: 0.025, Hi: at(0.025), N: 80, Verdict: verdict.Fail,
		Why: "2 of 80 renewals answered \"not yours\" (1 absent, 1 other)", Evidence: []int64{77},
	})
	j.Debts = []verdict.Debt{
		{Lock: "job", Cause: "release_failed", Debt: *rng(56.9991, 57.0032), Effective: *rng(39.9984, 40.003), WaiterSeconds: *rng(79.9968, 80.006)},
		{Lock: "job", Cause: "orphan_acquire", Debt: *rng(0, 2.5), Effective: *rng(0, 0), WaiterSeconds: *rng(0, 0)},
		{Lock: "reconciler", Cause: "renew_after_exit", Debt: verdict.Range{Lo: 3}, Effective: *rng(0, 0), WaiterSeconds: *rng(0, 0)},
	}
	j.NotOwned = []verdict.NotOwned{{Lock: "job", Op: "renew", Answered: 80, Absent: 1, Other: 1, Ratio: 0.025}, {Lock: "job", Op: "release", Answered: 2914}}
	j.Distributions = []verdict.Distribution{
		{Lock: "job", Class: "big", Measure: "held", N: 300, P50: *rng(2.0311, 2.0334), P95: *rng(4.1, 4.1021), P99: *rng(4.9, 4.9021), Max: *rng(5, 5.0021)},
		{Lock: "job", Class: "big", Measure: "wait", N: 310, P50: *rng(0, 0), P95: *rng(0.5, 0.5021), P99: *rng(1.9, 1.9021), Max: *rng(2, 2.0021)},
	}
	j.Counts.OrphanAcquires = 1
	j.Findings = []verdict.Finding{{What: "r1.1 says that its write was refused; the ledger applied it", Evidence: []int64{9188}}}
	return j
}

func inconclusive() *verdict.Judgement {
	j := passed()
	j.Verdict, j.ExitCode = "inconclusive", 11
	j.Missing = []verdict.Missing{{Why: "the steady state was not reached before the first fault: replica r1 is not ready", Next: "see r1.1.stderr in the run's folder"}}
	j.SLOs[0] = verdict.SLOResult{
		Lock: "reconciler", Measure: "takeover.p99", Unit: "s", Limit: 4.75, Declared: 95, N: 0, Of: "kill", Verdict: verdict.Inconclusive,
		Missing: append(slices.Clone(j.Missing), verdict.Missing{Why: "no confirmed fault hit an epoch", Next: "299 clean kills are needed for a p99; 3 were declared"}),
	}
	j.SLOs[1].Verdict, j.SLOs[1].Missing = verdict.Inconclusive, j.Missing
	j.Takeovers, j.Bands, j.Probes = nil, nil, []verdict.ProbeSummary{{ID: "lock_keys", Samples: 12, LargestGap: at(2.5), Gaps: 1}, {ID: "ledger"}}
	j.Faults = nil
	j.Run.Steady = false
	j.Warnings = []string{"the steady state was not reached: no job finished within 60 s"}
	return j
}

func aborted() *verdict.Judgement {
	j := passed()
	j.Verdict, j.ExitCode, j.Run.Status = "aborted", 12, "aborted"
	j.Takeovers[2].Hi, j.Takeovers[2].Censored, j.Takeovers[2].End, j.Takeovers[2].Pickup = nil, true, "censored", nil
	return j
}

func dirty() *verdict.Judgement {
	j := passed()
	j.Verdict, j.ExitCode, j.Run.CleanedUp = "dirty", 20, false
	j.Warnings = []string{"the store of the locks did not end within 5 s"}
	return j
}

func broken() *verdict.Judgement {
	j := passed()
	j.Verdict, j.ExitCode, j.Run.Status, j.Run.Live = "error", 1, "cut-off", false
	j.Run.CleanedUp = false
	j.SLOs = nil
	return j
}

func summary(t *testing.T, j *verdict.Judgement, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Terminal(&b, j, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTerminal(t *testing.T) {
	var book golden.Book
	o := Options{Width: 80, Folder: "runs/20260102T030405.000Z-first-drill", Reproduce: "lockdrill run first-drill --seed 42"}
	for _, c := range []struct {
		name string
		j    *verdict.Judgement
	}{{"fail", failed()}, {"pass", passed()}, {"inconclusive", inconclusive()}, {"aborted", aborted()}, {"dirty", dirty()}, {"error", broken()}} {
		book.Add(c.name, summary(t, c.j, o))
	}
	o.Width, o.Verbose = 100, true
	book.Add("fail, with all figures", summary(t, failed(), o))
	book.Add("inconclusive, with all figures", summary(t, inconclusive(), o))
	book.Add("fail, in 48 columns", summary(t, failed(), Options{Width: 48}))
	isGolden(t, "terminal.txt", book.String())
}

func TestTerminalNarrow(t *testing.T) {
	text := summary(t, failed(), Options{Width: 48, Verbose: true})
	for line := range strings.Lines(text) {
		if open, closed := strings.Count(line, "["), strings.Count(line, "]"); open != closed {
			t.Errorf("a range is broken over two lines: %q", line)
		}
	}
}

func TestColorAddsNothing(t *testing.T) {
	escape := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for name, j := range map[string]*verdict.Judgement{"pass": passed(), "fail": failed(), "inconclusive": inconclusive()} {
		colored := summary(t, j, Options{Color: true, Verbose: true})
		if !strings.Contains(colored, "\x1b[") {
			t.Errorf("%s: no colour where colour was asked for", name)
		}
		if got, want := escape.ReplaceAllString(colored, ""), summary(t, j, Options{Verbose: true}); got != want {
			t.Errorf("%s: colour changes the words:\n%s\nwithout:\n%s", name, got, want)
		}
	}
}

func TestScaleAndLabelAreSaidWithTheWord(t *testing.T) {
	j := passed()
	j.Run.Live = false
	first, _, _ := strings.Cut(summary(t, j, Options{}), "\n")
	for _, want := range []string{"REHEARSAL", "PASS", "time scale 0.05"} {
		if !strings.Contains(first, want) {
			t.Errorf("first line %q does not say %q", first, want)
		}
	}
}

// Of a rehearsal is said what held in it, once that it is none, and nothing of gates: there is none that takes it.
func TestARehearsalSaysWhatHeldAndStopsNoGate(t *testing.T) {
	alone := []verdict.Missing{verdict.Lacking(verdict.MissingLiveSystem)}
	for name, c := range map[string]struct {
		word  string
		row   verdict.SLOResult
		wants string
	}{
		"kept":   {"inconclusive", verdict.SLOResult{Verdict: verdict.Inconclusive, Missing: alone}, "1 of 1 promise held under 1 fault in the simulation."},
		"open":   {"inconclusive", verdict.SLOResult{Verdict: verdict.Inconclusive, Missing: append(alone, verdict.Lacking(verdict.MissingEnd))}, "No promise broke and none could be answered under 1 fault in the simulation."},
		"broken": {"slo-failed", verdict.SLOResult{Verdict: verdict.Fail}, "1 of 1 promise broke under 1 fault in the simulation."},
	} {
		j := &verdict.Judgement{Verdict: c.word, SLOs: []verdict.SLOResult{c.row}, Missing: alone, Run: verdict.RunInfo{Steady: true, CleanedUp: true, TimeScale: 1},
			Faults: []verdict.FaultResult{{ID: "f", Shots: 1, Shot: 1, Confirmed: true}}}
		got := summary(t, j, Options{})
		if !strings.Contains(got, c.wants) || strings.Contains(got, "gate") || strings.Count(got, "virtual time") != 1 || !strings.Contains(got, "valid? Yes") {
			t.Errorf("%s: want %q and no gate in\n%s", name, c.wants, got)
		}
	}
}

// What nobody asked about stands above what held.
func TestWhatNoPromiseAsksAboutIsSaid(t *testing.T) {
	for _, word := range []string{"pass", "inconclusive", "aborted"} {
		j := &verdict.Judgement{Verdict: word, Run: verdict.RunInfo{Live: true}}
		if text := sentences(j)[0]; strings.Contains(text, "saw") {
			t.Errorf("%s: %s", word, text)
		}
		j.Counts = verdict.Counts{StaleApplied: 198, UnownedEffects: 1}
		j.Findings = []verdict.Finding{{What: "two clocks differ"}}
		if first := sentences(j)[0]; !strings.Contains(first, "the run saw 198 stale writes, 1 unowned write.") {
			t.Errorf("%s begins with %s", word, first)
		}
		if second := sentences(j)[1]; second != "To have it judged, promise overlap: {level: effect, max: 0}." {
			t.Errorf("%s goes on with %s", word, second)
		}
		if third := sentences(j)[2]; third != "1 finding: two clocks differ." {
			t.Errorf("%s goes on with %s", word, third)
		}
		j.SLOs, j.Findings = []verdict.SLOResult{{Measure: "stale_writes"}, {Measure: "vanished"}}, []verdict.Finding{{Code: verdict.FindingVanished, What: "key k vanished"}}
		if text := sentences(j)[0]; !strings.Contains(text, "the run saw 1 unowned write.") {
			t.Errorf("%s, asked of the rest: %s", word, text)
		}
		j.SLOs = []verdict.SLOResult{{Measure: "overlap.effect"}, {Measure: "vanished"}}
		if text := sentences(j)[0]; strings.Contains(text, "saw") {
			t.Errorf("%s, asked: %s", word, text)
		}
	}
}

// Of a run that passed the summary fits a screen of 24 rows and 80 columns, with the prompt below it.
func TestTheSummaryOfAPassFitsAScreen(t *testing.T) {
	j := passed()
	for i := range 9 {
		j.SLOs = append(j.SLOs, verdict.SLOResult{Lock: "job", Measure: "busy.count", Unit: "count", Limit: float64(i), Declared: float64(i), Hi: at(0), N: 100, Of: "acquire", Verdict: verdict.Pass})
	}
	j.Probes[0].Gaps, j.Run.TimeScale = 7, 1
	o := Options{Width: 80, Folder: "runs/20261122T214728.478Z-first-drill", Report: "runs/20261122T214728.478Z-first-drill/report.html",
		Reproduce: "lockdrill run runs/20261122T214728.478Z-first-drill/experiment.yaml --seed 485630628"}
	text := summary(t, j, o)
	if rows := strings.Count(text, "\n"); rows > 23 {
		t.Errorf("%d rows:\n%s", rows, text)
	}
	for line := range strings.Lines(text) {
		if doc.Width(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
	if !strings.Contains(text, "Was the drill valid? Yes.") {
		t.Error(text)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestTerminalReportsFailedWrite(t *testing.T) {
	if err := Terminal(brokenPipe{}, passed(), Options{}); err == nil {
		t.Error("a summary that nobody got was reported as written")
	}
}

// Ten thousand findings are counted and not printed: the last lines of a run are what is read.
func TestTheSummaryIsBounded(t *testing.T) {
	j := failed()
	for range 10_000 {
		j.Findings = append(j.Findings, verdict.Finding{What: "a contradiction"})
		j.Warnings = append(j.Warnings, "a warning")
	}
	var b strings.Builder
	if err := Terminal(&b, j, Options{Verbose: true}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n > 150 || !strings.Contains(b.String(), "and 9981 more: verdict.json has all findings") || !strings.Contains(b.String(), "more warnings in verdict.json") {
		t.Errorf("%d lines:\n%.3000s", n, b.String())
	}
}

// A count cannot be below 0, so at most 0 and exactly 0 are one promise. A level can, and which of the two was asked is told.
func TestAPromiseOfZeroTellsWhatIsAsked(t *testing.T) {
	for _, c := range []struct {
		measure string
		ask     verdict.Ask
		want    string
	}{
		{"duplicate_terminal_states", verdict.AtMost, "duplicate terminal states 0"},
		{"metric.errors.delta", verdict.AtMost, "metric errors delta 0"},
		{"metric.lag.max", verdict.AtMost, "metric lag max <= 0"},
		{"metric.lag.max", verdict.Exactly, "metric lag max = 0"},
	} {
		if got := promise(verdict.SLOResult{Measure: c.measure, Ask: c.ask, Unit: verdict.UnitCount}); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.measure, c.ask, got, c.want)
		}
	}
}

// The first sentence counts as the headline does: what a fault was expected to provoke is no promise.
func TestWhatAFaultProvokesIsNoPromise(t *testing.T) {
	for slo, want := range map[verdict.Verdict]string{verdict.Fail: "1 of 1 promise broke", verdict.Inconclusive: "No promise broke and none could be answered"} {
		j := &verdict.Judgement{SLOs: []verdict.SLOResult{{Verdict: slo}}, Expected: []verdict.SLOResult{{Verdict: verdict.Pass}}}
		if got := heldSentence(j); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", slo, got)
		}
	}
}
