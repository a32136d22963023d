package explore

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// L1 says of a count whether its holder has given up before the store gives the key to another. Of each policy on the grid, with clocks
// that go apart as far as it allows for: where the sum holds, no order of events leaves a holder at work without its lease, and where it
// does not, one does.
func TestTheGiveUpSumAgreesWithEveryInterleaving(t *testing.T) {
	verdicts := map[bool]int{}
	var states int
	for _, every := range []time.Duration{step, 2 * step} {
		for _, op := range []time.Duration{step, 2 * step} {
			for _, drift := range []time.Duration{0, step} {
				for failures := 1; failures <= 3; failures++ {
					p := adjusted(policy(lockcore.LegacyCount), func(p *lockcore.Policy) {
						p.RenewEvery, p.OpTimeout, p.Drift, p.MaxFailures = every, op, drift, failures
					})
					safe := lockcore.GiveUpSum(p) <= p.TTL
					verdicts[safe]++
					f := World{Policy: p, Contenders: 1, Attempts: 1, Drift: true, OwnsWork: true}.Search(24).Run()
					states += f.States
					if safe != (f.Broken == "") || f.Broken != "" && f.Broken != WorkIsOwned {
						t.Errorf("L1 says %t (%s of %s), and exploring says %q: %+v\n%q", safe, lockcore.GiveUpSum(p), p.TTL, f.Broken, p, f.Trace)
					}
				}
			}
		}
	}
	t.Logf("L1 calls %d policies safe and %d not; %d states", verdicts[true], verdicts[false], states)
	if verdicts[true] == 0 || verdicts[false] == 0 {
		t.Error("one side of L1 was never asked")
	}
}
