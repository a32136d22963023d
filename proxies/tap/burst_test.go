package tap

import (
	"testing"

	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/testkit/bursttest"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// burstRig is a burst at the tap; each call that it hits has a connection of its own.
type burstRig struct {
	t     *Tap
	a     *Armed
	conns []*conn // that are held
}

func (r *burstRig) Begin(c burst.Call) bool {
	conn := &conn{t: r.t}
	if r.t.Strike(c.Name, conn, &Operation{Op: c.Op, Keys: [][]byte{[]byte(c.Key)}}) == nil {
		return false
	}
	if r.a.Mode != burst.Error { // the tap holds nothing of what fails at once
		r.conns = append(r.conns, conn)
	}
	return true
}

func (r *burstRig) Done() {
	if len(r.conns) > 0 {
		r.t.Release(r.a, r.conns[0])
		r.conns = r.conns[1:]
	}
}

func (r *burstRig) End()        { r.t.End("b", "early") }
func (r *burstRig) Hits() int64 { return r.a.status().Hits }
func (r *burstRig) Over() bool  { return r.a.status().State == burst.Ended }

func TestTheTapsBurstAgreesWithTheModel(t *testing.T) {
	bursttest.Agree(t, func(t *testing.T, s burst.Spec, draw func() float64) bursttest.Rig {
		tap := New(Options{Clock: monotime.Now})
		t.Cleanup(func() { _ = tap.Close() })
		f := Fault{ID: "b", Op: s.Op, Mode: s.Mode, Count: s.Count, Share: s.Share, For: s.For, Delay: s.Delay, Names: s.Names, Key: s.Key}
		if _, err := tap.Inject(f); err != nil {
			t.Fatal(err)
		}
		a := tap.find("b")
		a.burst = burst.New(f.spec(), draw)
		return &burstRig{t: tap, a: a}
	})
}
