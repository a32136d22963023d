//go:build !full

package drill

import "github.com/lockdrill/lockdrill/experiments"

// addHeavyKinds adds nothing: their drivers weigh much, and this build has none of them.
func addHeavyKinds(map[experiments.StoreKind]storeKind) {}
