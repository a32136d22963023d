package kube

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// Lease is a Lease object, as its holder wrote it: the times are its holder's clock.
type Lease struct {
	Name, UID, ResourceVersion string
	Holder                     string // "" = released
	Transitions                int32
	Duration                   time.Duration
	Acquired, Renewed          time.Time
}

// Lease reads a Lease object of the namespace, as it is and not as a cache has it; ok is false where there is none.
func (c *Cluster) Lease(ctx context.Context, name string) (l Lease, ok bool, err error) {
	at, bare := c.at(name)
	o, err := as[coordinationv1.Lease](at.leases().Get(ctx, bare, metav1.GetOptions{}))
	if gone(err) {
		return l, false, nil
	}
	if err != nil {
		return l, false, fmt.Errorf("read lease %s: %w", name, err)
	}
	return leaseOf(o), true, nil
}

// Leases reads all Lease objects of the namespace.
func (c *Cluster) Leases(ctx context.Context) ([]Lease, error) {
	list, err := as[coordinationv1.LeaseList](c.leases().List(ctx, metav1.ListOptions{}))
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	all := make([]Lease, len(list.Items))
	for i := range list.Items {
		all[i] = leaseOf(&list.Items[i])
	}
	return all, nil
}

func leaseOf(o *coordinationv1.Lease) Lease {
	l := Lease{Name: o.Name, UID: string(o.UID), ResourceVersion: o.ResourceVersion}
	s := &o.Spec
	if s.HolderIdentity != nil {
		l.Holder = *s.HolderIdentity
	}
	if s.LeaseTransitions != nil {
		l.Transitions = *s.LeaseTransitions
	}
	if s.LeaseDurationSeconds != nil {
		l.Duration = time.Duration(*s.LeaseDurationSeconds) * time.Second
	}
	if s.AcquireTime != nil {
		l.Acquired = s.AcquireTime.Time
	}
	if s.RenewTime != nil {
		l.Renewed = s.RenewTime.Time
	}
	return l
}

// LeaseChange is one state of a Lease object. It came right after the one that was told before, unless it was listed.
type LeaseChange struct {
	Lease  Lease // where it is there
	There  bool
	Listed bool   // by a list, at the start or where a watch could not be taken up again: of what came before it nothing is known
	list   string // version of that list
}

// Covers reports a list that was made when the object had this version already, or a later one.
func (c *LeaseChange) Covers(version string) bool {
	order, err := resourceversion.CompareResourceVersion(c.list, version)
	return c.Listed && err == nil && order >= 0
}

// WatchLease tells of a Lease object of the namespace as it is, and then of every change of it in order, until ctx ends. A watch that
// is cut goes on where it was, and nothing is lost; where the API server does not know any more what came since, there is a new list.
// heard is called with nil whenever the watch stands, and with the error whenever it breaks.
func (c *Cluster) WatchLease(ctx context.Context, name string, on func(LeaseChange), heard func(error)) {
	c, name = c.at(name)
	version := ""
	keepWatching(ctx, func(stands func()) error {
		err := c.followLease(ctx, name, &version, on, stands)
		if stale(err) {
			version = ""
		}
		return err
	}, heard)
}

// stale reports that the API server knows nothing of the version from which it was to watch: too old, or, of a store that was set back,
// not there yet.
func stale(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// followLease watches from a version on ("" = lists first) until the watch breaks, and leaves in version how far it came. A Role that
// names objects lets these be listed and watched only by a field selector for the name.
func (c *Cluster) followLease(ctx context.Context, name string, version *string, on func(LeaseChange), stands func()) error {
	api := c.leases()
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	if *version == "" {
		list, err := as[coordinationv1.LeaseList](api.List(ctx, options))
		if err != nil {
			return fmt.Errorf("list lease %s: %w", name, err)
		}
		now := LeaseChange{Listed: true, list: list.ResourceVersion}
		if len(list.Items) > 0 {
			now.Lease, now.There = leaseOf(&list.Items[0]), true
		}
		on(now)
		*version = list.ResourceVersion
	}
	options.ResourceVersion, options.AllowWatchBookmarks = *version, true
	w, err := api.Watch(ctx, options)
	if err != nil {
		return fmt.Errorf("watch lease %s: %w", name, err)
	}
	stands()
	err = eachEvent(ctx, w, func(what watch.EventType, o *coordinationv1.Lease) {
		switch what {
		case watch.Bookmark:
		case watch.Deleted:
			on(LeaseChange{})
		default:
			on(LeaseChange{Lease: leaseOf(o), There: true})
		}
		*version = o.ResourceVersion
	})
	return fmt.Errorf("watch lease %s: %w", name, err)
}
