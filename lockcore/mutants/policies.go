package mutants

import (
	"math"

	"github.com/lockdrill/lockdrill/lockcore"
)

// policies are mistakes that a team can write into its file.
func policies() []Mutant {
	return []Mutant{
		{Name: "warn-and-continue", Does: "goes on past its lease, and only logs that",
			Shows:  []Show{{Scene: "renewals fail > ttl", Red: "unowned_work fence_lag", Also: "abandonment.missed not_owned.release not_owned.renew overlap.belief overlap.work"}},
			Policy: func(p *lockcore.Policy) { p.Class = lockcore.LegacyWarn }},
		{Name: "count-fence", Does: "gives up after N failures, which take longer than its lease lasts",
			Shows: []Show{{Scene: "black hole", Red: "overlap.belief", Also: "abandonment.late abandonment.missed fence_lag overlap.work unowned_work"}},
			Policy: func(p *lockcore.Policy) {
				p.Class, p.MaxFailures, p.RenewJitter = lockcore.LegacyCount, 3, 0
				p.StopBudget = 0
			}},
		{Name: "no-renewal", Does: "never renews a lease that is shorter than its work",
			Shows: []Show{{Scene: "slow store", Red: "overlap.work not_owned.release", Also: "abandonment.missed fence_lag overlap.belief overlap.effect stranded unowned_work"}},
			Policy: func(p *lockcore.Policy) {
				p.Class, p.RenewEvery, p.RenewJitter, p.OpTimeout, p.MaxFailures = lockcore.LegacyWarn, 0, 0, 0, 0
			}},
		{Name: "nervous", Does: "gives up at the first renewal that fails",
			Shows:  []Show{{Scene: "one renewal fails", Red: "abandonments abandonment.needless"}},
			Policy: func(p *lockcore.Policy) { p.MaxFailures = 1 }},
		{Name: "one-release", Does: "tries a release once",
			Shows:  []Show{{Scene: "one release fails", Red: "failed_releases.given_up", Also: "lock_debt.max"}},
			Policy: func(p *lockcore.Policy) { p.Release.Mode = lockcore.ReleaseSingle }},
		{Name: "impatient", Does: "waits for a quarter of the time that it was given",
			Shows:  []Show{{Scene: "kill, others wait", Red: "busy.count"}},
			Policy: func(p *lockcore.Policy) { p.Acquire.Budget /= 4 }},
		{Name: "dozing-waiter", Does: "asks again after fifty times the pause that it was given",
			Shows:  []Show{{Scene: "kill, others wait", Red: "wait.p50", Also: "wait.max"}},
			Policy: func(p *lockcore.Policy) { p.Acquire.Backoff.Every *= 50 }},
		{Name: "endless-release", Does: "tries a release until it succeeds, and does nothing else",
			Shows: []Show{{Scene: "releases fail", Red: "blocked", Also: "not_owned.release"}},
			Policy: func(p *lockcore.Policy) {
				p.Release.Mode, p.Release.Attempts = lockcore.ReleaseBoundedRetry, math.MaxInt32
			}},
	}
}
