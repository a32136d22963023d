// Package lease is the Lease objects of a Kubernetes namespace as a store of locks, which is always somebody's: the keys of a run, and
// watches of them, or of objects that are locks of an observed system.
//
// The API server ends no lease: each contender counts it by its own clock. Its one invariant: an object is deleted only as long as it is that
// of the epoch that was meant.
package lease

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores"
)

// Kind is the kind lease.
var Kind = stores.Kind{Name: experiments.StoreLease, Open: open}

// PrefixOf is what the keys of a run begin with that are Lease objects: the beginning of a name, which takes no capitals and no colons.
func PrefixOf(run string) string { return "lockdrill." + strings.ToLower(run) + "." }

// store is the Lease objects of a namespace that is somebody's. What the run leaves there goes with its turn: see PodStand.
type store struct {
	cluster *kube.Cluster
	prefix  string
	info    history.StoreInfo
	ended   sync.Map // by name: the UID of the object that was deleted last
}

// open takes the namespace of the ground's cluster, whose turn the run has.
func open(ctx context.Context, g *stores.Ground) (stores.Store, error) {
	version, err := g.Cluster.Version(ctx)
	if err != nil {
		return nil, err
	}
	s := &store{cluster: g.Cluster, prefix: PrefixOf(g.Run), info: history.StoreInfo{Kind: "external", Version: "Kubernetes " + version}}
	s.info.RunID, err = g.Cluster.NamespaceUID(ctx)
	return s, err
}

func (s *store) About() history.StoreInfo { return s.info }

func (s *store) Endpoint() protocol.Endpoint {
	c := s.cluster
	return protocol.Endpoint{Kind: protocol.KindLease, Addr: c.Server(), Prefix: s.prefix, Kubeconfig: c.Kubeconfig, Context: c.Context, Namespace: c.Namespace}
}

func (s *store) Where() undo.Store {
	return undo.Store{Kind: protocol.KindLease, Addr: s.cluster.Server()}
}

// Holder is the object of a key that somebody holds.
func (s *store) Holder(ctx context.Context, key string) (name, epoch, token string, err error) {
	all, err := s.cluster.Leases(ctx)
	i := slices.IndexFunc(all, func(l kube.Lease) bool { return l.Key == key && l.Holder != "" })
	if err != nil || i < 0 {
		return "", "", "", err
	}
	return all[i].Name, epochOf(&all[i]), "", nil
}

func epochOf(l *kube.Lease) string { return protocol.LeaseEpoch(l.Holder, l.Transitions, l.Acquired) }

// deleteTries is how often a Lease is deleted that is renewed meanwhile.
const deleteTries = 8

// End deletes the object while it is that epoch's; none = it is no more.
func (s *store) End(ctx context.Context, name, epoch string) (none bool, err error) {
	for range deleteTries {
		l, there, err := s.cluster.Lease(ctx, name)
		if err != nil || !there || epochOf(&l) != epoch {
			return err == nil, err
		}
		if done, err := s.cluster.DeleteLease(ctx, l); err != nil || done {
			s.ended.Store(name, l.UID)
			return false, err
		}
	}
	return false, fmt.Errorf("delete lease %s: it was changed %d times meanwhile", name, deleteTries)
}

// Lives reports, after End, whether the object is still that epoch's. A holder that has lost its object makes another, with the same times.
func (s *store) Lives(ctx context.Context, name, epoch string) (bool, error) {
	l, there, err := s.cluster.Lease(ctx, name)
	uid, ended := s.ended.Load(name)
	return there && epochOf(&l) == epoch && (!ended || uid == l.UID), err
}

// Mark does nothing: the namespace's UID goes with the data.
func (*store) Mark(context.Context) error { return nil }

func (s *store) Life(ctx context.Context) (uid string, marker bool, err error) {
	uid, err = s.cluster.NamespaceUID(ctx)
	return uid, uid == s.info.RunID, err
}

func (*store) Close(context.Context) error { return nil }

// RoundTrip implements stores.Store.
func (s *store) RoundTrip(ctx context.Context) error {
	_, _, err := s.cluster.Lease(ctx, s.prefix+"marker")
	return err
}

// Watch implements stores.Store.
func (s *store) Watch(clock func() int64) (stores.Watch, error) {
	return NewKeys(s.cluster, s.prefix, clock), nil
}
