package analysis

import (
	"testing"

	"github.com/lockdrill/lockdrill/history"
)

// lookBack is a look whose one before lies that far back.
func (t *tape) lookBack(at, before float64, w want, id string, pttl float64) {
	t.look(at, w, id, pttl)
	t.events[len(t.events)-1].Look.Prev = &history.Span{From: ns(before), To: ns(before + ms)}
}

// Between two looks grants come and go. From looks alone the first one after a fault may be any since the last look before; claims that
// fill the stretch, and effects, say which it was. The truth is b's grant, 4.5 s after the kill.
func TestGrantsBetweenLooks(t *testing.T) {
	for _, c := range []struct {
		name    string
		blind   func(*tape)
		lo, hi  float64
		effects bool
	}{
		{"claims fill the stretch", func(tp *tape) {
			tp.grant(7.5, "r2.1", leader, "b", 2)
			tp.release(8, "b")
			tp.grant(20, "r3.1", leader, "c", 3)
		}, 4.499, 4.502, false},
		{"an acquire has no answer", func(tp *tape) {
			tp.lostGrant(7.5, "r2.1", leader, "b")
			tp.grant(20, "r3.1", leader, "c", 3)
		}, 3, 17.002, false},
		{"an acquire has no answer, and was not sent in it", func(tp *tape) {
			tp.lostGrant(50, "r2.1", leader, "b")
			tp.grant(7.5, "r3.1", leader, "c", 3)
			tp.renew(12, "c")
			tp.renew(17, "c")
			tp.renew(22, "c")
			tp.renew(27, "c")
			tp.renew(32, "c")
			tp.renew(37, "c")
			tp.renew(42, "c")
		}, 4.499, 4.502, false},
		{"somebody else dies in it", func(tp *tape) {
			tp.grant(20, "r3.1", leader, "c", 3)
			tp.grant(20, "r4.1", want{"job", "drill:job:1", 6}, "d", 4)
			tp.kill(21, "kill#2", "random", "d")
		}, 3, 17.002, false},
		{"nobody claims it", func(tp *tape) { tp.refuse(7.3, "r2.1", leader, "a") }, 0.099, 42.01, false},
		{"a takeover that ends with an effect keeps the ledger's bound", func(tp *tape) {
			tp.lostGrant(7.5, "r2.1", leader, "b")
			tp.grant(20, "r3.1", leader, "c", 3)
			tp.tick(20.01, 0.01, "c", "leader")
		}, 17.009, 17.02, true},
	} {
		ix := faulted(t, func(tp *tape) {
			tp.grant(1, "r1.1", leader, "a", 1)
			tp.look(1.003, leader, "a", 6)
			tp.kill(3, "kill#1", "random", "a")
			c.blind(tp)
			tp.lookBack(45, 3.1, leader, "c", 3)
		})
		s := ix.shot(t, "kill#1")
		if len(s.Trials) != 1 {
			t.Errorf("%s: %d trials", c.name, len(s.Trials))
			continue
		}
		v := s.Trials[0].Takeover()
		if v.Censored || v.Lo < c.lo-0.003 || v.Lo > c.lo+1.01 && c.hi-c.lo > 1 || v.Hi == nil || *v.Hi > c.hi+0.003 || c.hi-c.lo < 1 && v.Lo > c.hi || (v.End == "effect") != c.effects {
			t.Errorf("%s: [%g, %g] ended by %s, want [%g, %g]", c.name, v.Lo, *v.Hi, v.End, c.lo, c.hi)
		}
		if !c.effects && (v.Lo > 4.5 || *v.Hi < 4.5) {
			t.Errorf("%s: [%g, %g] does not contain 4.5", c.name, v.Lo, *v.Hi)
		}
	}
}
