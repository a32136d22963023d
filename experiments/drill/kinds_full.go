//go:build full

package drill

import "github.com/lockdrill/lockdrill/experiments"

// addHeavyKinds adds those whose drivers weigh much.
func addHeavyKinds(map[experiments.StoreKind]storeKind) {}
