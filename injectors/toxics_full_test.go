//go:build full

package injectors

import (
	"testing"

	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/sqltest"
	"github.com/lockdrill/lockdrill/stores/postgres"
)

// Each fault of the network is felt and ends on the ways to other stores as well, by questions in their protocols.
func TestFaultsOfTheNetworkOfEtcdAndPostgres(t *testing.T) {
	etcd := etcdtest.Start(t).Addr
	client, err := postgres.Dial(sqltest.Postgres(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]endpoint.Question{etcd: endpoint.AskEtcd(nil), client.Addr(): endpoint.AskPostgres(client.Raw)} {
		t.Run(name, func(t *testing.T) {
			for _, c := range networks() {
				c.stand = func(w *world) { w.network(name, q) }
				c.try(t, "the runner")
			}
		})
	}
}
