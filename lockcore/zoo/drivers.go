package zoo

import "github.com/lockdrill/lockdrill/lockcore"

// drivers are mistakes of a worker around a lock that is right.
func drivers() []Animal {
	stubborn := func(p *lockcore.Policy) {
		p.Class, p.Release.AfterAbandon = lockcore.LegacyCount, lockcore.AfterAbandonSkip
	}
	return []Animal{
		{Name: "one-token", Does: "uses one token for all that its process acquires", Variant: lockcore.Variant{OneToken: true}},
		{Name: "unfenced-storage", Does: "writes to a storage that compares no fences", Policy: stubborn, Variant: lockcore.Variant{Unfenced: true}},
		{Name: "late-fence", Does: "fetches the fence when it writes, not when it acquires", Policy: stubborn, Variant: lockcore.Variant{LateFence: true}},
	}
}
