//go:build full

package worker

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/etcdstore"
	"github.com/lockdrill/lockdrill/lockcore/leasestore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// addHeavyKinds adds those whose drivers weigh much.
func addHeavyKinds(kinds map[string]connector) {
	kinds[protocol.KindEtcd], kinds[protocol.KindLease] = dialEtcd, dialLeases
}

// pingWithin bounds one question whether the store answers.
const pingWithin = time.Second

func dialEtcd(e protocol.Endpoint) (*connection, error) {
	c, err := endpoint.Etcd(e)
	if err != nil {
		return nil, err
	}
	return &connection{
		ping: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, pingWithin)
			defer cancel()
			_, err := c.Get(ctx, e.Prefix)
			return err
		},
		store: func() lockcore.Store { return etcdstore.New(c, e.Prefix) },
		close: c.Close,
	}, nil
}

func dialLeases(e protocol.Endpoint) (*connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = e.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: e.Context}).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, 0 // a replica is as fast as the API server lets it
	c, err := typed.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &connection{
		ping: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, pingWithin)
			defer cancel()
			_, err := c.Leases(e.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		},
		store: func() lockcore.Store { return leasestore.New(c, e.Namespace, e.Prefix) },
		close: func() error { return nil },
	}, nil
}
