// Package leasestore is lockcore's Store on Lease objects of Kubernetes: one object a key, changed by optimistic concurrency, readable by
// whoever watches elections, and safe beside client-go's own elector on the same object.
//
// The API server ends no lease and compares no tokens. So each Store judges the end of another's lease by its own clock, from when it
// first saw the record as it is, as client-go does; Limits says what that costs. Its one invariant: a lease is taken over only after this
// Store has seen its record unchanged for the whole of its duration, and only by an update of that very record.
package leasestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/lockdrill/lockdrill/lockcore"
)

// What the objects carry beside the lease itself.
const (
	Label           = "lockdrill.dev/lock"  // "true": kubectl delete lease -l lockdrill.dev/lock=true removes every key
	KeyAnnotation   = "lockdrill.dev/key"   // the key, as it was asked for
	FenceAnnotation = "lockdrill.dev/fence" // of the last epoch, decimal; it outlives a release
)

// Unit is the resolution of a Lease object: a TTL is a whole number of it.
const Unit = time.Second

const (
	tries   = 8       // of one call, each after somebody else's change
	maxSeen = 1 << 16 // records that are remembered; one that is forgotten is waited for anew
)

// Limit is something that a lockcore.Store promises and this one cannot, or not quite.
type Limit struct{ What, Why string }

// Limits are what this Store cannot do.
func Limits() []Limit {
	return []Limit{
		{"a TTL is a whole number of seconds, from 1 s", "leaseDurationSeconds is an integer; any other TTL is refused"},
		{"nobody but the callers ends a lease", "each Store ends it by its own clock, from when it first saw the record: one that did not watch waits a whole TTL more, and so does a takeover after its start"},
		{"an expired lease is not gone for everybody at once", "a Store that has not seen the whole lease pass still renews and releases it for whoever has the token, until somebody takes it over"},
		{"the remaining time of a lease is an upper bound", "a Store that has just met the record says the whole TTL"},
		{"the server's time of a grant, and the microseconds below its fence, are the caller's clock", "fences grow from epoch to epoch, since the last one stands in the object; after the object was deleted, as far as the callers' clocks agree"},
		{"a released key leaves an object", "its fence lives there; a label finds all of them"},
	}
}

// Store is a lockcore.Store on the Lease objects of one namespace. The role needs get, create and update of leases. Each operation is
// a read and a write of the object, more where others change it.
type Store struct {
	leases typed.LeaseInterface
	prefix string // of every key
	now    func() time.Time

	mu   sync.Mutex
	seen map[string]sighting // by object name
}

// sighting is a record and when it was first seen so, on this process's clock.
type sighting struct {
	record record
	at     time.Time
}

// record is what a holder changes with each acquire and renewal.
type record struct {
	holder, uid       string
	renewed, acquired int64
	seconds           int32
}

// New returns the locks under prefix in a namespace.
func New(c typed.LeasesGetter, namespace, prefix string) *Store {
	return &Store{leases: c.Leases(namespace), prefix: prefix, now: time.Now, seen: map[string]sighting{}}
}

// Acquire implements lockcore.Store.
func (s *Store) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	if err := callable(ctx, ttl); err != nil {
		return lockcore.Grant{}, err
	}
	var g lockcore.Grant
	err := s.change(ctx, "acquire", key, func(l *coordination.Lease, left time.Duration) (bool, error) {
		holder, free := holderOf(l), left <= 0
		switch {
		case !free && holder == digest(token):
			g = grantOf(l)
			return false, nil
		case !free:
			return false, &lockcore.HeldError{Holder: fingerprint(holder), PTTL: left}
		}
		s.take(l, s.prefix+key, token, ttl)
		g = grantOf(l)
		return true, nil
	})
	if err != nil {
		return lockcore.Grant{}, err
	}
	return g, nil
}

// Renew implements lockcore.Store.
func (s *Store) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	if err := callable(ctx, ttl); err != nil {
		return err
	}
	return s.change(ctx, "renew", key, func(l *coordination.Lease, left time.Duration) (bool, error) {
		if err := owned(l, left, token); err != nil {
			return false, err
		}
		s.extend(l, ttl)
		return true, nil
	})
}

// Release implements lockcore.Store. The object stays, as a released one of client-go's elector does: the fence is in it.
func (s *Store) Release(ctx context.Context, key, token string) error {
	if err := callable(ctx, Unit); err != nil {
		return err
	}
	return s.change(ctx, "release", key, func(l *coordination.Lease, left time.Duration) (bool, error) {
		if err := owned(l, left, token); err != nil {
			return false, err
		}
		s.extend(l, Unit)
		l.Spec.HolderIdentity = nil
		return true, nil
	})
}

// take writes a new epoch into the object.
func (s *Store) take(l *coordination.Lease, key, token string, ttl time.Duration) {
	last, _ := strconv.ParseInt(l.Annotations[FenceAnnotation], 10, 64) // none, or not ours: 0
	s.extend(l, ttl)
	holder, transitions := digest(token), int32(0)
	if l.Spec.LeaseTransitions != nil {
		transitions = *l.Spec.LeaseTransitions + 1
	}
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions, l.Spec.AcquireTime = &holder, &transitions, l.Spec.RenewTime.DeepCopy()
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	l.Labels[Label] = "true"
	l.Annotations[KeyAnnotation] = key
	l.Annotations[FenceAnnotation] = strconv.FormatInt(max(last+1, l.Spec.AcquireTime.UnixMicro()), 10)
}

