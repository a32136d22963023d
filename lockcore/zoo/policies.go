package zoo

import (
	"math"

	"github.com/lockdrill/lockdrill/lockcore"
)

// policies are mistakes that a team can write into its file.
func policies() []Animal {
	return []Animal{
		{Name: "warn-and-continue", Does: "goes on past its lease, and only logs that",
			Policy: func(p *lockcore.Policy) { p.Class = lockcore.LegacyWarn }},
		{Name: "count-fence", Does: "gives up after N failures, which take longer than its lease lasts",
			Policy: func(p *lockcore.Policy) {
				p.Class, p.MaxFailures, p.RenewJitter = lockcore.LegacyCount, 3, 0
				p.StopBudget = 0
			}},
		{Name: "no-renewal", Does: "never renews a lease that is shorter than its work",
			Policy: func(p *lockcore.Policy) {
				p.Class, p.RenewEvery, p.RenewJitter, p.OpTimeout, p.MaxFailures = lockcore.LegacyWarn, 0, 0, 0, 0
			}},
		{Name: "endless-release", Does: "tries a release until it succeeds, and does nothing else",
			Policy: func(p *lockcore.Policy) {
				p.Release.Mode, p.Release.Attempts = lockcore.ReleaseBoundedRetry, math.MaxInt32
			}},
	}
}
