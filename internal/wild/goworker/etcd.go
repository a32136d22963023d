package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// etcd is a client at its defaults and the session of this process: the client keeps its lease alive by itself. Who is told that the session
// is over takes another.
type etcd struct {
	*clientv3.Client
	session *concurrency.Session

	mu      sync.Mutex
	held    *hold // whose key has the session's lease
	created int64 // revision of the key that was put last, as the answer said; 0 = none
	renewed int64 // when the last keepalive that was answered had been sent
}

// primitive is what etcd's Mutex and Election have in common.
type primitive interface {
	take(ctx context.Context) error
	give(ctx context.Context) error
}

func onEtcd(of func(s *concurrency.Session, who, key string) primitive) library {
	return func(ctx context.Context, c protocol.Configure) (func(h *hold) Lock, error) {
		e, at := &etcd{}, c.Store
		config := clientv3.Config{Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(e.tapped), grpc.WithChainUnaryInterceptor(e.heard)}}
		for _, addr := range append(at.Addrs, at.Addr)[:max(1, len(at.Addrs))] {
			config.Endpoints = append(config.Endpoints, "http://"+addr)
		}
		var err error
		if e.Client, err = clientv3.New(config); err != nil {
			return nil, err
		}
		if _, err := e.Get(ctx, at.Prefix); err != nil {
			return nil, err
		}
		return func(h *hold) Lock {
			return &etcdLock{e: e, h: h, of: func(s *concurrency.Session) primitive { return of(s, c.Incarnation, at.Prefix+h.want.Key) }}
		}, nil
	}
}

// etcdLock is one acquisition under the process's session.
type etcdLock struct {
	e       *etcd
	h       *hold
	of      func(s *concurrency.Session) primitive
	session *concurrency.Session
	created int64
	primitive
}

func (l *etcdLock) Acquire(ctx context.Context) error {
	if l.e.session == nil || over(l.e.session) {
		l.e.kept(monotime.Now())
		session, err := concurrency.NewSession(l.e.Client, concurrency.WithTTL(int(l.h.want.Lock.Policy.TTL.Seconds())))
		if err != nil {
			return err
		}
		l.e.session = session
	}
	l.session = l.e.session
	l.primitive = l.of(l.session)
	l.e.hold(nil)
	err := l.take(ctx)
	l.e.mu.Lock()
	l.created = l.e.created
	l.e.mu.Unlock()
	switch {
	case err == nil:
		l.e.hold(l.h)
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // the server's word for the put
		err = fmt.Errorf("%w: %w", lockcore.ErrNotSent, err)
	}
	return err
}

func over(s *concurrency.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func (l *etcdLock) Extend(context.Context) error { return errors.New("the session renews itself") }

func (l *etcdLock) Release(ctx context.Context) error {
	l.e.hold(nil) // the session goes on to renew its lease, which is no renewal of the key any more
	return l.give(ctx)
}

func (l *etcdLock) Lost() <-chan struct{} { return l.session.Done() }

// Owed is what is left of the session's lease.
func (l *etcdLock) Owed() time.Duration {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	return max(l.h.want.Lock.Policy.TTL-time.Duration(monotime.Now()-l.e.renewed), time.Millisecond)
}

func (l *etcdLock) Fence() int64 { return l.created }

// ID is known of a key that waits as well: it may become the oldest one, and so the owner's, while nobody is told.
func (l *etcdLock) ID() string {
	if l.created == 0 {
		return ""
	}
	return fmt.Sprintf("rev-%d", l.created)
}

type mutex struct{ *concurrency.Mutex }

func newMutex(s *concurrency.Session, _, key string) primitive {
	return mutex{concurrency.NewMutex(s, key)}
}

func (m mutex) take(ctx context.Context) error { return m.Lock(ctx) }
func (m mutex) give(ctx context.Context) error { return m.Unlock(ctx) }

type election struct {
	*concurrency.Election
	candidate string
}

func newElection(s *concurrency.Session, who, key string) primitive {
	return election{concurrency.NewElection(s, key), who}
}

func (e election) take(ctx context.Context) error { return e.Campaign(ctx, e.candidate) }
func (e election) give(ctx context.Context) error { return e.Resign(ctx) }

func (e *etcd) hold(h *hold) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = h
	if h == nil {
		e.created = 0
	}
}

func (e *etcd) kept(from int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.renewed = from
}

// heard takes the revision at which a key was put from the answer: a Mutex does not tell its own.
func (e *etcd) heard(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
	err := next(ctx, method, req, reply, cc, o...)
	asked, txn := req.(*pb.TxnRequest)
	got, ok := reply.(*pb.TxnResponse)
	if err != nil || !txn || !ok || len(asked.Success) == 0 || asked.Success[0].GetRequestPut() == nil {
		return err
	}
	revision := got.Header.Revision
	if !got.Succeeded { // it was there: put before by a call whose answer was lost
		for _, kv := range got.Responses[0].GetResponseRange().GetKvs() {
			revision = kv.CreateRevision
		}
	}
	e.mu.Lock()
	e.created = revision
	e.mu.Unlock()
	return err
}

// tapped lets the keepalives of the session be said as renewals of what it holds, each before it is sent.
func (e *etcd) tapped(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := next(ctx, desc, cc, method, o...)
	if err != nil || method != pb.Lease_LeaseKeepAlive_FullMethodName {
		return s, err
	}
	return &keepalives{ClientStream: s, e: e}, nil
}

type keepalives struct {
	grpc.ClientStream
	e    *etcd
	mu   sync.Mutex
	sent []renewal
}

type renewal struct {
	h    *hold // nil = a waiter's
	said *claim
	from int64
}

func (k *keepalives) SendMsg(m any) error {
	k.e.mu.Lock()
	r := renewal{h: k.e.held, from: monotime.Now()}
	k.e.mu.Unlock()
	if r.h != nil {
		r.said = r.h.announce(lockcore.OpRenew, r.h.named.Load())
		r.from = r.said.from
	}
	k.mu.Lock()
	k.sent = append(k.sent, r)
	k.mu.Unlock()
	return k.ClientStream.SendMsg(m)
}

// RecvMsg says the answers: they come in the order of the requests. What is open when the stream ends stays unclear.
func (k *keepalives) RecvMsg(m any) error {
	err := k.ClientStream.RecvMsg(m)
	answer, ok := m.(*pb.LeaseKeepAliveResponse)
	k.mu.Lock()
	n := min(1, len(k.sent))
	if err != nil {
		n = len(k.sent)
	}
	answered := k.sent[:n]
	k.sent = k.sent[n:]
	k.mu.Unlock()
	for _, r := range answered {
		told := err
		switch {
		case err != nil:
		case !ok:
			told = errors.New("no answer to a keepalive")
		case answer.TTL <= 0:
			told = errGone
		default:
			k.e.kept(r.from)
		}
		if r.h != nil {
			r.h.report(r.said, told)
		}
	}
	return err
}
