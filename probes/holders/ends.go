package holders

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/lockdrill/lockdrill/internal/sockets"
)

// Ends finds who is at the other end of a connection.
type Ends struct{ Lives func() []Life }

// End is who that is.
type End struct {
	Incarnation string
	Inode       string // of the socket; "" = a pod's
	PID         int
}

// Of finds the life at addr, host:port as the server, or a proxy, sees it. port is the server's, where several connections have the
// address; 0 = any.
func (e *Ends) Of(addr string, port uint16) (End, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return End{}, fmt.Errorf("the connection is no TCP connection of a replica's: %.60q", addr)
	}
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	lives := e.Lives()
	if pods := byIP(lives, at.Addr().String()); len(pods) == 1 {
		return End{Incarnation: pods[0].Incarnation}, nil
	} else if len(pods) > 1 {
		return End{}, fmt.Errorf("%d replicas have the address %s", len(pods), at.Addr())
	}
	inodes, err := e.inodes(lives, at, port)
	switch {
	case err != nil:
		return End{}, err
	case len(inodes) == 0:
		return End{}, fmt.Errorf("no process of this host has the connection from %s", at)
	case len(inodes) > 1:
		return End{}, fmt.Errorf("%d connections come from %s", len(inodes), at)
	}
	return owned(lives, inodes[0])
}

// inodes are the sockets whose own end is at, in the networks that the caller and the replicas are in.
func (e *Ends) inodes(lives []Life, at netip.AddrPort, port uint16) (found []string, err error) {
	pids := []int{0}
	for _, l := range lives {
		if l.PID != 0 {
			pids = append(pids, l.PID)
		}
	}
	for _, pid := range pids {
		conns, failed := sockets.Established(pid)
		if pid == 0 && failed != nil {
			return nil, failed
		}
		for _, c := range conns {
			if c.Local == at && (port == 0 || c.Remote.Port() == port) {
				found = add(found, c.Inode)
			}
		}
	}
	return found, nil
}

// owned is the life that alone has a socket.
func owned(lives []Life, inode string) (End, error) {
	pids, err := sockets.Owners(inode)
	switch {
	case err != nil:
		return End{}, err
	case len(pids) == 0:
		return End{}, fmt.Errorf("no process that lockdrill may look at has the connection")
	case len(pids) > 1:
		return End{}, fmt.Errorf("the processes %v share the connection", pids)
	}
	i := slices.IndexFunc(lives, func(l Life) bool { return l.PID == pids[0] })
	if i < 0 {
		return End{}, fmt.Errorf("process %d has the connection, and is no replica: a proxy, or a child of one", pids[0])
	}
	return End{lives[i].Incarnation, inode, pids[0]}, nil
}

func byIP(lives []Life, ip string) (found []Life) {
	for _, l := range lives {
		if l.Known["ip"] != "" && l.Known["ip"] == ip {
			found = append(found, l)
		}
	}
	return found
}

func add[T comparable](list []T, x T) []T {
	if slices.Contains(list, x) {
		return list
	}
	return append(list, x)
}
