package drill

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/scenarios"
)

// What cannot be rehearsed has no prediction, and says why: a band from another lock or without the fault would be a lie.
func TestNoPredictionWhereThereIsNoRehearsal(t *testing.T) {
	good, _ := scenarios.Get("first-drill")
	load := func(yaml string) *Drill {
		e, err := experiments.Parse("test.yaml", []byte(yaml))
		testkit.Must(t, err)
		return &Drill{loaded: e, e: experiments.Scale(e), net: Network(history.Calibration{RTT50: 2e4, RTT99: 1e5, Timer99: int64(100 * time.Microsecond)})}
	}
	foreign := strings.Replace(string(good), "system:\n", "system:\n  worker: [./their-worker]\n", 1)
	observed, err := os.ReadFile("../scenarios/testdata/pods-observed-lease/experiment.yaml")
	testkit.Must(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		yaml string
		says string
	}{
		{"foreign worker", t.Context(), foreign, "system.worker"},
		{"observed", t.Context(), string(observed), "system.mode observe is not rehearsed"},
		{"interrupted", over, string(good), "interrupted before its rehearsals"},
		{"possible", t.Context(), string(good), ""},
	} {
		p := load(c.yaml).predict(c.ctx)
		if !strings.Contains(p.Why, c.says) || (c.says == "") != (p.Why == "" && p.Seeds > 0 && len(p.Takeovers) > 0) {
			t.Errorf("%s: %+v", c.name, p)
		}
		if err := (&history.Event{Kind: history.RunPrediction, Source: "runner", Prediction: p}).Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
