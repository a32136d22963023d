package analysis

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// alarms is the burst of 20 s to 90 s while somebody asks every 0.5 s which alerts fire, up to the final look at 230 s.
func alarms(changes ...func(*tape)) *tape {
	t := burst(false)
	t.alert(0.5, "LockAbandoned")
	t.alert(0.5, "LockWaitLong")
	for _, change := range changes {
		change(t)
	}
	t.cover(probeAlerts, 230)
	return t
}

// alert records that an alert's instances of these namespaces fire, as a look showed and the one before it did not.
func (t *tape) alert(at float64, name string, namespaces ...string) {
	s := &history.Sample{Metric: history.AlertsFiring, Target: name}
	for _, n := range namespaces {
		s.Values = append(s.Values, history.Value{Labels: map[string]string{"alertname": name, "namespace": n}, Value: 1})
	}
	t.sample(at, at-0.5, s)
	t.events[len(t.events)-1].Source = "probe:alerts"
}

func fires(at float64, namespaces ...string) func(*tape) {
	return func(t *tape) { t.alert(at, "LockAbandoned", namespaces...) }
}

// hole takes the coverage of the alerts away between two instants.
func hole(t *tape, from, to float64) {
	t.events = slices.DeleteFunc(t.events, func(ev history.Event) bool { return ev.Coverage != nil && ev.Coverage.Probe == probeAlerts })
	span := func(kind history.Kind, from, to float64, c history.Coverage) {
		c.Probe = probeAlerts
		t.add(from, to, history.Event{Kind: kind, Source: "probe:alerts", Coverage: &c})
	}
	span(history.CoverageKind, 0, from, history.Coverage{Samples: 100, Largest: 6e8})
	span(history.GapKind, from, to, history.Coverage{Why: "it answers 503", Largest: ns(to - from)})
	span(history.CoverageKind, to, 230.1, history.Coverage{Samples: 100, Largest: 6e8, Final: true})
}

func TestAlertPromises(t *testing.T) {
	const quick = "{alert: LockAbandoned, within: 60s, resolves_within: 100s}"
	type row struct {
		verdict verdict.Verdict
		lo, hi  float64 // hi < 0: open
		says    string
	}
	for _, c := range []struct {
		name  string
		tape  *tape
		asked string
		want  []row // fires, goes away; or of silent the one
	}{
		{"in time, and over", alarms(fires(75, "job"), fires(150)), quick,
			[]row{{verdict.Pass, 54.499, 55.002, ""}, {verdict.Pass, 59.499, 60.002, ""}}},
		{"too late", alarms(fires(81, "job"), fires(150)), quick,
			[]row{{verdict.Fail, 60.499, 61.002, "The alert fired"}, {verdict.Pass, 59.499, 60.002, ""}}},
		{"around the limit", alarms(fires(80.3, "job"), fires(150)), quick,
			[]row{{verdict.Inconclusive, 59.799, 60.302, "lies within the measured range"}, {verdict.Pass, 59.499, 60.002, ""}}},
		{"never", alarms(), quick,
			[]row{{verdict.Fail, 210.093, -1, "The alert did not fire within"}, {verdict.Inconclusive, 0, -1, "The alert never fired"}}},
		{"only for another lock", alarms(fires(75, "run"), fires(150)), "{alert: LockAbandoned, labels: {namespace: job}, within: 60s}",
			[]row{{verdict.Fail, 210.093, -1, ""}, {verdict.Inconclusive, 0, -1, ""}}},
		{"for this lock, beside another", alarms(fires(30, "run"), fires(75, "job", "run"), fires(150, "run")), "{alert: LockAbandoned, labels: {namespace: job}, within: 60s}",
			[]row{{verdict.Pass, 54.499, 55.002, ""}, {verdict.Inconclusive, 59.499, 60.002, "lies within"}}},
		{"it fired already", alarms(fires(12, "job"), fires(150)), quick,
			[]row{{verdict.Inconclusive, 0, -1, "fired already before fault burst"}, {verdict.Inconclusive, 0, -1, "fired already"}}},
		{"it fired once before, and was over", alarms(fires(3, "job"), fires(10), fires(75, "job"), fires(150)), quick,
			[]row{{verdict.Pass, 54.499, 55.002, ""}, {verdict.Pass, 59.499, 60.002, ""}}},
		{"it does not go away", alarms(fires(75, "job")), quick,
			[]row{{verdict.Pass, 54.499, 55.002, ""}, {verdict.Fail, 140.093, -1, "The alert still fired after"}}},
		{"it goes away and comes back", alarms(fires(75, "job"), fires(100), fires(120, "job")), quick,
			[]row{{verdict.Pass, 54.499, 55.002, ""}, {verdict.Fail, 140.093, -1, ""}}},
		{"it goes away while the fault lasts", alarms(fires(40, "job"), fires(80)), quick,
			[]row{{verdict.Pass, 19.499, 20.002, ""}, {verdict.Pass, 0, 0, ""}}},
		{"silent, and nothing fires", alarms(), `{alert: "Lock.*", silent: true, within: 60s}`, []row{{verdict.Pass, 0, 0, ""}}},
		{"silent, and one fires", alarms(fires(75, "job"), fires(150)), `{alert: "Lock.*", silent: true, within: 60s}`,
			[]row{{verdict.Fail, 1, 1, "1 of 2 alerts fired: LockAbandoned"}}},
		{"silent of others", alarms(fires(75, "job"), fires(150)), `{alert: "Lock.*Long", silent: true}`, []row{{verdict.Pass, 0, 0, ""}}},
		{"silent, and one fired from the start", alarms(func(t *tape) {
			t.events[len(t.events)-1].Sample.Values = []history.Value{{Labels: map[string]string{"alertname": "LockWaitLong"}, Value: 1}}
		}), `{alert: "Lock.*", silent: true}`, []row{{verdict.Inconclusive, 0, 0, "LockWaitLong fired already before the run"}}},
		{"silent for longer than anybody looked", alarms(), `{alert: "Lock.*", silent: true, within: 10m}`, []row{{verdict.Inconclusive, 0, -1, ""}}},
	} {
		rows, j := alertRowsOf(t, c.tape, c.asked)
		if len(rows) != len(c.want) {
			t.Fatalf("%s: %d rows", c.name, len(rows))
		}
		for i, w := range c.want {
			r := rows[i]
			if r.Verdict != w.verdict || !near(r.Lo, w.lo) || !near(orOpen(r.Hi), w.hi) || !strings.Contains(r.Why, w.says) {
				t.Errorf("%s: %s: %s [%g, %g] %q, want %+v", c.name, r.Measure, r.Verdict, r.Lo, orOpen(r.Hi), r.Why, w)
			}
			if r.Verdict == verdict.Inconclusive && r.Next == "" {
				t.Errorf("%s: %s says not what to do", c.name, r.Measure)
			}
		}
		if j.ExitCode == verdict.ExitPass && slices.ContainsFunc(rows, func(r verdict.SLOResult) bool { return r.Verdict != verdict.Pass }) {
			t.Errorf("%s: exit status 0", c.name)
		}
	}
}

