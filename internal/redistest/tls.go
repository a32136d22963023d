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
)

// StartTLS starts a redis-server that speaks TLS, and returns its address for TLS, the PEM file of the authority that vouches for it (at
// loopback and every address in args), and its address without TLS. A server that was built without TLS makes the test skip, and fail in continuous integration.
func StartTLS(t testing.TB, args ...string) (addr, ca, plain string) {
	t.Helper()
	plain = Start(t, args...)
	dir := t.TempDir()
	ca = certificates(t, dir, args)
	c := redis.NewClient(&redis.Options{Addr: plain, DisableIdentity: true})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	if has, err := c.ConfigGet(ctx, "tls-port").Result(); err != nil {
		t.Fatal(err)
	} else if len(has) == 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this redis-server has no TLS: continuous integration must test with it")
		}
		t.Skip("SKIPPED, NOT TESTED: this redis-server has no TLS")
	}
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr = l.Addr().String()
		_ = l.Close()
		_, port, _ := net.SplitHostPort(addr)
		err = c.Do(ctx, "CONFIG", "SET", "tls-port", port, "tls-auth-clients", "no", "tls-ca-cert-file", ca,
			"tls-cert-file", filepath.Join(dir, "server.crt"), "tls-key-file", filepath.Join(dir, "server.key")).Err()
		if err == nil {
			return addr, ca, plain
		}
		if ctx.Err() != nil { // another process took the port between its choice and its use, again and again
			t.Fatalf("start TLS: %v", err)
		}
	}
}

// certificates makes an authority and a certificate for 127.0.0.1, and every address in args, that it has signed, and returns the
// authority's file.
func certificates(t testing.TB, dir string, args []string) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	must(err)
	ca := write("ca.crt", "CERTIFICATE", der)
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "a test's server"}, NotBefore: authority.NotBefore,
		NotAfter: authority.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, arg := range args {
		if ip := net.ParseIP(arg); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		}
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	der, err = x509.CreateCertificate(rand.Reader, server, authority, &serverKey.PublicKey, key)
	must(err)
	write("server.crt", "CERTIFICATE", der)
	der, err = x509.MarshalECPrivateKey(serverKey)
	must(err)
	write("server.key", "EC PRIVATE KEY", der)
	return ca
}
