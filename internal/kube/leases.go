package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// keyAnnotation is where lockcore/leasestore says which key an object is: not every key is a name of objects.
const keyAnnotation = "lockdrill.dev/key"

// Lease is a Lease object, as its holder wrote it: the times are its holder's clock.
type Lease struct {
	Name, UID, ResourceVersion string
	Key                        string // of the lock: what the object says of that, or its name
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

// DeleteLease removes a Lease object of the namespace as it was read; done is false where it was changed or removed since.
func (c *Cluster) DeleteLease(ctx context.Context, l Lease) (done bool, err error) {
	uid := types.UID(l.UID)
	err = c.leases().Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &l.ResourceVersion}})
	if gone(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete lease %s: %w", l.Name, err)
	}
	return true, nil
}

func leaseOf(o *coordinationv1.Lease) Lease {
	l := Lease{Name: o.Name, UID: string(o.UID), ResourceVersion: o.ResourceVersion, Key: cmp.Or(o.Annotations[keyAnnotation], o.Name)}
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
// heard is called with nil whenever the watch stands, and with the error whenever it breaks. A Role that names objects lets these be
// listed and watched only by a field selector for the name.
func (c *Cluster) WatchLease(ctx context.Context, name string, on func(LeaseChange), heard func(error)) {
	c, name = c.at(name)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	c.watchLeases(ctx, "lease "+name, selector, func(there []LeaseChange, absent LeaseChange) { on(append(there, absent)[0]) }, on, heard)
}

// WatchLeases is WatchLease for all Lease objects of the namespace. listed is called with those of a list, and with what that list says
// of any other.
func (c *Cluster) WatchLeases(ctx context.Context, listed func(there []LeaseChange, absent LeaseChange), on func(LeaseChange), heard func(error)) {
	c.watchLeases(ctx, "leases", "", listed, on, heard)
}

func (c *Cluster) watchLeases(ctx context.Context, what, selector string, listed func([]LeaseChange, LeaseChange), on func(LeaseChange), heard func(error)) {
	version := ""
	keepWatching(ctx, func(stands func()) error {
		err := c.followLeases(ctx, what, selector, &version, listed, on, stands)
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

// followLeases watches from a version on ("" = lists first) until the watch breaks, and leaves in version how far it came.
func (c *Cluster) followLeases(ctx context.Context, what, selector string, version *string, listed func([]LeaseChange, LeaseChange), on func(LeaseChange), stands func()) error {
	api := c.leases()
	options := metav1.ListOptions{FieldSelector: selector}
	if *version == "" {
		list, err := as[coordinationv1.LeaseList](api.List(ctx, options))
		if err != nil {
			return fmt.Errorf("list %s: %w", what, err)
		}
		var there []LeaseChange
		for i := range list.Items {
			there = append(there, LeaseChange{Lease: leaseOf(&list.Items[i]), There: true, Listed: true, list: list.ResourceVersion})
		}
		listed(there, LeaseChange{Listed: true, list: list.ResourceVersion})
		*version = list.ResourceVersion
	}
	options.ResourceVersion, options.AllowWatchBookmarks = *version, true
	w, err := api.Watch(ctx, options)
	if err != nil {
		return fmt.Errorf("watch %s: %w", what, err)
	}
	stands()
	err = eachEvent(ctx, w, func(kind watch.EventType, o *coordinationv1.Lease) {
		switch l := leaseOf(o); kind {
		case watch.Bookmark:
		case watch.Deleted:
			on(LeaseChange{Lease: Lease{Name: l.Name, Key: l.Key}})
		default:
			on(LeaseChange{Lease: l, There: true})
		}
		*version = o.ResourceVersion
	})
	return fmt.Errorf("watch %s: %w", what, err)
}

// Written says what a request with this path and body does to a Lease: "acquire" (it is made, or gets its holder, so that its acquireTime is
// its renewTime), "renew" or "release" (it has no holder any more), and "" for anything that is no Lease. The body is in JSON, or in the
// protobuf that client-go's typed clients send.
func Written(path string, body []byte) string {
	if !strings.Contains(path, "/leases") {
		return ""
	}
	var l coordinationv1.Lease
	var inside runtime.Unknown
	var err error
	if wire, is := bytes.CutPrefix(body, []byte("k8s\x00")); is {
		if err = inside.Unmarshal(wire); err == nil {
			err = l.Unmarshal(inside.Raw)
		}
	} else {
		err = json.Unmarshal(body, &l)
	}
	switch s := &l.Spec; {
	case err != nil:
		return ""
	case s.HolderIdentity == nil || *s.HolderIdentity == "":
		return "release"
	case s.AcquireTime.Equal(s.RenewTime):
		return "acquire"
	}
	return "renew"
}
