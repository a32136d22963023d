package injectors

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/sockets"
	"github.com/lockdrill/lockdrill/proxies/toxi"
)

// Faults on a proxy that is somebody's own. Observed replicas claim nothing: what shows that a fault was theirs is that their sockets are
// connected to that proxy, before the fault and under it.

const (
	throughWithin = time.Second           // for replicas that connect anew for each call
	throughEvery  = 10 * time.Millisecond //
	underWay      = 100 * time.Millisecond
)

// toxicPrefix begins the name of every toxic of ours; the run follows.
const toxicPrefix = "lockdrill-"

// vacant refuses a proxy that another run has left something on.
func (h *Hit) vacant(p toxi.Proxy) error {
	for _, t := range p.Toxics {
		if strings.HasPrefix(t.Name, toxicPrefix) && !strings.HasPrefix(t.Name, toxicPrefix+h.Run+"-") {
			return fmt.Errorf("proxy %s carries %s, a toxic of another run: wait for its end, or undo what it left with lockdrill recover", p.Name, t.Name)
		}
	}
	return nil
}

// links are the connections of a process to a proxy.
func (h *Hit) links(name string) ([]sockets.Conn, error) {
	pid := h.processes()[name]
	mine := h.Routes(name)
	i := slices.IndexFunc(h.Rec.Routes, func(w undo.ProxyRoute) bool { return len(mine) > 0 && w.Proxy == mine[0].Proxy })
	if pid == 0 || i < 0 {
		return nil, nil
	}
	all, err := sockets.Established(pid)
	if err != nil {
		if _, here := sockets.Established(0); here == nil { // it has ended meanwhile
			err = nil
		}
		return nil, err
	}
	inodes, ends := sockets.Of(pid), listens(&h.Rec.Routes[i])
	return slices.DeleteFunc(all, func(c sockets.Conn) bool { return !inodes[c.Inode] || !slices.Contains(ends, c.Remote) }), nil
}

// listens are the addresses at which a proxy is reached: of one that listens on all of its machine's, those of this one, and of its API.
func listens(w *undo.ProxyRoute) []netip.AddrPort {
	at, err := netip.ParseAddrPort(w.Listen)
	if err != nil {
		return nil
	}
	if !at.Addr().IsUnspecified() {
		return []netip.AddrPort{netip.AddrPortFrom(at.Addr().Unmap(), at.Port())}
	}
	var hosts []string
	if u, err := url.Parse(w.API); err == nil {
		hosts, _ = net.LookupHost(u.Hostname()) // none: its API could not have been asked
	}
	own, _ := net.InterfaceAddrs() // none: then by the API's host alone
	for _, a := range own {
		host, _, _ := strings.Cut(a.String(), "/")
		hosts = append(hosts, host)
	}
	var ends []netip.AddrPort
	for _, h := range hosts {
		if ip, err := netip.ParseAddr(h); err == nil {
			ends = append(ends, netip.AddrPortFrom(ip.Unmap(), at.Port()))
		}
	}
	return ends
}

// through waits until each victim that lives is connected to its proxy, and gives those connections by name.
func (h *Hit) through(ctx context.Context, until func() bool) (map[string][]sockets.Conn, error) {
	seen := map[string][]sockets.Conn{}
	again := time.NewTicker(throughEvery)
	defer again.Stop()
	for {
		var missing []string
		for _, name := range h.living(h.names()) {
			if len(seen[name]) > 0 {
				continue
			}
			links, err := h.links(name)
			if seen[name] = links; err != nil {
				return seen, err
			}
			if len(links) == 0 {
				missing = append(missing, name)
			}
		}
		switch {
		case len(missing) == 0 && len(seen) > 0:
			return seen, nil
		case until() || ctx.Err() != nil:
			slices.Sort(missing)
			return seen, fmt.Errorf("no connection of %s to the proxy was seen: does its traffic go round it?", strings.Join(missing, ", "))
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// seeLinks is seeVictims where the victims claim nothing. Under a cut their connections are gone, or no lease of theirs is extended while
// it lasts; under any other fault they are there.
func (h *Hit) seeLinks(ctx context.Context) (string, error) {
	end, names := h.Applied.From+h.fault().Declared, h.names()
	over := func() bool { return h.now() >= end }
	who := strings.Join(names, ", ")
	if !h.ground.evidence.cut {
		if _, err := h.through(ctx, over); err != nil {
			return "", cancelled(ctx, err)
		}
		return who + ": connected through the proxy, before the fault and under it", nil
	}
	before := h.ground.links
	again := time.NewTicker(evidenceEvery)
	defer again.Stop()
	for !over() && ctx.Err() == nil {
		if key := h.extended(names, h.Applied.To+int64(underWay)); key != "" {
			return "", void(history.Unconfirmed, "the lease of %s was extended under the fault: does its holder go round the proxy?", key)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
	for _, name := range names {
		if now, err := h.links(name); err != nil {
			return "", void(history.Unconfirmed, "%v", err)
		} else if !h.ground.holds && slices.ContainsFunc(before[name], func(c sockets.Conn) bool { return slices.Contains(now, c) }) {
			return "", void(history.Unconfirmed, "a connection of %s that was open before the fault outlived it", name)
		}
	}
	return who + ": connected through the proxy before the fault, and no lease of theirs was extended under it", cancelled(ctx, nil)
}

// cancelled is an error of a confirmation: void, unless the run itself ended it.
func cancelled(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case err != nil:
		return void(history.Unconfirmed, "%v", err)
	}
	return nil
}

// extended names a key of a victim whose lease was surely extended after an instant; "" = there is none.
func (h *Hit) extended(names []string, after int64) string {
	ends := history.Ends{}
	for _, e := range h.Past() {
		if e.Kind != history.LookKind {
			continue
		}
		longer := ends.Extended(e)
		if l := e.Look; longer && e.N > h.Rec.Shot.N && l.Prev != nil && l.Prev.From >= after && slices.Contains(names, history.ReplicaOf(l.Holder)) {
			return e.Key
		}
	}
	return ""
}
