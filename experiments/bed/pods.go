package bed

import (
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// PodsOptions say which pods a fleet is made of, and who is told of them.
type PodsOptions struct {
	Cluster   *kube.Cluster     //
	Selector  map[string]string // labels of the pods
	Container string            // the one whose lives are replicas; "" = each pod's first
	Clock     func() int64      // ns since the run's origin

	// OnEvent gets replica.start, replica.ready, replica.exit, the object events of pods and, from a PodFleet, the claims. It is called
	// one at a time over the whole fleet, and may call Send, but neither Start nor Stop.
	OnEvent func(history.Event)
	// OnLine gets each line of a replica's log, once, without its end; the line was written within the span, as far as is known. Lines of
	// a life that is not seated yet come when it is. It is called one at a time over the whole fleet. nil = nobody reads logs.
	OnLine func(incarnation string, line []byte, at history.Span)
	// OnCut is told of each stretch in which a living replica's log was not followed. nil = nobody asks.
	OnCut func(incarnation string, gap history.Span)
}
