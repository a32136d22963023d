package testbed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// LeasesOf is what the keys of a run begin with that are Lease objects: the beginning of a name, which takes no capitals and no colons.
func LeasesOf(run string) string { return "lockdrill." + strings.ToLower(run) + "." }

// leaseStore is the Lease objects of a namespace that is somebody's. What the run leaves there goes with its turn: see PodStand.
type leaseStore struct {
	notOurs
	cluster *kube.Cluster
	prefix  string
	info    history.StoreInfo
	ended   sync.Map // by name: the UID of the object that was deleted last
}

// OpenLeases takes the namespace of Options.Cluster, whose turn the run has.
func OpenLeases(ctx context.Context, g *Ground) (LockStore, error) {
	version, err := g.Cluster.Version(ctx)
	if err != nil {
		return nil, err
	}
	s := &leaseStore{cluster: g.Cluster, prefix: LeasesOf(g.Run), info: history.StoreInfo{Kind: "external", Version: "Kubernetes " + version}}
	s.info.RunID, err = g.Cluster.NamespaceUID(ctx)
	return s, err
}

func (s *leaseStore) About() history.StoreInfo { return s.info }

func (s *leaseStore) Endpoint() protocol.Endpoint {
	c := s.cluster
	return protocol.Endpoint{Kind: protocol.KindLease, Addr: c.Server(), Prefix: s.prefix, Kubeconfig: c.Kubeconfig, Context: c.Context, Namespace: c.Namespace}
}

func (s *leaseStore) Where() undo.Store {
	return undo.Store{Kind: protocol.KindLease, Addr: s.cluster.Server()}
}

// Holder is the object of a key that somebody holds.
func (s *leaseStore) Holder(ctx context.Context, key string) (name, epoch, token string, err error) {
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
func (s *leaseStore) End(ctx context.Context, name, epoch string) (none bool, err error) {
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
func (s *leaseStore) Lives(ctx context.Context, name, epoch string) (bool, error) {
	l, there, err := s.cluster.Lease(ctx, name)
	uid, ended := s.ended.Load(name)
	return there && epochOf(&l) == epoch && (!ended || uid == l.UID), err
}

// Mark does nothing: the namespace's UID goes with the data.
func (*leaseStore) Mark(context.Context) error { return nil }

func (s *leaseStore) Life(ctx context.Context) (uid string, marker bool, err error) {
	uid, err = s.cluster.NamespaceUID(ctx)
	return uid, uid == s.info.RunID, err
}

func (*leaseStore) Close(context.Context) error { return nil }

func (s *leaseStore) roundTrip(ctx context.Context) error {
	_, _, err := s.cluster.Lease(ctx, s.prefix+"marker")
	return err
}

// expiryLateness: the API server ends no lease. Each contender counts it by its own clock, which a drill does not shrink either way.
func (*leaseStore) expiryLateness(context.Context) (time.Duration, error) { return 0, nil }
