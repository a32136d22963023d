// Package etcdservers makes clients of the servers of an etcd, as a process was told of it, and asks all of them at once.
//
// It knows of no lock and of no run: a store of a drill and a replica of one dial by it.
package etcdservers

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// login bounds asking for the token of a user.
const login = 5 * time.Second

// Dial is how a client reaches the servers of e that addrs names; none = all of them.
func Dial(e protocol.Endpoint, addrs ...string) (*clientv3.Client, error) {
	a, err := endpoint.AccessTo(e, "store")
	if err != nil {
		return nil, err
	}
	scheme := "http://"
	if a.TLS != nil {
		scheme = "https://"
		a.TLS.ServerName = e.ServerName // "" = each server's own host
	}
	if len(addrs) == 0 {
		addrs = e.Addrs
	}
	if len(addrs) == 0 {
		addrs = []string{e.Addr}
	}
	c := clientv3.Config{Username: a.User, Password: a.Password, TLS: a.TLS, DialTimeout: login, Logger: zap.NewNop()}
	for _, addr := range addrs {
		c.Endpoints = append(c.Endpoints, scheme+addr)
	}
	return clientv3.New(c)
}

// Servers are clients, one of each server of a cluster: one that stands still keeps nobody from asking the others.
type Servers []*clientv3.Client

// Each makes a client of each server of e, and asks none yet. Its owner closes them.
func Each(e protocol.Endpoint) (Servers, error) {
	var all Servers
	for _, addr := range e.Addrs {
		c, err := Dial(e, addr)
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all = append(all, c)
	}
	return all, nil
}

// Close closes all clients; it may be called again.
func (s Servers) Close() error {
	var errs []error
	for _, c := range s {
		if err := c.Close(); !errors.Is(err, context.Canceled) { // it was closed before
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Get reads from all servers at once and takes the first answer.
func (s Servers) Get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return First(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
		return c.Get(ctx, key, o...)
	})
}

// Do does something by all servers at once; one that has done it is enough.
func (s Servers) Do(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	_, err := First(ctx, s, func(ctx context.Context, c *clientv3.Client) (struct{}, error) { return struct{}{}, do(ctx, c) })
	return err
}

// First asks all servers at once and takes the first answer; where none answers, the error has what each of them said.
func First[T any](ctx context.Context, s Servers, ask func(context.Context, *clientv3.Client) (T, error)) (none T, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		got T
		err error
	}
	said := make(chan answer, len(s))
	for _, c := range s {
		go func() {
			got, err := ask(ctx, c)
			said <- answer{got, err}
		}()
	}
	var errs []error
	for range s {
		a := <-said
		if a.err == nil {
			return a.got, nil
		}
		errs = append(errs, a.err)
	}
	return none, errors.Join(errs...)
}
