package main

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// A burst on the way strikes what the file says, is counted there, and its hits name the holder's epoch.
func TestLiveBurstsOnTheWay(t *testing.T) {
	t.Parallel()
	needDrill(t)
	for _, c := range []struct {
		name, fault string
		least       int64
		result      string // of a renewal that was hit
	}{
		{"lost replies by time", "for: 600ms, renew_failures: {holder_of: loop, mode: lost_reply, via: proxy}", 1, history.ResultError},
		{"errors at everyone", "renew_failures: {all: true, mode: error, count: 2, via: proxy}", 2, history.ResultError},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			yaml := edit(t, patient(t, goodDrill), jobLock, "", jobWork, "", killFault, "  - {id: burst, at: 0s, "+c.fault+"}\n", goodSLO, shortSLO)
			o := runDrillIn(t, t.TempDir(), yaml, nil)
			if o.code != verdict.ExitPass {
				t.Fatalf("exit %d\n%s", o.code, o.text)
			}
			h, err := readHistory(o.dir)
			if err != nil {
				t.Fatal(err)
			}
			var hits int64
			failed := map[string]bool{}
			var confirmed *history.Fault
			for _, e := range h.Events {
				switch {
				case e.Kind == history.FaultConfirmed:
					confirmed = e.Fault
				case e.Kind == history.FaultHit:
					hits++
					if e.Lock != "loop" || e.Key != "the-loop" || e.Epoch == "" || e.Source != "runner" || e.Fault.Via != "proxy" {
						t.Errorf("%+v %+v", e, e.Fault)
					}
				case e.Kind == history.RenewReturn:
					failed[e.Epoch] = failed[e.Epoch] || e.Call.Result == c.result
				}
			}
			if !strings.Contains(o.text, "each lock operation sent by itself") {
				t.Errorf("how lock operations were sent is not said\n%s", o.text)
			}
			if confirmed == nil || confirmed.Hits < c.least || hits != confirmed.Hits {
				t.Fatalf("%d hits, confirmed %+v\n%s", hits, confirmed, o.text)
			}
			for _, e := range h.Events {
				if e.Kind == history.FaultHit && c.result != "" && !failed[e.Epoch] {
					t.Errorf("epoch %s was hit, and no renewal of it failed", e.Epoch)
				}
			}
		})
	}
}
