package drill

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/stores"
)

// A build that has no driver of a kind, or of effects, says which build has it, before anything is touched: run and plan alike.
func TestWhatIsNotBuiltInNamesTheBuildThatHasIt(t *testing.T) {
	kind, err := experiments.Load("../experiments/testdata/etcd.yaml")
	testkit.Must(t, err)
	rows := watchedJobs(t, "127.0.0.1:1", "sql: {driver: postgres, dsn_env: NOT_SET, query: 'SELECT id FROM t WHERE id > $1 ORDER BY id', cursor: id}")
	for says, e := range map[string]*experiments.Experiment{"store.kind etcd: this build has no driver": kind, "effects jobs (query of postgres)": rows} {
		_, planned := Plan(t.Context(), e, Consent{}, nil)
		for by, err := range map[string]error{"run": Authorize(t.Context(), e, Consent{}), "plan": planned} {
			var end *Error
			if !errors.As(err, &end) || end.Status != verdict.ExitUsage || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "-tags full") {
				t.Errorf("%s: %v, want a usage error that says %q and names the build", by, err, says)
			}
		}
	}
}

// What only a write tells of somebody's store is said by a plan, with the shortest lease as the run makes it.
func TestAPlanSaysWhatOnlyAWriteTells(t *testing.T) {
	later := "whether it grants a lease of %s"
	_ = stores.Register(stores.Kind{Name: experiments.StorePostgres, Needs: []string{"no-such-program"}, Later: later})
	e := &experiments.Experiment{TimeScale: 0.5, Store: &experiments.Store{Kind: experiments.StorePostgres, Mode: experiments.StoreExternal}}
	e.System.Locks = []experiments.Lock{{Policy: lockcore.Policy{TTL: 30 * time.Second}}, {Policy: lockcore.Policy{TTL: 10 * time.Second}}}
	if g := storeGuard(e); g.Refuses || !strings.HasSuffix(g.Says, "not known until the run: whether it grants a lease of 5s") {
		t.Errorf("somebody's: %+v", g)
	}
	e.Store.Mode = experiments.StoreSpawn // a run of its own servers sets what they grant
	if g := storeGuard(e); strings.Contains(g.Says, "not known") {
		t.Errorf("the run's: %+v", g)
	}
}
