package sim

import (
	"testing"

	"github.com/lockdrill/lockdrill/internal/testkit/bursttest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// burstRig is a burst in a replica of a world, or on its way; its callers have gone, so that nothing follows from a call but the hit.
type burstRig struct {
	w     *World
	r     *replica
	b     *Burst
	calls []*call // that are held
}

func (r *burstRig) Begin(c burst.Call) bool {
	made := &call{Call: lockcore.Call{Op: lockcore.Op(c.Op)}, closed: true,
		lease: &lease{w: r.w, r: r.r, lock: &Lock{Name: c.Lock}, key: &keyState{name: c.Key}}}
	a := r.r.strike(made)
	if a == nil {
		return false
	}
	made.struck(a)
	r.calls = append(r.calls, made)
	return true
}

func (r *burstRig) Done() {
	r.calls[0].released()
	r.calls = r.calls[1:]
	r.w.Advance(r.w.Now())
}

func (r *burstRig) End() {
	r.b.End("early")
	r.w.Advance(r.w.Now())
}

func (r *burstRig) Hits() int64 { return r.b.Hits() }
func (r *burstRig) Over() bool  { return r.b.Ended() }

func TestASimulatedBurstAgreesWithTheModel(t *testing.T) {
	for _, in := range []string{"r1.1", ""} {
		bursttest.Agree(t, func(t *testing.T, s burst.Spec, draw func() float64) bursttest.Rig {
			w := New(Config{Net: DefaultNet()})
			w.Start("r1", "r1.1")
			b, err := w.Arm(in, Arm{Spec: s, Shot: "b#1"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			b.a.Burst = burst.New(s, draw)
			return &burstRig{w: w, r: w.replicas["r1.1"], b: b}
		})
	}
}
