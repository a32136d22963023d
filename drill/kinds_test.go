package drill

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A build that has not registered a kind says which build has it, before anything is touched.
func TestAKindThatIsNotRegisteredNamesTheBuildThatHasIt(t *testing.T) {
	e, err := experiments.Load("../experiments/testdata/etcd.yaml")
	testkit.Must(t, err)
	err = Authorize(t.Context(), e, Consent{})
	var end *Error
	if !errors.As(err, &end) || end.Status != verdict.ExitUsage || !strings.Contains(err.Error(), "store.kind etcd") || !strings.Contains(err.Error(), "-tags full") {
		t.Errorf("Authorize: %v, want a usage error that names the kind and the build", err)
	}
}
