package facts

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// A series of 100 values between 10 s and 20 s: each end is uncertain by a tenth of the width and by the machine's noise.
func predictionOf(hi *int64) *Facts {
	return &Facts{
		Cal: history.Calibration{RTT99: 1e6, Timer99: 2e6, Expiry: 3e6},
		prediction: &history.Event{N: 3, Prediction: &history.Prediction{Seeds: 50, Takeovers: []history.Predicted{
			{Lock: "l", Class: verdict.ClassCrash, Values: 100, Lo: 10e9, P50: 15e9, P95: 20e9, Hi: hi}}}},
	}
}

func TestTakeoversOutsideThePrediction(t *testing.T) {
	at := func(s float64) *float64 { return &s }
	twenty := int64(20e9)
	for _, c := range []struct {
		name    string
		hi      *int64
		t       verdict.Takeover
		outside string
	}{
		{"inside", &twenty, verdict.Takeover{Lo: 12, Hi: at(12.1)}, ""},
		{"within the margin above", &twenty, verdict.Takeover{Lo: 21, Hi: at(21.1)}, ""},
		{"surely above", &twenty, verdict.Takeover{Lo: 21.02, Hi: at(21.1)}, "longer"},
		{"perhaps above", &twenty, verdict.Takeover{Lo: 20.5, Hi: at(40)}, ""},
		{"within the margin below", &twenty, verdict.Takeover{Lo: 8.9, Hi: at(8.995)}, ""},
		{"surely below", &twenty, verdict.Takeover{Lo: 8.9, Hi: at(8.98)}, "shorter"},
		{"not seen to end, already too long", &twenty, verdict.Takeover{Lo: 22, Censored: true}, "longer"},
		{"not seen to end, not yet too long", &twenty, verdict.Takeover{Lo: 3, Censored: true}, ""},
		{"no upper end", nil, verdict.Takeover{Lo: 100, Hi: at(101)}, ""},
		{"no upper end, below", nil, verdict.Takeover{Lo: 1, Hi: at(2)}, "shorter"},
	} {
		ix := predictionOf(c.hi)
		c.t.Lock, c.t.Class, c.t.Fault, c.t.Evidence = "l", verdict.ClassCrash, "kill#1", []int64{7}
		got, outside := ix.Predicted([]verdict.Takeover{c.t})
		if len(got) != 1 || (got[0].Outside == 1) != (c.outside != "") {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		switch {
		case c.outside == "" && len(outside) == 0:
		case len(outside) != 1, !strings.Contains(outside[0].What, c.outside), outside[0].Evidence[0] != 3:
			t.Errorf("%s: findings %+v", c.name, outside)
		}
	}
}

// Another class, another lock, and what no fault of the run brought about are not what was predicted.
func TestPredictionsAreForTheirSeriesOnly(t *testing.T) {
	far, twenty := 99.0, int64(20e9)
	ix := predictionOf(&twenty)
	got, outside := ix.Predicted([]verdict.Takeover{
		{Lock: "l", Class: verdict.ClassPause, Fault: "p#1", Lo: 98, Hi: &far},
		{Lock: "other", Class: verdict.ClassCrash, Fault: "k#1", Lo: 98, Hi: &far},
		{Lock: "l", Class: verdict.ClassCrash, Lo: 98, Hi: &far},
	})
	if got[0].Outside != 0 || len(outside) != 0 {
		t.Errorf("%+v %+v", got, outside)
	}
}

// A renewal that the machine made late leaves less of the lease to whoever waits for its end: that is no wonder. One that came in time does.
func TestALateRenewalMakesATakeoverShort(t *testing.T) {
	short, twenty := 8.0, int64(20e9)
	for waited, outside := range map[string]int{"r1.1": 0, "r2.1": 1} {
		ix := predictionOf(&twenty)
		e := &Epoch{Key: "k", Lock: "l", Replica: "r1.1"}
		ix.Exp = &experiments.Experiment{System: experiments.System{Locks: []experiments.Lock{{Name: "l", Policy: lockcore.Policy{TTL: 10 * time.Second}}}}}
		ix.env = &history.Environment{Fleet: history.FleetProcesses}
		ix.Keys = map[string]*Key{"k": {Loop: true}}
		ix.Shots = []*Shot{{Op: "kill#1", Trials: []*Trial{{E: e, Start: history.Span{From: 100e9, To: 100e9}}}}}
		ix.late = []lateStretch{{history.Span{From: 95e9, To: 97e9}, history.Late{Stall: 2e9, Waits: map[string]int64{waited: 2e9}}}}
		got, _ := ix.Predicted([]verdict.Takeover{{Lock: "l", Key: "k", Class: verdict.ClassCrash, Fault: "kill#1", Lo: 7.9, Hi: &short}})
		if got[0].Outside != outside {
			t.Errorf("%s waited for a processor: %d outside, want %d", waited, got[0].Outside, outside)
		}
	}
}
