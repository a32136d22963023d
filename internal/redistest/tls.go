package redistest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/servertest"
)

// StartTLS starts a redis-server that speaks TLS, and returns its address for TLS, the PEM file of the authority that vouches for it (at
// loopback and every address in args), and its address without TLS. A server that was built without TLS makes the test skip, and fail in continuous integration.
func StartTLS(t testing.TB, args ...string) (addr, ca, plain string) {
	t.Helper()
	plain = Start(t, args...)
	a, at := newAuthority(t, t.TempDir()), []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, arg := range args {
		if ip := net.ParseIP(arg); ip != nil {
			at = append(at, ip)
		}
	}
	cert, key := a.server(at...)
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
		err = c.Do(ctx, "CONFIG", "SET", "tls-port", port, "tls-auth-clients", "no", "tls-ca-cert-file", a.ca,
			"tls-cert-file", cert, "tls-key-file", key).Err()
		if err == nil {
			return addr, a.ca, plain
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
	return newAuthority(t, t.TempDir()).ca
}

// authority signs certificates of servers.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	ca   string // the file of its own
}

// newAuthority makes one whose files are in dir.
func newAuthority(t testing.TB, dir string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.key = a.newKey()
	a.ca = a.write("ca.crt", "CERTIFICATE", a.sign(a.cert, a.key))
	return a
}

// server makes a certificate for a server at these addresses, and returns its files.
func (a *authority) server(at ...net.IP) (cert, key string) {
	a.t.Helper()
	secret := a.newKey()
	der := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "a test's server"}, NotBefore: a.cert.NotBefore,
		NotAfter: a.cert.NotAfter, IPAddresses: at, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // servers of a cluster are clients of one another
	}, secret)
	name := at[len(at)-1].String()
	cert = a.write(name+".crt", "CERTIFICATE", der)
	der, err := x509.MarshalECPrivateKey(secret)
	a.must(err)
	return cert, a.write(name+".key", "EC PRIVATE KEY", der)
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	return key
}

func (a *authority) sign(of *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, of, a.cert, &key.PublicKey, a.key)
	a.must(err)
	return der
}

func (a *authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	a.must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

func (a *authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
