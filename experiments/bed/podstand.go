package bed

import (
	"context"
	"errors"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// PodStandOptions say what a run makes in a namespace.
type PodStandOptions struct {
	Cluster    *kube.Cluster
	Run        string
	Experiment string
	Folder     string        // of the run, absolute: shown to whoever wants to run there as well
	Manifests  [][]byte      // YAML; the kinds that kube.ParseManifests takes. None = only the run's turn is taken (pods: use)
	Journal    *undo.Journal // written before the first change; nil = nowhere
}

// PodStand is what a run has in a namespace: its turn (one run at a time), and the objects that it applied.
type PodStand struct{}

// ApplyPods takes the namespace's turn and applies the manifests, each labelled as this run's. It touches nothing where an object of the
// same name is there that is not this run's (an error), or another run has the namespace (a HeldError). On an error nothing is left.
// The caller closes it.
func ApplyPods(ctx context.Context, o PodStandOptions) (*PodStand, error) {
	return nil, errors.New("not there yet")
}

// Held fails once the namespace's turn is another run's: the drill is over then.
func (s *PodStand) Held() error { return nil }

// Close removes what is still this run's, and verifies that it is gone, its pods too. It may be called again.
func (s *PodStand) Close(ctx context.Context) error { return nil }

// EndPods undoes a record of StandPods, from any process that reaches the cluster: every object that is still the run's is removed, and
// that they and the run's pods are gone is verified.
func EndPods(ctx context.Context, r undo.Record) error { return errors.New("not there yet") }
