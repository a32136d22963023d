package redis

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
)

// servers are those that keys are looked at on: the masters of a cluster, the replica that looks go to, or the one server.
func (p *Keyspace) servers(ctx context.Context) ([]*node, error) {
	cluster, ok := p.o.Client.(*redis.ClusterClient)
	if !ok {
		n := p.newNode(p.o.Replica)
		if n.c == nil {
			n.c = p.o.Client.(*redis.Client)
		}
		return []*node{n}, nil
	}
	slots, err := cluster.ClusterSlots(ctx).Result() //lint:ignore SA1019 CLUSTER SHARDS came with Redis 7.0, and 6.2 is supported
	if err != nil {
		return nil, fmt.Errorf("ask for the cluster's layout: %w", err)
	}
	p.layout, p.asked = layoutOf(slots), p.o.Clock()
	by := map[string]*node{}
	var all []*node
	for _, s := range slots {
		if len(s.Nodes) == 0 {
			return nil, fmt.Errorf("slots %d to %d of the cluster have no server", s.Start, s.End)
		}
		addr := reachable(cluster, s.Nodes[0].Addr)
		if by[addr] == nil {
			n := p.newNode(endpoint.Client(&redis.Options{
				Addr: addr, Username: cluster.Options().Username, Password: cluster.Options().Password, Dialer: cluster.Options().Dialer,
			}, looksWithin))
			n.owned, n.alone = true, true
			by[addr], all = n, append(all, n)
		}
		by[addr].slots = append(by[addr].slots, s)
	}
	for _, n := range all {
		n.canary = n.canaryKey()
	}
	return all, nil
}

// reachable is an address as a server gives it; one without a host is at the host that was asked.
func reachable(c *redis.ClusterClient, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "" {
		return addr
	}
	host, _, _ = net.SplitHostPort(c.Options().Addrs[0])
	return net.JoinHostPort(host, port)
}

// sameLayout fails once a cluster's slots have moved: what happened to their keys since it was asked before is not known.
func (p *Keyspace) sameLayout(ctx context.Context) error {
	cluster, ok := p.o.Client.(*redis.ClusterClient)
	if now := p.o.Clock(); !ok || now-p.asked < int64(layoutEvery) {
		return nil
	}
	before, now := p.asked, p.o.Clock()
	slots, err := cluster.ClusterSlots(ctx).Result() //lint:ignore SA1019 CLUSTER SHARDS came with Redis 7.0, and 6.2 is supported
	if err != nil {
		return fmt.Errorf("ask for the cluster's layout: %w", err)
	}
	if p.asked = now; layoutOf(slots) != p.layout {
		const why = "slots of the cluster moved to other servers"
		p.gap(history.Span{From: before, To: p.o.Clock()}, why)
		return fmt.Errorf("%s", why)
	}
	return nil
}

// layoutOf is which master has which slots, as text.
func layoutOf(slots []redis.ClusterSlot) string {
	var parts []string
	for _, s := range slots {
		master := ""
		if len(s.Nodes) > 0 {
			master = s.Nodes[0].ID + " " + s.Nodes[0].Addr
		}
		parts = append(parts, fmt.Sprintf("%d-%d %s", s.Start, s.End, master))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// has says whether a key is the server's.
func (n *node) has(key string) bool {
	if !n.alone {
		return true
	}
	slot := slotOf(key)
	return slices.ContainsFunc(n.slots, func(s redis.ClusterSlot) bool { return slot >= s.Start && slot <= s.End })
}

// mostSuffixes is among how many keys one of each server's is found: a server of few slots is not told of by a canary.
const mostSuffixes = 2000

// canaryKey is a key of the run's own that lives on this server; "" = none was found.
func (n *node) canaryKey() string {
	for i := range mostSuffixes {
		if key := fmt.Sprintf("%s:%d", n.p.o.Canary, i); n.has(key) {
			return key
		}
	}
	return ""
}

// slotOf is the slot of a key in a cluster: CRC16 (XMODEM) of its name, or of what stands in its first braces.
func slotOf(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % 16384
}
