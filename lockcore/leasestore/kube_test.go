package leasestore

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/testkit/storetest"
	"github.com/lockdrill/lockdrill/lockcore"
)

// The conformance suite on a real API server, in real time.
func TestKubeLeaseStore(t *testing.T) {
	env := kubetest.Start(t, kubetest.Options{NoNode: true})
	config := rest.CopyConfig(env.Config)
	config.QPS, config.Burst = 1000, 1000 // the suite does not wait for its own client
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range Limits() {
		t.Logf("limit: %s: %s", l.What, l.Why)
	}
	n := 0
	open := func(*testing.T) lockcore.Store {
		n++
		return New(client.CoordinationV1(), env.Namespace(fmt.Sprint("leases-", n), nil), "lockdrill.run.")
	}
	storetest.StoreOf(t, Unit, open, func(d time.Duration) { <-time.After(d) })
}
