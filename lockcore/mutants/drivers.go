package mutants

import "github.com/lockdrill/lockdrill/lockcore"

// drivers are mistakes of a worker around a lock that is right.
func drivers() []Mutant {
	stubborn := func(p *lockcore.Policy) {
		p.Class, p.Release.AfterAbandon = lockcore.LegacyCount, lockcore.AfterAbandonSkip
	}
	return []Mutant{
		{Name: "one-token", Does: "uses one token for all that its process acquires",
			Shows: []Show{{Scene: "a replica paused > ttl", Red: "duplicate_epochs"}}, Variant: lockcore.Variant{OneToken: true}},
		{Name: "unfenced-storage", Does: "writes to a storage that compares no fences",
			Shows: []Show{{Scene: "pause > ttl", Red: "duplicate_terminal_states overlap.effect", Also: "abandonment.missed fence_lag finding: overlap.work unowned_work"}}, Policy: stubborn, Variant: lockcore.Variant{Unfenced: true}},
		{Name: "late-fence", Does: "fetches the fence when it writes, not when it acquires",
			Shows: []Show{{Scene: "pause > ttl", Red: "finding:foreign_fence", Also: "abandonment.missed duplicate_terminal_states fence_lag finding:equal_fence overlap.effect overlap.work unowned_work"}}, Policy: stubborn, Variant: lockcore.Variant{LateFence: true}},
	}
}
