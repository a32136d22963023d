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

func onEtcd(of func(s *concurrency.Session, h *hold, key string) primitive) library {
	return func(ctx context.Context, w *worker) (func(h *hold) Lock, error) {
		e, at := &etcd{}, w.c.Configure.Store
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
			return &etcdLock{e: e, h: h, of: func(s *concurrency.Session) primitive { return of(s, h, at.Prefix+h.l.Key) }}
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
		l.e.kept(now())
		session, err := concurrency.NewSession(l.e.Client, concurrency.WithTTL(int(l.h.l.Policy.TTL.Seconds())))
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
		err = fmt.Errorf("%w: %w", errSure, err)
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
	return max(l.h.l.Policy.TTL-time.Duration(now()-l.e.renewed), time.Millisecond)
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

func newMutex(s *concurrency.Session, _ *hold, key string) primitive {
	return mutex{concurrency.NewMutex(s, key)}
}

func (m mutex) take(ctx context.Context) error { return m.Lock(ctx) }
func (m mutex) give(ctx context.Context) error { return m.Unlock(ctx) }

type election struct {
	*concurrency.Election
	candidate string
}

func newElection(s *concurrency.Session, h *hold, key string) primitive {
	return election{concurrency.NewElection(s, key), h.w.c.Configure.Incarnation}
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
	op   string
	from int64
}

func (k *keepalives) SendMsg(m any) error {
	k.e.mu.Lock()
	r := renewal{h: k.e.held, from: now()}
	k.e.mu.Unlock()
	if r.h != nil {
		r.op = r.h.w.op()
		r.from = r.h.w.say("renew.invoke", 0, r.h.name(), event{"op": r.op, "call": event{"attempt": 1, "ttl": int64(r.h.l.Policy.TTL)}})
	}
	k.mu.Lock()
	k.sent = append(k.sent, r)
	k.mu.Unlock()
	return k.ClientStream.SendMsg(m)
}

// RecvMsg says the answers: they come in the order of the requests. What is open when the stream ends stays unclear.
func (k *keepalives) RecvMsg(m any) error {
	err := k.ClientStream.RecvMsg(m)
	k.mu.Lock()
	n := min(1, len(k.sent))
	if err != nil {
		n = len(k.sent)
	}
	answered := k.sent[:n]
	k.sent = k.sent[n:]
	k.mu.Unlock()
	for _, r := range answered {
		answer, ok := m.(*pb.LeaseKeepAliveResponse)
		if err == nil && ok && answer.TTL > 0 {
			k.e.kept(r.from)
		}
		if r.h == nil {
			continue
		}
		outcome, body := "ok", event{"attempt": 1, "ttl": int64(r.h.l.Policy.TTL), "result": "renewed"}
		if err != nil || !ok {
			outcome, body["result"], body["err"] = "unknown", "error", fmt.Sprint(err)
		} else if answer.TTL <= 0 {
			outcome, body["result"] = "fail", "absent"
		}
		r.h.w.say("renew.return", r.from, r.h.name(), event{"op": r.op, "outcome": outcome, "call": body})
	}
	return err
}
