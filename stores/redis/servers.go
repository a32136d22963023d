package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores"
)

// Connect makes connections to a store of one server or of many; it does not dial yet.
func Connect(w undo.Store) (redis.UniversalClient, error) {
	if !w.Cluster {
		return Dial(w)
	}
	o, err := optionsOf(w)
	if err != nil {
		return nil, err
	}
	return endpoint.Cluster(o, answersWithin, w.Addrs...), nil
}

// serversOf are the servers of a cluster as it knows them now; none where it does not say.
func serversOf(ctx context.Context, c redis.UniversalClient) (addrs []string) {
	all, _ := c.ClusterSlots(ctx).Result()
	for _, s := range all {
		for _, n := range s.Nodes {
			if !slices.Contains(addrs, n.Addr) {
				addrs = append(addrs, n.Addr)
			}
		}
	}
	return addrs
}

// newFailoverClient is a connection to whichever server the Sentinels call the primary.
func newFailoverClient(o *redis.Options, s *undo.Sentinel) (*redis.Client, error) {
	own, err := sentinelAccess(s)
	if err != nil {
		return nil, err
	}
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.Master, SentinelAddrs: s.Addrs, SentinelUsername: own.User, SentinelPassword: own.Password, DB: o.DB, Username: o.Username, Password: o.Password, Dialer: endpoint.Dialer(o), Protocol: 2,
		DisableIdentity: true, ContextTimeoutEnabled: true, MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: time.Second, PoolSize: 64,
	})
	c.AddHook(primary{s.Master})
	return c, nil
}

// sentinelAccess is with what the Sentinels themselves are asked.
func sentinelAccess(s *undo.Sentinel) (endpoint.Access, error) {
	return endpoint.AccessTo(protocol.Endpoint{UsernameEnv: s.UsernameEnv, PasswordEnv: s.PasswordEnv}, "redis.sentinel")
}

// primary is the name of one that Sentinels are asked for. That they do not know it is an error of its own: the client gives the one of a
// server that has no such key, and whoever asks for a key would take it to be absent.
type primary struct{ name string }

// DialHook implements redis.Hook.
func (p primary) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("the Sentinels know no primary %q: redis.sentinel.master is a name that they monitor (SENTINEL MASTERS lists them)", p.name)
		}
		return conn, err
	}
}

// ProcessHook implements redis.Hook.
func (primary) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (primary) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// onServers does something on every server that has keys, one after the other.
func onServers(ctx context.Context, c redis.UniversalClient, do func(context.Context, *redis.Client) error) error {
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		return do(ctx, c.(*redis.Client))
	}
	var one sync.Mutex
	return cluster.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
		one.Lock()
		defer one.Unlock()
		return do(ctx, server)
	})
}

// bySentinels reads the section of the file where Sentinels say which server is the primary.
func bySentinels(r experiments.Redis, s *experiments.Sentinel) (undo.Store, error) {
	first := r
	first.Sentinel, first.URL = nil, s.URLs[0]
	w, err := whereIs(first)
	w.Sentinel = &undo.Sentinel{Master: s.Master, UsernameEnv: s.UsernameEnv, PasswordEnv: s.PasswordEnv}
	for _, address := range s.URLs {
		u, err := url.Parse(address)
		if err != nil {
			return w, fmt.Errorf("url of a Sentinel %w: want redis://host:26379", stores.ErrSettings)
		}
		w.Sentinel.Addrs = append(w.Sentinel.Addrs, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "26379")))
	}
	w.Addr = w.Sentinel.Addrs[0]
	return w, err
}

// Looks are connections for a probe: one to all that has keys, and one to the replica that is looked at in its place, where the file
// names one.
func (s *Store) Looks(r experiments.Redis) (client redis.UniversalClient, replica *redis.Client, err error) {
	if client, err = Connect(s.Where()); err != nil || r.Replica == "" {
		return client, nil, err
	}
	r.URL, r.Sentinel = r.Replica, nil
	w, err := whereIs(r)
	if err == nil {
		replica, err = Dial(w)
	}
	return client, replica, err
}
