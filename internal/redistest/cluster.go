package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/servertest"

	"github.com/lockdrill/lockdrill/internal/poll"
)

const (
	masters   = 3
	slots     = 16384
	busOffset = 10000 // of a server's port among its cluster
	portTries = 200
	lookEvery = 20 * time.Millisecond
)

// StartCluster starts three redis-servers as a cluster of masters without replicas, and returns their addresses when each can serve
// every slot. The slots are dealt in order, as redis-cli does: the first server has those up to 5460.
func StartCluster(t testing.TB) []string {
	t.Helper()
	addrs := make([]string, masters)
	for i := range addrs {
		addrs[i] = startOn(t, clusterPort, "--cluster-enabled", "yes", "--cluster-node-timeout", "15000")
	}
	join(t, addrs, addrs[0])
	return addrs
}

// StartTLSCluster is StartCluster for servers that speak TLS, to one another too. addrs are where they do, plain where they do not; the
// authority's PEM file vouches for each server at its own address alone.
func StartTLSCluster(t testing.TB) (addrs []string, ca string, plain []string) {
	t.Helper()
	a := servertest.NewAuthority(t, t.TempDir())
	for i := range masters {
		port, err := clusterPort()
		if err != nil {
			t.Fatal(err)
		}
		own, bind := net.IPv4(127, 0, 0, 1), []string{"--bind", "127.0.0.1"}
		if i > 0 && runtime.GOOS == "linux" { // elsewhere loopback has that address alone
			own[len(own)-1] += byte(i)
			bind = append(bind, own.String())
		}
		cert, key := a.Server(own)
		addr := startOn(t, freePort, append(bind, "--cluster-enabled", "yes", "--cluster-node-timeout", "15000", "--cluster-announce-ip", own.String(),
			"--tls-port", strconv.Itoa(port), "--tls-cluster", "yes", "--tls-auth-clients", "no", "--tls-ca-cert-file", a.CA, "--tls-cert-file", cert, "--tls-key-file", key)...)
		addrs, plain = append(addrs, net.JoinHostPort(own.String(), strconv.Itoa(port))), append(plain, addr)
	}
	join(t, plain, addrs[0])
	return addrs, a.CA, plain
}

// join makes a cluster of servers; first is where the first of them is met.
func join(t testing.TB, addrs []string, first string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	if err := deal(ctx, addrs, first); err != nil {
		t.Fatalf("join redis-servers to a cluster: %v", err)
	}
}

// deal deals the slots and makes the servers known to one another.
func deal(ctx context.Context, addrs []string, meet string) error {
	for i, addr := range addrs {
		c := node(addr)
		defer c.Close()
		first, last := i*slots/masters, (i+1)*slots/masters-1
		host, port, _ := net.SplitHostPort(meet)
		err := errors.Join(c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(), c.ClusterAddSlotsRange(ctx, first, last).Err())
		if i > 0 {
			err = errors.Join(err, c.ClusterMeet(ctx, host, port).Err())
		}
		if err != nil {
			return fmt.Errorf("prepare %s: %w", addr, err)
		}
	}
	for _, addr := range addrs {
		if err := whole(ctx, addr); err != nil {
			return err
		}
	}
	return nil
}

// whole waits until the server at addr knows all the others and their slots.
func whole(ctx context.Context, addr string) error {
	c := node(addr)
	defer c.Close()
	var info string
	var err error
	for range poll.Every(ctx, lookEvery) {
		info, err = c.ClusterInfo(ctx).Result()
		if err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r\n", masters)) {
			return nil
		}
	}
	return fmt.Errorf("the cluster is not whole at %s: %w: %q", addr, ctx.Err(), info)
}

func node(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
}

// clusterPort is a free port whose companion for the cluster's bus is free too.
func clusterPort() (int, error) {
	for range portTries {
		port, err := freePort()
		if err != nil {
			return 0, err
		}
		if port+busOffset > 65535 {
			continue
		}
		bus, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+busOffset)))
		if err == nil {
			return port, bus.Close()
		}
	}
	return 0, fmt.Errorf("no free pair of ports among %d", portTries)
}

// FollowInCluster starts a replica of a master of a cluster, which takes its place within seconds of its death.
func FollowInCluster(t testing.TB, addrs []string, master string) string {
	t.Helper()
	addr := startOn(t, clusterPort, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	first, own := node(master), node(addr)
	defer first.Close()
	defer own.Close()
	host, port, _ := net.SplitHostPort(master)
	id, err := first.ClusterMyID(ctx).Result()
	err = errors.Join(err, own.ClusterMeet(ctx, host, port).Err())
	for _, other := range addrs {
		c := node(other)
		err = errors.Join(err, c.ConfigSet(ctx, "cluster-node-timeout", "1000").Err(), c.Close())
	}
	if err != nil {
		t.Fatalf("add a replica to the cluster: %v", err)
	}
	for range poll.Every(ctx, lookEvery) {
		if err = own.ClusterReplicate(ctx, id).Err(); err == nil { // it knows the master by now
			break
		}
	}
	for range poll.Every(ctx, lookEvery) { // that others know it, too, its vote needs
		said, failed := first.Info(ctx, "replication").Result()
		if err = failed; err == nil && strings.Contains(said, "state=online") {
			return addr
		}
	}
	t.Fatalf("the replica does not follow: %v", errors.Join(err, ctx.Err()))
	return ""
}
