package rehearsal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"runtime/debug"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/scenarios"
)

func load(t testing.TB, name string) *experiments.Experiment {
	t.Helper()
	data, ok := scenarios.Get(name)
	if !ok {
		t.Fatalf("no scenario %s", name)
	}
	e, err := experiments.Parse(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return RealTime(e)
}

// roomy lets more garbage gather during a test whose worlds share no memory, and so make little else: collecting it took half of the time.
func roomy(t *testing.T) {
	t.Helper()
	before := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

// sloFailed is the exit code of a run of which an SLO fails.
const sloFailed = 10

// Every shipped scenario can be rehearsed at its real durations: it comes to its end, each event is one that a history may have, and
// no claim contradicts the evidence, and an SLO fails where the scenario's first lines say so, and nowhere else.
func TestScenariosRehearse(t *testing.T) {
	roomy(t)
	for _, s := range scenarios.List() {
		t.Run(s.Name, func(t *testing.T) {
			e := load(t, s.Name)
			if e.Observed() {
				t.Skip("SKIPPED: nobody knows how somebody's own system takes its locks: an observed one is not rehearsed")
			}
			if e.System.Worker != nil {
				t.Skip("SKIPPED: its worker takes another lock than the core's, and workers are not rehearsed")
			}
			r := New(e, sim.DefaultNet())
			for seed := range int64(3) {
				d, err := r.Run(context.Background(), seed)
				if err != nil {
					t.Fatal(err)
				}
				at := int64(0)
				for i := range d.History.Events {
					ev := &d.History.Events[i]
					if err := ev.Check(); err != nil {
						t.Fatalf("seed %d: event %d (%s): %v", seed, ev.N, ev.Kind, err)
					}
					if ev.At < at {
						t.Fatalf("seed %d: event %d is recorded before the one before it", seed, ev.N)
					}
					at = ev.At
				}
				j := analysis.NewJudger(e).Judge(d.History)
				if (j.ExitCode == sloFailed) != (s.Expect == sloFailed) {
					t.Errorf("seed %d: %s, and its first lines say that it ends with %d", seed, j.Verdict, s.Expect)
				}
				for _, f := range j.Findings {
					t.Errorf("seed %d: finding: %s %v", seed, f.What, f.Evidence)
				}
				if testing.Verbose() && seed == 0 {
					t.Logf("%d events, %.0fs, %s", len(d.History.Events), j.Run.Seconds, j.Verdict)
					for _, row := range j.SLOs {
						hi := -1.0
						if row.Hi != nil {
							hi = *row.Hi
						}
						t.Logf("%s %s limit %g [%g, %g] n=%d %s: %s", row.Lock, row.Measure, row.Limit, row.Lo, hi, row.N, row.Verdict, row.Why)
					}
				}
				if j.Run.Live {
					t.Error("a rehearsal is judged as a live run")
				}
			}
		})
	}
}

func encoded(t *testing.T, h *history.History) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	if err := enc.Encode(h.Header); err != nil {
		t.Fatal(err)
	}
	for _, e := range h.Events {
		if err := enc.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// The same seed gives the same history, byte for byte, in a fresh world and in one that was used before; another seed another.
func TestSameSeedSameHistory(t *testing.T) {
	e := load(t, "first-drill")
	once := func(r *Rehearser, seed int64) []byte {
		d, err := r.Run(context.Background(), seed)
		if err != nil {
			t.Fatal(err)
		}
		return encoded(t, d.History)
	}
	used := New(e, sim.DefaultNet())
	other := once(used, 8)
	a, b := once(used, 7), once(New(e, sim.DefaultNet()), 7)
	if !bytes.Equal(a, b) {
		t.Error("the same seed gave two histories")
	}
	if bytes.Equal(a, other) {
		t.Error("two seeds gave one history")
	}
}

// Many is the same on any number of cores, and ends when it is told to.
func TestManyIsDeterministicAndEnds(t *testing.T) {
	e := load(t, "cordum-delay-poller")
	all, err := Many(context.Background(), e, sim.DefaultNet(), 40, nil)
	if err != nil {
		t.Fatal(err)
	}
	one := forecast.NewRehearsed(e)
	r := New(e, sim.DefaultNet())
	for seed := range int64(40) {
		d, err := r.Run(context.Background(), seed+1)
		if err != nil {
			t.Fatal(err)
		}
		one.Add(seed+1, analysis.NewJudger(e).Judge(d.History), d.History)
	}
	if !reflect.DeepEqual(all.Document(), one.Document()) {
		t.Errorf("%+v\n%+v", all.Document(), one.Document())
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = Many(ctx, e, sim.DefaultNet(), 1_000_000, func(int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A judgement made in the memory of others is the one that a fresh judge gives, byte for byte, and stays so while others are made.
func TestAJudgerKeepsNothingOfOneHistoryForTheNext(t *testing.T) {
	for _, name := range []string{"first-drill", "redis-failover", "renewal-burst"} {
		e := load(t, name)
		r, judger := New(e, sim.DefaultNet()), analysis.NewJudger(e)
		var kept []*verdict.Judgement
		var fresh [][]byte
		bytesOf := func(j *verdict.Judgement) []byte {
			b, err := j.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		for seed := range int64(5) {
			d, err := r.Run(context.Background(), seed)
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, judger.Judge(d.History))
			fresh = append(fresh, bytesOf(analysis.NewJudger(e).Judge(d.History)))
		}
		for seed, j := range kept {
			if !bytes.Equal(bytesOf(j), fresh[seed]) {
				t.Errorf("%s, seed %d: another judgement", name, seed)
			}
		}
	}
}
