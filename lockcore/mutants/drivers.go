package mutants

import (
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/work"
)

// drivers are mistakes of a worker around a lock that is right.
func drivers() []Mutant {
	stubborn := func(p *lockcore.Policy) {
		p.Class, p.Release.AfterAbandon = lockcore.LegacyCount, lockcore.AfterAbandonSkip
	}
	return []Mutant{
		{Name: "one-token", Told: "token_reused", Does: "uses one token for all that its process acquires",
			Shows: []Show{{Scene: "a replica paused > ttl", Red: "duplicate_epochs"}}, Variant: lockcore.Variant{OneToken: true}},
		{Name: "shared-token", Does: "uses one token in all replicas",
			Shows: []Show{{Scene: "renewals fail, much work", Red: "finding:shared_token duplicate_epochs", Also: "fence_regressions finding:foreign_fence finding:outside_call finding:token_reuse overlap.effect"}}, Variant: lockcore.Variant{SharedToken: true}},
		{Name: "sleepy-leader", Does: "leads, and does a tick at every twentieth poll",
			Shows: []Show{{Scene: "leader killed", Red: "tick_gap.max"}}, Work: work.Wrong{TickEvery: 20}},
		{Name: "slow", Does: "works five times as long as it was asked to",
			Shows: []Show{{Scene: "one renewal fails", Red: "held.max"}}, Work: work.Wrong{Slow: 5}},
		{Name: "no-look", Told: "done_again", Does: "does a finished job again, and leaves it to its storage to refuse it",
			Shows: []Show{{Scene: "kill, others wait", Red: "re_executed"}}, Work: work.Wrong{NoLook: true}},
		{Name: "unfenced-storage", Does: "writes to a storage that compares no fences",
			Shows: []Show{{Scene: "pause > ttl", Red: "duplicate_terminal_states overlap.effect stale_writes", Also: "abandonment.missed fence_lag finding: overlap.work unowned_work"}}, Policy: stubborn, Variant: lockcore.Variant{Unfenced: true}},
		{Name: "late-fence", Does: "fetches the fence when it writes, not when it acquires",
			Shows: []Show{{Scene: "pause > ttl", Red: "finding:foreign_fence", Also: "abandonment.missed duplicate_terminal_states fence_lag finding:equal_fence overlap.effect overlap.work stale_writes unowned_work"}}, Policy: stubborn, Variant: lockcore.Variant{LateFence: true}},
	}
}
