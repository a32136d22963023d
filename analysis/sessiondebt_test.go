package analysis

import (
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
)

// An acquire without an answer may have left a key taken: in a store of leases until its lease is over, in PostgreSQL as long as its session
// lasts, which is until a look shows that it is free. Here the key was taken at 10 s, nobody looked until 98 s, and the lease is 60 s long.
func TestASessionOwesItsKeyUntilSomebodyLooks(t *testing.T) {
	const name = "lost-acquire-reply-unseen"
	for kind, want := range map[experiments.StoreKind][2]float64{experiments.StoreRedis: {59, 64}, experiments.StorePostgres: {87, 89}} {
		e, err := experiments.Load("../scenarios/testdata/" + name + "/experiment.yaml")
		if err != nil {
			t.Fatal(err)
		}
		h := cases[name]().history(t)
		e.Store = &experiments.Store{Kind: kind}
		j := Judge(e, h)
		for _, r := range j.Rows() {
			if r.Measure != "lock_debt.max" {
				continue
			}
			if r.Hi == nil || *r.Hi < want[0] || *r.Hi > want[1] {
				t.Errorf("%s: the key was owed for up to %v s, want %v", kind, orOpen(r.Hi), want)
			}
		}
	}
}
