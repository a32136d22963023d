package redistest

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/servertest"
)

// StartTLS starts a redis-server that speaks TLS, and returns its address for TLS, the PEM file of the authority that vouches for it (at
// loopback and every address in args), and its address without TLS. A server that was built without TLS makes the test skip, and fail in continuous integration.
func StartTLS(t testing.TB, args ...string) (addr, ca, plain string) {
	t.Helper()
	plain = Start(t, args...)
	a, at := servertest.NewAuthority(t, t.TempDir()), []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, arg := range args {
		if ip := net.ParseIP(arg); ip != nil {
			at = append(at, ip)
		}
	}
	cert, key := a.Server(at...)
	c := redis.NewClient(&redis.Options{Addr: plain, DisableIdentity: true})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	if has, err := c.ConfigGet(ctx, "tls-port").Result(); err != nil {
		t.Fatal(err)
	} else if len(has) == 0 {
		servertest.Missing(t, "this redis-server has no TLS")
	}
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr = l.Addr().String()
		_ = l.Close()
		_, port, _ := net.SplitHostPort(addr)
		err = c.Do(ctx, "CONFIG", "SET", "tls-port", port, "tls-auth-clients", "no", "tls-ca-cert-file", a.CA,
			"tls-cert-file", cert, "tls-key-file", key).Err()
		if err == nil {
			return addr, a.CA, plain
		}
		if ctx.Err() != nil { // another process took the port between its choice and its use, again and again
			t.Fatalf("start TLS: %v", err)
		}
	}
}

// Client is a certificate, and its key, that a server of StartTLS takes from a client, by the file of its authority: that of the server.
func Client(ca string) (cert, key string) {
	at := filepath.Join(filepath.Dir(ca), "127.0.0.1")
	return at + ".crt", at + ".key"
}

// Authority is the PEM file of an authority that nobody knows.
func Authority(t testing.TB) (ca string) {
	t.Helper()
	return servertest.NewAuthority(t, t.TempDir()).CA
}
