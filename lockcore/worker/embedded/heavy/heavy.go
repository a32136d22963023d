// Package heavy is the kinds of stores of the embedded worker whose drivers weigh much. Whoever imports it and calls Register has them.
package heavy

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockdrill/lockdrill/internal/etcdservers"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/etcdstore"
	"github.com/lockdrill/lockdrill/lockcore/leasestore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/worker/embedded"
)

// Register makes them known to the worker. It is for variables of packages.
func Register() struct{} {
	embedded.Register(protocol.KindEtcd, dialEtcd)
	return embedded.Register(protocol.KindLease, dialLeases)
}

// pingWithin bounds one question whether the store answers.
const pingWithin = time.Second

func dialEtcd(e protocol.Endpoint) (*embedded.Connection, error) {
	c, err := etcdservers.Dial(e)
	if err != nil {
		return nil, err
	}
	return &embedded.Connection{
		Ping: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, pingWithin)
			defer cancel()
			_, err := c.Get(ctx, e.Prefix)
			return err
		},
		Store: func() lockcore.Store { return etcdstore.New(c, e.Prefix) },
		Close: c.Close,
	}, nil
}

func dialLeases(e protocol.Endpoint) (*embedded.Connection, error) {
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
	return &embedded.Connection{
		Ping: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, pingWithin)
			defer cancel()
			_, err := c.Leases(e.Namespace).Get(ctx, e.Prefix+"none", metav1.GetOptions{}) // a lock needs no list
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		},
		Store: func() lockcore.Store { return leasestore.New(c, e.Namespace, e.Prefix) },
		Close: func() error { return nil },
	}, nil
}
