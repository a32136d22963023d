package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// onLease connects an elector of client-go.
func onLease(release bool) library {
	return func(_ context.Context, c protocol.Configure) (func(h *hold) Lock, error) {
		at := c.Store
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: at.Kubeconfig}
		config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: at.Context}).ClientConfig()
		if err != nil {
			return nil, err
		}
		client, err := kubernetes.NewForConfig(config)
		return func(h *hold) Lock {
			l := &lease{h: h, release: release, over: make(chan struct{})}
			l.Interface = &resourcelock.LeaseLock{Client: client.CoordinationV1(),
				LeaseMeta:  metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Prefix + h.want.Key},
				LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprintf("%s_%s", c.Incarnation, h.Epoch())}}
			return l
		}, err
	}
}

// lease is one elector, from when it is made until it leads no longer, and the resource lock of its own: it says what the elector writes.
type lease struct {
	resourcelock.Interface
	h       *hold
	release bool
	stop    context.CancelFunc
	over    chan struct{} // the elector has returned
	lost    <-chan struct{}

	mu     sync.Mutex
	term   string // its epoch, as docs/stores.md says: of the record that it wrote last to get the lease
	won    bool   // and that was written
	ending bool   // the work has ended
	gave   bool   // a release was said
}

// Acquire waits, as an elector does. Its durations are those of client-go's own users, 15, 10 and 2 s, in proportion to the TTL.
func (l *lease) Acquire(ctx context.Context) error {
	run, stop := context.WithCancel(context.Background())
	l.stop = stop
	ttl, leads := l.h.want.Lock.Policy.TTL, make(chan (<-chan struct{}), 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, ReleaseOnCancel: l.release, LeaseDuration: ttl, RenewDeadline: l.deadline(), RetryPeriod: ttl * 2 / 15,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { leads <- ctx.Done() },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	go func() {
		defer close(l.over)
		elector.Run(run)
	}()
	select {
	case l.lost = <-leads:
		return nil
	case <-ctx.Done():
		stop()
		<-l.over
		return ctx.Err()
	}
}

func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(r, true, func() error { return l.Interface.Create(ctx, r) })
}

func (l *lease) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(r, false, func() error { return l.Interface.Update(ctx, r) })
}

// write says what is written. A new object, and a record that differs from the last in more than its time of renewal, is a grant, also if
// the elector leads: it makes an object anew that was deleted, and does not tell its work. A release before the work was told that it is over is none that the
// replica knows of: the looks show it.
func (l *lease) write(r resourcelock.LeaderElectionRecord, creates bool, do func() error) (err error) {
	term := termOf(r)
	l.mu.Lock()
	asks, same := !l.won, l.term == term && !creates // what it makes anew may have the old times in it
	release := r.HolderIdentity == "" && l.ending
	l.gave = l.gave || release
	l.mu.Unlock()
	told := func() error {
		err = do()
		switch {
		case apierrors.IsNotFound(err):
			return errGone
		case apierrors.IsAlreadyExists(err):
			return errHeld
		case apierrors.IsConflict(err):
			return errLost
		}
		return err
	}
	switch {
	case release:
		_ = l.h.call(lockcore.OpRelease, told)
	case r.HolderIdentity == "":
		return do()
	case asks:
		l.is(term, false)
		if err = do(); err == nil {
			l.is(term, true)
			return nil
		}
		if !refused(err) {
			l.h.unclear(err)
		}
		l.is("", false)
	case same:
		_ = l.h.call(lockcore.OpRenew, told)
	default:
		_ = l.h.again(func() error {
			err := told()
			if err == nil {
				l.is(term, true)
			}
			return err
		})
	}
	return err
}

func (l *lease) is(term string, won bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term, l.won = term, won
}

// refused reports that the API server answered, and surely wrote nothing.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && status.Status().Code != 408
}

func termOf(r resourcelock.LeaderElectionRecord) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s#%d@%d", r.HolderIdentity, r.LeaderTransitions, r.AcquireTime.Truncate(time.Microsecond).UnixNano()))
	return hex.EncodeToString(sum[:])[:12]
}

func (*lease) Extend(context.Context) error  { return errors.New("the elector renews") }
func (*lease) Release(context.Context) error { return errors.New("the elector releases") }

func (l *lease) Lost() <-chan struct{} { return l.lost }
func (l *lease) Owed() time.Duration   { return l.deadline() }

// deadline is for how long after a renewal its holder leads: RenewDeadline. Others wait for the whole LeaseDuration.
func (l *lease) deadline() time.Duration { return l.h.want.Lock.Policy.TTL * 10 / 15 }

func (l *lease) ID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

// End ends the elector when the work has ended, which is the order that its documents ask for.
func (l *lease) End() {
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
	l.stop()
	<-l.over
	if !l.gave {
		why := lockcore.ReasonTTLHold
		if l.h.lost.Err() != nil {
			why = lockcore.ReasonAfterAbandon
		}
		l.h.giveUp(lockcore.ReasonExpired) // it leaves the lease to its end
		l.h.act(lockcore.Action{Kind: lockcore.ActSkip, Reason: why})
	}
}
