package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// onLease connects an elector of client-go. The proxy before the API server knows a replica by its address: r1 is 127.0.1.1.
func onLease(release bool) library {
	return func(_ context.Context, w *worker) (func(h *hold) Lock, error) {
		at := w.c.Configure.Store
		config, err := clientcmd.BuildConfigFromFlags("", cmp.Or(os.Getenv("WILD_KUBECONFIG"), at.Kubeconfig))
		if err != nil {
			return nil, err
		}
		self := net.ParseIP("127.0.1." + strings.TrimPrefix(w.c.Configure.Name, "r"))
		config.Dial = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: self}}).DialContext
		client, err := kubernetes.NewForConfig(config)
		return func(h *hold) Lock {
			l := &lease{h: h, release: release, over: make(chan struct{})}
			l.Interface = &resourcelock.LeaseLock{Client: client.CoordinationV1(),
				LeaseMeta:  metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Prefix + h.l.Key},
				LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprintf("%s_%s", w.c.Configure.Incarnation, h.name["epoch"])}}
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
	won    *resourcelock.LeaderElectionRecord // as it was first written
	ending bool                               // the work has ended
	gave   bool                               // a release was said
}

// Acquire waits, as an elector does. Its durations are those of client-go's own users, 15, 10 and 2 s, in proportion to the TTL.
func (l *lease) Acquire(ctx context.Context) error {
	run, stop := context.WithCancel(context.Background())
	l.stop = stop
	ttl, leads := l.h.l.Policy.TTL, make(chan (<-chan struct{}), 1)
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
		return ctx.Err()
	}
}

func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(r, func() error { return l.Interface.Create(ctx, r) })
}

func (l *lease) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(r, func() error { return l.Interface.Update(ctx, r) })
}

// write says what is written once the lease is held: a renewal, or the release. A release before the work was told that it is over is none
// that the replica knows of: the looks show it.
func (l *lease) write(r resourcelock.LeaderElectionRecord, do func() error) (err error) {
	l.mu.Lock()
	what := "renew"
	switch {
	case r.HolderIdentity == "" && l.ending:
		what, l.gave = "release", true
	case r.HolderIdentity == "", l.won == nil:
		what = ""
	}
	l.mu.Unlock()
	if what == "" {
		if err = do(); err == nil && r.HolderIdentity != "" {
			l.mu.Lock()
			l.won = &r
			l.mu.Unlock()
		}
		return err
	}
	_ = l.h.call(what, func() error {
		if err = do(); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return errLost
		}
		return err
	})
	return err
}

func (*lease) Extend(context.Context) error  { return errors.New("the elector renews") }
func (*lease) Release(context.Context) error { return errors.New("the elector releases") }

func (l *lease) Lost() <-chan struct{} { return l.lost }
func (l *lease) Owed() time.Duration   { return l.deadline() }

// deadline is for how long after a renewal its holder leads: RenewDeadline. Others wait for the whole LeaseDuration.
func (l *lease) deadline() time.Duration { return l.h.l.Policy.TTL * 10 / 15 }

// ID is made of the record, as docs/stores.md says.
func (l *lease) ID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.won == nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s#%d@%d", l.won.HolderIdentity, l.won.LeaderTransitions, l.won.AcquireTime.Truncate(time.Microsecond).UnixNano()))
	return hex.EncodeToString(sum[:])[:12]
}

// End ends the elector when the work has ended, which is the order that its documents ask for.
func (l *lease) End() {
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
	l.stop()
	<-l.over
	if !l.gave {
		why := "ttl_hold"
		if l.h.lost.Err() != nil {
			why = "after_abandon"
		}
		l.h.giveUp("expired") // it leaves the lease to its end
		l.h.w.say("release.skipped", 0, l.h.name, event{"call": event{"why": why}})
	}
}
