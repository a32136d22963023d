package bed

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// PodFleetOptions say how workers in pods are led.
type PodFleetOptions struct {
	Pods  PodsOptions
	Redis *redis.Options // of the ledger's store, which carries commands and events
	Fleet string         // the workers' --fleet: the run's id where the run applies them, else the experiment's name
	// Wanted says whether the run itself ended an incarnation: by a fault, or because the drill is over. It is asked when the end is told.
	Wanted func(incarnation string) bool
}

// PodFleet runs replicas on workers in pods, which somebody else starts: a Deployment of this run's, or one that is there. It
// implements runner.Fleet, and is safe for concurrent use.
type PodFleet struct{}

// NewPodFleet begins to watch the pods and to listen to their workers. Its owner calls Stop.
func NewPodFleet(PodFleetOptions) *PodFleet { return &PodFleet{} }

// Start seats the next worker that has said hello, or the next that will: it does not wait. The replica that it returns has no
// incarnation: the fleet itself tells replica.start, as soon as the worker is there and has been told who it is.
func (f *PodFleet) Start(context.Context, protocol.Configure) (history.Replica, history.Span, error) {
	return history.Replica{}, history.Span{}, errors.New("not there yet")
}

// Send queues a command for a replica. It never waits: ErrBacklog, ErrDead as of a Fleet.
func (f *PodFleet) Send(incarnation string, c protocol.Command) error {
	return errors.New("not there yet")
}

// Stop tells every replica to finish and waits until each life is seen to be over, or ctx ends; then it ends the watch and removes what
// the fleet has in the ledger's store. The pods stay: their containers live on to the next drill, until their Deployment goes.
func (f *PodFleet) Stop(ctx context.Context) error { return errors.New("not there yet") }

// Lives lists the lives that have been seen and are not seen to be over.
func (f *PodFleet) Lives() []PodLife { return nil }
