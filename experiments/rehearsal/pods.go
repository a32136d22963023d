package rehearsal

import (
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// podsApart is how far apart pods begin to work that are asked for at once: they are scheduled, pulled and started one by one.
const podsApart = 2 * time.Second

// apart is how much later than a process a pod begins. It differs from pod to pod, and with it the moment of a lease at which a fault
// strikes whose time counts from when all of them are there: processes begin together, and it is nearly always the same moment.
func (d *drill) apart() time.Duration {
	if d.e.Kubernetes == nil {
		return 0
	}
	most := min(podsApart, d.e.SteadyState.Timeout/4)
	return time.Duration(d.w.Random(int64(most) + 1))
}

// Unable says why no drill of e can be rehearsed; "" = one can.
func Unable(e *experiments.Experiment) string {
	if e.Observed() {
		return "system.mode observe is not rehearsed: the replicas are somebody's own, and nothing is known of how they take their locks; write the same policy into a file of mode embedded"
	}
	if !e.Leases() {
		return "store.kind postgres is not rehearsed: locks there have no lease, and nothing but leases is simulated; run the drill live"
	}
	return ""
}
