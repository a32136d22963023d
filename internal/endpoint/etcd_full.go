//go:build full

package endpoint

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// etcdLogin bounds asking for the token of a user.
const etcdLogin = 5 * time.Second

// Etcd is how a client reaches the servers of e that addrs names; none = all of them.
func Etcd(e protocol.Endpoint, addrs ...string) (*clientv3.Client, error) {
	a, err := AccessTo(e, "store")
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
	c := clientv3.Config{Username: a.User, Password: a.Password, TLS: a.TLS, DialTimeout: etcdLogin, Logger: zap.NewNop()}
	for _, addr := range addrs {
		c.Endpoints = append(c.Endpoints, scheme+addr)
	}
	return clientv3.New(c)
}
