//go:build full

package worker

// addHeavyKinds adds those whose drivers weigh much.
func addHeavyKinds(map[string]connector) {}
