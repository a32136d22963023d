package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/scenarios"
)

// What a plan says of a shipped scenario is what its rehearsal says beside the simulated runs and what the judge prints beside a run, and
// no simulated takeover by a kill speaks against it.
func TestLivePlanRehearsalAndJudgeGiveTheSameFigures(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, info := range scenarios.List() {
		data, _ := scenarios.Get(info.Name)
		e, err := experiments.Parse(info.Name+".yaml", data)
		if err != nil {
			t.Fatal(err)
		}
		rehearsed := try(t, "rehearse", info.Name, "--seeds", "2", "-f", "json")
		if rehearsed.stdout == "" { // such as a system of somebody's own
			continue
		}
		var doc forecast.Rehearsal
		if err := json.Unmarshal([]byte(rehearsed.stdout), &doc); err != nil {
			t.Fatalf("%s: %v", info.Name, err)
		}
		plan, bands := forecast.PlanOf(e), forecast.Bands(e, 0)
		if len(plan.LockSums) != len(doc.Locks) || len(bands) != len(doc.Locks) {
			t.Fatalf("%s: %d, %d and %d locks", info.Name, len(plan.LockSums), len(bands), len(doc.Locks))
		}
		for i, planned := range plan.LockSums {
			l := doc.Locks[i]
			seeds := l.Seeds
			if l.Seeds = nil; !reflect.DeepEqual(planned, l) {
				t.Errorf("%s, %s: the plan says %+v, the rehearsal %+v", info.Name, planned.Lock, planned, l)
			}
			if bands[i].Lo != planned.Takeover.Lo || bands[i].Hi != planned.Takeover.Hi {
				t.Errorf("%s, %s: the plan says %+v, the judge %+v", info.Name, planned.Lock, planned.Takeover, bands[i])
			}
			for k, p := range planned.Promises {
				met := seeds.Met[k].Share
				if met != nil && seeds.Open == 0 && (!p.Luck && *met < 1 || p.Value < planned.Takeover.Lo && *met > 0) {
					t.Errorf("%s, %s: %s %gs, %+v: %g of the simulated takeovers meet it", info.Name, planned.Lock, p.Limit, p.Value, p, *met)
				}
			}
			compared++
		}
	}
	if compared < 20 {
		t.Errorf("%d locks compared", compared)
	}
}
