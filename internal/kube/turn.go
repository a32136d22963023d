package kube

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// turnNote is the annotation in which a turn's holder says more about itself.
const turnNote = "lockdrill.dev/holder"

// Turn is a Lease object by which one run at a time has a namespace.
type Turn struct {
	Name string        // of the Lease
	Run  string        // whose turn it is: holder identity, and RunLabel
	Note string        // what it says of itself
	TTL  time.Duration // whole seconds
	Last time.Time     // last renewal, by its holder's clock
	UID  string
}

// TakeTurn takes or prolongs a turn. Where it is another run's, that one is returned, with mine false; a turn that nobody has is
// taken. It changes nothing of another's.
func (c *Cluster) TakeTurn(ctx context.Context, t Turn) (now Turn, mine bool, err error) {
	api := c.leases()
	stamp, seconds := metav1.NowMicro(), int32(t.TTL/time.Second)
	l, err := as[coordinationv1.Lease](api.Get(ctx, t.Name, metav1.GetOptions{}))
	if gone(err) {
		l, err = as[coordinationv1.Lease](api.Create(ctx, generic(&coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Name: t.Name, Labels: map[string]string{RunLabel: t.Run}, Annotations: map[string]string{turnNote: t.Note}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &t.Run, LeaseDurationSeconds: &seconds, AcquireTime: &stamp, RenewTime: &stamp},
		}), metav1.CreateOptions{FieldManager: FieldManager}))
		if err == nil {
			return turnOf(l), true, nil
		}
		if apierrors.IsAlreadyExists(err) { // another was faster
			l, err = as[coordinationv1.Lease](api.Get(ctx, t.Name, metav1.GetOptions{}))
		}
	}
	if err != nil {
		return t, false, fmt.Errorf("take the turn of namespace %s (lease %s): %w", c.Namespace, t.Name, err)
	}
	if now = turnOf(l); now.Run != t.Run {
		return now, false, nil
	}
	l.Spec.RenewTime = &stamp
	if l, err = as[coordinationv1.Lease](api.Update(ctx, generic(l), metav1.UpdateOptions{FieldManager: FieldManager})); err != nil {
		return now, true, fmt.Errorf("prolong the turn of namespace %s (lease %s): %w", c.Namespace, t.Name, err)
	}
	return turnOf(l), true, nil
}

// DropTurn removes a turn as it was seen: not one that has been renewed since.
func (c *Cluster) DropTurn(ctx context.Context, t Turn) error {
	api := c.leases()
	l, err := as[coordinationv1.Lease](api.Get(ctx, t.Name, metav1.GetOptions{}))
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read lease %s: %w", t.Name, err)
	}
	if now := turnOf(l); now.UID != t.UID || !now.Last.Equal(t.Last) {
		return fmt.Errorf("delete lease %s: %w", t.Name, ErrAnother)
	}
	uid, version := types.UID(t.UID), l.ResourceVersion
	err = api.Delete(ctx, t.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	if err != nil && !gone(err) {
		return fmt.Errorf("delete lease %s: %w", t.Name, err)
	}
	return nil
}

func turnOf(l *coordinationv1.Lease) Turn {
	t := Turn{Name: l.Name, Run: l.Labels[RunLabel], Note: l.Annotations[turnNote], UID: string(l.UID)}
	if s := l.Spec.LeaseDurationSeconds; s != nil {
		t.TTL = time.Duration(*s) * time.Second
	}
	if r := l.Spec.RenewTime; r != nil {
		t.Last = r.Time
	}
	return t
}