// extend writes the lease's duration and a time of renewal that differs from the last: that is how others see that it was extended.
func (s *Store) extend(l *coordination.Lease, ttl time.Duration) {
	now := s.now().Truncate(time.Microsecond)
	if r := l.Spec.RenewTime; r != nil && !now.After(r.Time) {
		now = r.Add(time.Microsecond)
	}
	renewed, seconds := metav1.NewMicroTime(now), int32(ttl/Unit)
	l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &renewed, &seconds
}

// change reads the object, lets decide judge and change it, and writes it back unless somebody else has changed it since: then all of it
// begins anew. left is what the lease of a holder still has, 0 and less where it is free.
func (s *Store) change(ctx context.Context, op, key string, decide func(l *coordination.Lease, left time.Duration) (write bool, err error)) error {
	key = s.prefix + key
	name := objectName(key)
	for range tries {
		l, err := s.leases.Get(ctx, name, metav1.GetOptions{})
		found := !apierrors.IsNotFound(err)
		switch {
		case !found:
			l = &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
		case err != nil:
			return fmt.Errorf("%s lease %s: %w: %w", op, name, lockcore.ErrNotSent, err) // only read
		}
		if k, ok := l.Annotations[KeyAnnotation]; ok && k != key {
			return fmt.Errorf("%s lease %s: %w: it is the key %q already", op, name, lockcore.ErrNotSent, k)
		}
		write, err := decide(l, s.left(name, l))
		if err != nil || !write {
			return err
		}
		err = s.write(ctx, name, l, found)
		switch {
		case err == nil:
			return nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), found && apierrors.IsNotFound(err):
			continue
		case refused(err):
			return fmt.Errorf("%s lease %s: %w: %w", op, name, lockcore.ErrNotSent, err)
		}
		return fmt.Errorf("%s lease %s: %w", op, name, err)
	}
	return fmt.Errorf("%s lease %s: %w: %d times somebody else changed it first", op, name, lockcore.ErrNotSent, tries)
}

func (s *Store) write(ctx context.Context, name string, l *coordination.Lease, found bool) (err error) {
	var now *coordination.Lease
	if found {
		now, err = s.leases.Update(ctx, l, metav1.UpdateOptions{})
	} else {
		now, err = s.leases.Create(ctx, l, metav1.CreateOptions{})
	}
	if err == nil {
		s.left(name, now) // the record counts from here
	}
	return err
}

// left notes the record and says how much of its lease is left by this process's clock, from when it was first seen.
func (s *Store) left(name string, l *coordination.Lease) time.Duration {
	r := recordOf(l)
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.holder == "" {
		delete(s.seen, name)
		return 0
	}
	v, known := s.seen[name]
	if !known || v.record != r {
		if len(s.seen) >= maxSeen {
			clear(s.seen)
		}
		v = sighting{r, now}
		s.seen[name] = v
	}
	return time.Duration(r.seconds)*time.Second - now.Sub(v.at)
}

func recordOf(l *coordination.Lease) record {
	r := record{holder: holderOf(l), uid: string(l.UID)}
	if t := l.Spec.RenewTime; t != nil {
		r.renewed = t.UnixMicro()
	}
	if t := l.Spec.AcquireTime; t != nil {
		r.acquired = t.UnixMicro()
	}
	if d := l.Spec.LeaseDurationSeconds; d != nil {
		r.seconds = *d
	}
	return r
}

func holderOf(l *coordination.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// owned says whether the lease is the token's and not over.
func owned(l *coordination.Lease, left time.Duration, token string) error {
	switch holder := holderOf(l); {
	case left <= 0:
		return &lockcore.NotOwnedError{}
	case holder != digest(token):
		return &lockcore.NotOwnedError{Other: true, Holder: fingerprint(holder)}
	}
	return nil
}

func grantOf(l *coordination.Lease) lockcore.Grant {
	fence, _ := strconv.ParseInt(l.Annotations[FenceAnnotation], 10, 64)
	g := lockcore.Grant{Fence: fence}
	if t := l.Spec.AcquireTime; t != nil {
		g.Server = t.Time
	}
	return g
}

// digest is how a token stands in the object: whoever can read it cannot release with it, and fingerprints agree with other stores'.
func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// fingerprint is that of the token behind a digest, or of a holder that some other program wrote.
func fingerprint(holder string) string {
	if b, err := hex.DecodeString(holder); err == nil && len(b) == sha256.Size {
		return holder[:len(lockcore.Fingerprint(holder))]
	}
	return lockcore.Fingerprint(holder)
}

// callable refuses what cannot be sent.
func callable(ctx context.Context, ttl time.Duration) error {
	if err := lockcore.CheckTTL(ttl); err != nil {
		return err
	}
	if ttl%Unit != 0 || ttl/Unit > math.MaxInt32 {
		return fmt.Errorf("%w: ttl %s: a Lease object lasts whole seconds", lockcore.ErrNotSent, ttl)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", lockcore.ErrNotSent, err)
	}
	return nil
}

// refused reports whether the API server surely changed nothing: it answered, and not with a failure of its own.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != 408
}
