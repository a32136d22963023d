package drill

import (
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/stores"
)

// kindOf is the kind of an experiment's store. A usage error names the build that has it.
func kindOf(e *experiments.Experiment) (stores.Kind, error) {
	kind, err := stores.Of(e.StoreKind())
	if err != nil {
		err = usagef("%s: %w", e.Name, err)
	}
	return kind, err
}
