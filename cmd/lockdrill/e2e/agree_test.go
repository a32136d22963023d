package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// agreeEnv asks for the live drill that is held against its rehearsals: five minutes, on a machine that does little else.
const agreeEnv = "LOCKDRILL_AGREE"

const (
	agreeSeeds = 100
	agreeLevel = 0.01 // of the rank test
)

// agreeDrill kills a renewed leader sixty times at random, at the published timings. An operation has more time than the published 2s:
// at this scale that would be 80ms, and the drill would measure how busy the machine is.
const agreeDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: agree
redis: {mode: spawn}
system:
  mode: embedded
  replicas: 3
  restart: 300ms
  locks:
    - name: leader
      key: leader
      policy:
        ttl: 60s
        renew_every: 20s
        class: standard
        op_timeout: 6s
        stop_budget: 1s
        release: {mode: none}
        acquire: {mode: try, timeout: 6s}
        loop: {poll: 30s, mode: renewed, tick: 100ms}
time_scale: 0.04
steady_state: {for: 2s, timeout: 30s}
faults:
  - id: kill
    at: 0s
    repeat: {count: 60, every: settled}
    kill: {holder_of: leader, phase: random}
probes:
  lock_keys: {every: 5ms, max_gap: 250ms}
limits: {max_kills: 70, max_run: 15m}
slos:
  # TTL 60s + call in flight 6s + poll 30s + op timeout 6s, and the start of the work
  - {lock: leader, takeover: {max: 105s}}
`

// A live drill and the rehearsals of its file at its time scale agree: every live takeover lies in the band that the run predicted, and
// a rank test does not tell the live sample from the rehearsed.
func TestALiveDrillAgreesWithItsRehearsals(t *testing.T) {
	onlyFor(t, agreeEnv, "", "runs sixty kills live and holds them against their rehearsals: five minutes")
	needDrill(t)
	o := runDrillIn(t, t.TempDir(), agreeDrill, nil) // with its rehearsals before it
	skipIfTooBusy(t, o.code, o.text)
	if o.code != verdict.ExitPass {
		t.Errorf("the live drill ended with %d\n%s", o.code, o.text)
	}
	h := historyIn(t, o.dir)
	recorded := func(kind history.Kind) history.Event {
		i := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Kind == kind })
		if i < 0 {
			t.Fatalf("the run recorded no %s", kind)
		}
		return h.Events[i]
	}
	c := recorded(history.RunCalibration).Calibration
	t.Logf("calibrated: round trip p50 %s p99 %s, timers up to %s late, expiry up to %s late", time.Duration(c.RTT50), time.Duration(c.RTT99),
		time.Duration(c.Timer99), time.Duration(c.Expiry))
	live, rehearsed := takeoversOf(&o.j), rehearsedTakeovers(t, agreeDrill, *c, 1, agreeSeeds)
	if n := len(live); n < 60 {
		t.Errorf("%d live takeovers, want 60", n)
	}
	for _, p := range o.j.Predicted {
		t.Logf("predicted for %s after a %s by %d takeovers in %d rehearsals: [%.3fs, %.3fs] give or take %.3fs; %d live ones outside",
			p.Lock, p.Class, p.Values, p.Seeds, p.Lo, *p.Hi, p.Margin, p.Outside)
		if p.Outside > 0 {
			t.Errorf("takeovers outside of the band: %+v", o.j.Findings)
		}
	}
	if len(o.j.Predicted) == 0 {
		why := recorded(history.RunPrediction).Prediction.Why
		if !strings.Contains(why, "no rehearsal of this drill ended within") {
			t.Errorf("the run predicted nothing: %s", why)
		}
		t.Logf("the run predicted nothing, so the rank test alone holds it against rehearsals: %s", why)
	}
	p := rankTest(live, rehearsed)
	for _, sample := range [][]float64{live, rehearsed} {
		sorted := slices.Sorted(slices.Values(sample))
		t.Logf("%5d takeovers: min %.3fs, p50 %.3fs, max %.3fs", len(sorted), sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1])
	}
	t.Logf("rank test (Mann-Whitney, two-sided): p = %.3f", p)
	if p < agreeLevel {
		t.Errorf("p = %.4f: the live sample differs from the rehearsed", p)
	}
}

// rehearsedTakeovers are those of n seeds, in a network as it was calibrated.
func rehearsedTakeovers(t *testing.T, yaml string, c history.Calibration, first, n int64) (all []float64) {
	t.Helper()
	e, err := experiments.Parse("agree", []byte(yaml))
	must(t, err)
	r, judger := rehearsal.New(e, drill.Network(c)), analysis.NewJudger(e)
	for seed := first; seed < first+n; seed++ {
		d, err := r.Run(t.Context(), seed)
		must(t, err)
		all = append(all, takeoversOf(judger.Judge(d.History))...)
	}
	return all
}

// takeoversOf are the middles of what was measured of each kill, in seconds.
func takeoversOf(j *verdict.Judgement) (all []float64) {
	for _, k := range j.Takeovers {
		if k.Class == verdict.ClassCrash && k.Hi != nil {
			all = append(all, (k.Lo+*k.Hi)/2)
		}
	}
	return all
}

// rankTest is the P of the rank test of two samples.
func rankTest(a, b []float64) float64 {
	exact := func(values []float64) stats.Sample {
		var all []stats.Range
		for _, v := range values {
			all = append(all, stats.Range{Lo: v, Hi: v})
		}
		return stats.SampleOf(all)
	}
	return stats.RankTest(exact(a), exact(b)).P
}

// The test of the agreement can fail: sixty kills of a lock with a longer lease are told from the rehearsals of the drill, and sixty of
// the same lock are not.
func TestTheAgreementCanFail(t *testing.T) {
	t.Parallel()
	c := history.Calibration{RTT50: 10_000, RTT99: 1_200_000, Timer99: 3_000_000}
	all := rehearsedTakeovers(t, agreeDrill, c, 1, 20)
	if p := rankTest(rehearsedTakeovers(t, agreeDrill, c, 1000, 1), all); p < agreeLevel {
		t.Errorf("the same lock: p = %g", p)
	}
	longer := edit(t, agreeDrill, "ttl: 60s", "ttl: 68s")
	if p := rankTest(rehearsedTakeovers(t, longer, c, 1000, 1), all); p >= agreeLevel {
		t.Errorf("a lease of 68s instead of 60s: p = %g", p)
	}
}
