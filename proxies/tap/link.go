package tap

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is a client's connection and its own to the server, and the faults that hold both.
type link struct {
	client, server net.Conn
	once           sync.Once
	gone           chan struct{} // closed by kill
	hangs          atomic.Bool   // replies are withheld: it is of no use to its client any more
	holds          []*Armed      // faults that hold it until it closes: of whoever reads the client, afterwards of whoever serves
}

// Cut ends a connection whose replies are withheld.
func (l *link) Cut() {
	if l.hangs.Load() {
		l.Kill()
	}
}

// Kill closes both sides. It does not wait.
func (l *link) Kill() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.client.Close()
		if over, ok := l.server.(interface{ NetConn() net.Conn }); ok { // TLS would say goodbye, and wait
			_ = over.NetConn().Close()
			return
		}
		_ = l.server.Close()
	})
}

// hold notes that the fault has the connection until it closes. A fault that has ended meanwhile does not.
func (l *link) hold(a *Armed) {
	l.holds = append(l.holds, a)
	l.hangs.Store(true)
	select {
	case <-a.Over:
		l.Kill()
	default:
	}
}

// holdBack waits as long as the fault says; false = the connection was killed.
func (l *link) holdBack(a *Armed) bool {
	timer := time.NewTimer(a.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.Over:
	case <-l.gone:
		return false
	}
	return true
}