// orOpen is an upper end, and -1 for one that was not seen.
func orOpen(hi *float64) float64 {
	if hi == nil {
		return -1
	}
	return *hi
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

// alertRowsOf judges a tape by one promise about alerts.
func alertRowsOf(t *testing.T, tp *tape, asked string) ([]verdict.SLOResult, *verdict.Judgement) {
	t.Helper()
	h := tp.history(t)
	e, _ := load(t, "metrics-agree")
	data, err := experiments.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data[:strings.Index(string(data), "slos:")])
	text = strings.Replace(text, "\nprobes:\n", "\nprobes:\n  alerts: {url: \"http://prometheus:9090\"}\n", 1)
	e, err = experiments.Parse("promise.yaml", []byte(text+"slos:\n  - "+asked+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	j := Judge(e, h)
	return j.SLOs, j
}

// What nobody saw is neither a pass nor a fail.
func TestBlindAlerts(t *testing.T) {
	const quick, silent = "{alert: LockAbandoned, within: 60s, resolves_within: 100s}", `{alert: "Lock.*", silent: true}`
	for _, c := range []struct {
		name  string
		tape  *tape
		from  float64
		to    float64
		asked string
		want  verdict.Verdict
	}{
		{"the server was away when it should have fired", alarms(), 30, 120, quick, verdict.Inconclusive},
		{"it was away after the limit", alarms(), 90, 120, quick, verdict.Fail},
		{"it was away before the alert fired in time", alarms(fires(75, "job"), fires(150)), 30, 40, quick, verdict.Pass},
		{"it was away while the alert may have fired in time", alarms(fires(100, "job"), fires(150)), 30, 99, quick, verdict.Inconclusive},
		{"it was away for a moment of silence", alarms(), 60, 63, silent, verdict.Inconclusive},
		{"it was away, and an alert fired before", alarms(fires(50, "job")), 60, 63, silent, verdict.Fail},
	} {
		hole(c.tape, c.from, c.to)
		rows, _ := alertRowsOf(t, c.tape, c.asked)
		r := rows[0]
		if r.Verdict != c.want || c.want == verdict.Inconclusive && !strings.Contains(r.Why, "Nobody saw") {
			t.Errorf("%s: %s [%g, %v] %q, want %s", c.name, r.Verdict, r.Lo, r.Hi, r.Why, c.want)
		}
	}
	nobody := burst(false)
	for _, asked := range []string{quick, silent} {
		if rows, _ := alertRowsOf(t, nobody, asked); rows[0].Verdict != verdict.Inconclusive {
			t.Errorf("nobody asked, and %s is %s", asked, rows[0].Verdict)
		}
	}
}

// What was to be provoked and was not is no failure of the lock.
func TestExpectedAlerts(t *testing.T) {
	for _, c := range []struct {
		tape *tape
		want verdict.Verdict
		says string
	}{
		{alarms(fires(75, "job"), fires(150)), verdict.Pass, ""},
		{alarms(), verdict.Inconclusive, "The drill did not provoke alert LockAbandoned that fires within 60s: The alert did not fire"},
	} {
		rows, j := alertRowsOf(t, c.tape, "{lock: job, abandonments: {max: 5}}\nexpect: {alert: LockAbandoned, within: 60s, resolves_within: 100s}")
		if len(rows) != 1 || len(j.Expected) != 2 {
			t.Fatalf("%d and %d rows", len(rows), len(j.Expected))
		}
		if r := j.Expected[0]; r.Verdict != c.want || r.Fault != "burst" || !strings.Contains(r.Why, c.says) {
			t.Errorf("%s of %s: %s %q, want %s", r.Measure, r.Fault, r.Verdict, r.Why, c.want)
		}
		if (j.ExitCode == verdict.ExitPass) != (c.want == verdict.Pass) || j.ExitCode == verdict.ExitSLOFailed {
			t.Errorf("exit status %d", j.ExitCode)
		}
	}
}
