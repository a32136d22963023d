package endpoint

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Each server of a cluster is known by its own host; one that calls itself by a bare address, by the name that stands in the file.
func TestEachServerIsAskedForTheCertificateOfItsOwnHost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	server := tls.NewListener(l, &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		asked <- h.ServerName
		return nil, context.Canceled
	}})
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct{ first, dialled, want string }{
		{"redis.example", "localhost", "localhost"},
		{"redis.example", "127.0.0.1", "redis.example"},
		{"10.0.0.1", "localhost", "localhost"},
		{"10.0.0.1", "127.0.0.1", ""}, // of an address no name is asked for
	} {
		o := &redis.Options{TLSConfig: &tls.Config{ServerName: c.first, MinVersion: tls.VersionTLS12}}
		conn, err := Dialer(o)(t.Context(), "tcp", net.JoinHostPort(c.dialled, port))
		if err == nil {
			_ = conn.Close()
			t.Fatal("a server without a certificate was believed")
		}
		if got := <-asked; got != c.want || o.TLSConfig.ServerName != c.first || !strings.Contains(err.Error(), "tls") {
			t.Errorf("%+v: asked for %q, %v", c, got, err)
		}
	}
}
