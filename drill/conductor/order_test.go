package conductor

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// A fault that comes after another waits for its last shot to settle, and for its delay; one that is together with it begins when it
// does, and meets it. Where the file has them makes no difference, nor does the time at which others begin.
func TestFaultsKeepTheirOrder(t *testing.T) {
	kill := experiments.Fault{ID: "kill", At: time.Second, Spec: &fault.Kill{HolderOf: "loop", Phase: fault.AfterRenew, How: "crash"}, Repeat: experiments.Repeat{Count: 2, Settled: true}}
	pause := experiments.Fault{ID: "pause", After: "kill", Delay: 3 * time.Second, For: 2 * time.Second, Spec: &fault.Pause{Aim: fault.Aim{All: true}}, Repeat: experiments.Repeat{Count: 1, Settled: true}}
	clock := experiments.Fault{ID: "clock", Together: []string{"pause"}, For: time.Second, Spec: &fault.Clock{Aim: fault.Aim{All: true}, Offset: time.Second}, Repeat: experiments.Repeat{Count: 1, Settled: true}}
	last := experiments.Fault{ID: "last", After: "pause", Spec: &fault.Kill{HolderOf: "loop", Phase: fault.AfterRenew, How: "crash"}, Repeat: experiments.Repeat{Count: 1, Settled: true}}
	for _, faults := range [][]experiments.Fault{{kill, pause, clock, last}, {last, clock, pause, kill}} {
		e := loopDrill(1)
		e.Faults, e.Limits.MaxKills = faults, 9
		over := map[string]int64{}
		s := play(t, e, func(s *stage) {
			var fire func(f Fire, body *history.Fault)
			fire = func(f Fire, body *history.Fault) {
				if f.Fault.Traits().Kills {
					s.onFire = nil
					s.shoot(f)
					s.onFire = fire
					return
				}
				s.see(history.Event{Kind: history.FaultConfirmed, Fault: body})
				s.after(f.Fault.For, func() {
					over[f.Fault.ID] = s.now
					at := history.At(s.now)
					s.see(history.Event{Kind: history.FaultReverted, Span: at, Fault: body})
					s.see(history.Event{Kind: history.FaultVerified, Span: at, At: s.now, Fault: body})
				})
			}
			s.onFire = fire
		})
		first, final := map[string]int64{}, map[string]int64{}
		for i, f := range s.fires {
			if first[f.Fault.ID] == 0 {
				first[f.Fault.ID] = s.firedAt[i]
			}
			final[f.Fault.ID] = s.firedAt[i]
		}
		if len(s.fires) != 5 {
			t.Fatalf("%d shots", len(s.fires))
		}
		if first["pause"] < final["kill"]+int64(3*time.Second) || first["pause"] > final["kill"]+int64(8*time.Second) {
			t.Errorf("the pause came at %d, the last kill at %d", first["pause"], final["kill"])
		}
		if apart := first["clock"] - first["pause"]; apart < -2 || apart > 2 {
			t.Errorf("%dns between what is together", apart)
		}
		if first["last"] < over["pause"] {
			t.Errorf("the last kill came at %d, what it is after ended at %d", first["last"], over["pause"])
		}
	}
}
