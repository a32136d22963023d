package drill

import (
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
)

// While somebody's own Sentinels or cluster make another primary, the store is not lost; one server that is gone is.
func TestAFailOverIsNoLoss(t *testing.T) {
	for name, c := range map[string]struct {
		redis experiments.Redis
		waits bool
	}{
		"one server": {experiments.Redis{}, false},
		"cluster":    {experiments.Redis{Cluster: true}, true},
		"Sentinels":  {experiments.Redis{Sentinel: &experiments.Sentinel{}}, true},
	} {
		s := pair{Drill: &Drill{e: &experiments.Experiment{Redis: c.redis}}}
		if got := s.mayBeAway(); (got > 0) != c.waits {
			t.Errorf("%s: may be away for %s", name, got)
		}
	}
}
