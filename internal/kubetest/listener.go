package kubetest

import (
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

// Listener is a connection to the API server, for a test, that can be cut.
type Listener struct {
	Kubeconfig string // the same user, by this way

	l      net.Listener
	target string
	done   sync.WaitGroup

	mu    sync.Mutex
	shut  bool
	conns map[*net.TCPConn]bool
}

// Listener opens one for the user of a kubeconfig. It ends with the test.
func (e *Env) Listener(kubeconfig string) *Listener {
	e.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.t.Fatal(err)
	}
	w := &Listener{l: l, target: strings.TrimPrefix(e.url, "https://"), conns: map[*net.TCPConn]bool{}, Kubeconfig: kubeconfig + ".listener"}
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		e.t.Fatal(err)
	}
	text = []byte(strings.ReplaceAll(string(text), e.url, "https://"+l.Addr().String()))
	if err := os.WriteFile(w.Kubeconfig, text, 0o600); err != nil {
		e.t.Fatal(err)
	}
	w.done.Go(w.accept)
	e.t.Cleanup(func() {
		_ = l.Close()
		w.Shut()
		w.done.Wait()
	})
	return w
}

func (w *Listener) accept() {
	for {
		c, err := w.l.Accept()
		if err != nil {
			return
		}
		w.done.Go(func() { w.carry(c.(*net.TCPConn)) })
	}
}

func (w *Listener) carry(client *net.TCPConn) {
	defer client.Close()
	if !w.hold(client) {
		return
	}
	defer w.drop(client)
	c, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	server := c.(*net.TCPConn)
	defer server.Close()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(client, server)
		_, _ = client.Close(), server.Close()
	}()
	_, _ = io.Copy(server, client)
	_ = server.Close()
	<-back
}

// hold keeps the connection where Cut finds it; false = the way is shut.
func (w *Listener) hold(c *net.TCPConn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut {
		return false
	}
	w.conns[c] = true
	return true
}

func (w *Listener) drop(c *net.TCPConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

// Cut ends all connections, with an RST each or, where gently, with a FIN as a proxy that is restarted does; new ones pass.
func (w *Listener) Cut(gently bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		if !gently {
			_ = c.SetLinger(0)
		}
		_ = c.Close()
	}
}

// Shut cuts all connections and lets none pass until Open.
func (w *Listener) Shut() {
	w.mu.Lock()
	w.shut = true
	w.mu.Unlock()
	w.Cut(false)
}

// Open lets connections pass again.
func (w *Listener) Open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = false
}
