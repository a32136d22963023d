// Package bursttest holds whoever makes operations fail to one model of it: the worker, the proxy and the simulation answer the same
// random sequence of operations, draws and ends in the same way.
//
// It drives a burst by calls alone, and knows nothing of what carries it out. Its one invariant: the model is written a second time
// here, and shares no line with package burst.
package bursttest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// Rig is a burst that somebody has armed.
type Rig interface {
	Begin(c burst.Call) bool // whether the call is hit; it is then held
	Done()                   // the first of the calls that are held comes back
	End()                    // the burst is ended early
	Hits() int64
	Over() bool // it has ended
}

// model is what a burst is meant to do.
type model struct {
	burst.Spec
	draw       func() float64
	hits, held int
	over       bool
}

func (m *model) begin(c burst.Call) bool {
	for _, aim := range [][2]string{{m.Op, c.Op}, {m.Lock, c.Lock}, {m.Key, c.Key}} {
		if aim[0] != "" && aim[0] != aim[1] {
			return false
		}
	}
	if m.over || m.Count != 0 && m.hits == m.Count || len(m.Names) > 0 && !slices.Contains(m.Names, c.Name) {
		return false
	}
	if m.Share != 0 && m.draw() >= m.Share {
		return false
	}
	m.hits++
	m.held++
	return true
}

func (m *model) done() {
	m.held--
	m.over = m.over || m.held == 0 && m.Count != 0 && m.hits == m.Count
}

// Agree plays seeds to whatever arm arms, which takes its draws from draw.
func Agree(t *testing.T, arm func(t *testing.T, s burst.Spec, draw func() float64) Rig) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		any := func(of ...string) string { return of[r.IntN(len(of))] }
		spec := burst.Spec{
			Op: any(burst.Acquire, burst.Renew, burst.Release), Mode: any(burst.Error, burst.Timeout, burst.Delay, burst.LostReply),
			Share: []float64{0, 0.3, 0.8, 1}[r.IntN(4)], Count: []int{0, 1, 2, 5}[r.IntN(4)], For: time.Hour, Key: any("", "", "k1"), Lock: any("", "l"),
		}
		if spec.Mode == burst.Delay {
			spec.Delay = time.Minute
		}
		draws := func() func() float64 { return rand.New(rand.NewPCG(seed, 10)).Float64 }
		want, got := &model{Spec: spec, draw: draws()}, arm(t, spec, draws())
		for step := range 60 {
			what, hit, asked := "", false, false
			switch n := r.IntN(100); {
			case n < 2:
				what, want.over = "end", true
				got.End()
			case n < 40 && want.held > 0:
				what = "done"
				want.done()
				got.Done()
			default:
				c := burst.Call{Op: any(burst.Acquire, burst.Renew, burst.Renew, burst.Release, spec.Op), Lock: "l", Key: any("k1", "k2"), Name: "r1"}
				what, asked, hit = c.Op+" "+c.Key, want.begin(c), got.Begin(c)
				if asked && spec.Mode == burst.Error && hit { // nothing holds what fails at once
					want.done()
					got.Done()
				}
			}
			if hit != asked || got.Hits() != int64(want.hits) || got.Over() != want.over {
				t.Fatalf("seed %d, %+v, step %d (%s): hit %v, %d hits, over %v; want %v, %d, %v",
					seed, spec, step, what, hit, got.Hits(), got.Over(), asked, want.hits, want.over)
			}
		}
	}
}
