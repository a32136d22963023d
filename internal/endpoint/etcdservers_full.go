//go:build full

package endpoint

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// EtcdServers are clients, one of each server of a cluster: one that stands still keeps nobody from asking the others.
type EtcdServers []*clientv3.Client

// EachEtcd makes a client of each server of e, and asks none yet. Its owner closes them.
func EachEtcd(e protocol.Endpoint) (EtcdServers, error) {
	var all EtcdServers
	for _, addr := range e.Addrs {
		c, err := Etcd(e, addr)
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all = append(all, c)
	}
	return all, nil
}

// Close closes all clients; it may be called again.
func (s EtcdServers) Close() error {
	var errs []error
	for _, c := range s {
		if err := c.Close(); !errors.Is(err, context.Canceled) { // it was closed before
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Get reads from all servers at once and takes the first answer.
func (s EtcdServers) Get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return FirstEtcd(ctx, s, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
		return c.Get(ctx, key, o...)
	})
}

// Do does something by all servers at once; one that has done it is enough.
func (s EtcdServers) Do(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	_, err := FirstEtcd(ctx, s, func(ctx context.Context, c *clientv3.Client) (struct{}, error) { return struct{}{}, do(ctx, c) })
	return err
}

// FirstEtcd asks all servers at once and takes the first answer; where none answers, the error has what each of them said.
func FirstEtcd[T any](ctx context.Context, s EtcdServers, ask func(context.Context, *clientv3.Client) (T, error)) (none T, err error) {
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
