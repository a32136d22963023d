package facts

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/anishathalye/porcupine"
)

// claimOf is an epoch as porcupine sees it: an acquire and perhaps a release, each with its bracket.
type claimOf struct {
	acquire, release [2]int64
	released         bool
}

// sure is what the epoch surely held.
func (c claimOf) sure(holder int) stretchOf {
	if !c.released {
		return stretchOf{c.acquire[1], Open, holder}
	}
	return stretchOf{c.acquire[1], c.release[0], holder}
}

// mutexOp is an operation on a mutex that knows its owner.
type mutexOp struct {
	owner   int
	acquire bool
}

// mutex is the model: 0 is free, else the owner + 1.
var mutex = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		op := input.(mutexOp)
		if op.acquire {
			return state == 0, op.owner + 1
		}
		return state == op.owner+1, 0
	},
}

// randomEpochs are a few epochs on one key, mostly one after the other, with brackets that touch, nest and overlap.
func randomEpochs(r *rand.Rand) []claimOf {
	cs := make([]claimOf, 1+r.IntN(6))
	var at int64
	for i := range cs {
		at += r.Int64N(8) - 2
		at = max(at, 0)
		c := claimOf{released: r.IntN(12) > 0}
		c.acquire = [2]int64{at, at + r.Int64N(4)}
		c.release[0] = c.acquire[1] + r.Int64N(6)
		c.release[1] = c.release[0] + r.Int64N(4)
		at = c.release[0]
		cs[i] = c
	}
	r.Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
	return cs
}

// The sweep and porcupine agree: no two epochs surely hold at once iff the history is linearizable to an owner-aware mutex.
func TestSweepAgreesWithPorcupine(t *testing.T) {
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 1))
	good := 0
	for run := range 100_000 {
		cs := randomEpochs(r)
		var ops []porcupine.Operation
		var sure []stretchOf
		for i, c := range cs {
			ops = append(ops, porcupine.Operation{ClientId: i, Input: mutexOp{i, true}, Call: c.acquire[0], Return: c.acquire[1]})
			if c.released {
				ops = append(ops, porcupine.Operation{ClientId: i, Input: mutexOp{i, false}, Call: c.release[0], Return: c.release[1]})
			}
			sure = append(sure, c.sure(i))
		}
		want := porcupine.CheckOperations(mutex, ops)
		a, b, found := collision(sure)
		if found == want {
			t.Fatalf("run %d: porcupine says linearizable=%v, the sweep finds a collision=%v (%d, %d) in %+v", run, want, found, a, b, cs)
		}
		if excess(sure) > 0 && !found {
			t.Fatalf("run %d: excess %d without a collision in %+v", run, excess(sure), cs)
		}
		if want {
			good++
		}
	}
	if good < 10_000 || good > 90_000 {
		t.Errorf("%d of 100000 histories were linearizable: too one-sided to mean much", good)
	}
}

// The integral is the same as adding up second by second.
func TestExcess(t *testing.T) {
	r := rand.New(rand.NewPCG(seedOf(t), 2))
	for range 2000 {
		var ss []stretchOf
		for range r.IntN(8) {
			from := r.Int64N(30)
			ss = append(ss, stretchOf{from, from + r.Int64N(10), r.IntN(4)})
		}
		var want int64
		for at := range int64(50) {
			holders := map[int]bool{}
			for _, s := range ss {
				if s.from <= at && at < s.to {
					holders[s.holder] = true
				}
			}
			want += int64(max(0, len(holders)-1))
		}
		if got := excess(ss); got != want {
			t.Fatalf("excess %d, want %d of %+v", got, want, ss)
		}
	}
	if got := excess([]stretchOf{{0, Open, 0}, {5, Open, 1}}); got != Open {
		t.Errorf("two that never end give %d", got)
	}
	if got := excess([]stretchOf{{0, Open, 0}, {5, 7, 1}}); got != 2 {
		t.Errorf("one that never ends and one of 2 give %d", got)
	}
}

func BenchmarkSweep(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	ss := make([]stretchOf, 1_000_000)
	var at int64
	for i := range ss {
		at += r.Int64N(1e6)
		ss[i] = stretchOf{at, at + r.Int64N(1e6), i}
	}
	b.ReportAllocs()
	for b.Loop() {
		excess(ss)
		collision(ss)
	}
}

// seedOf gives the seed of a property test: new each time, or SEED, to do one again.
func seedOf(t *testing.T) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv("SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SEED=%d", seed)
	return seed
}
