package servertest

import (
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
)

// Authority signs certificates of servers.
type Authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	CA   string // the PEM file of its own certificate
}

// NewAuthority makes one whose files are in dir.
func NewAuthority(t testing.TB, dir string) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: dir, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.key = a.newKey()
	a.CA = a.write("ca.crt", "CERTIFICATE", a.sign(a.cert, a.key))
	return a
}

// Server makes a certificate for a server at these addresses, which clients may show as well, and returns its files.
func (a *Authority) Server(at ...net.IP) (cert, key string) {
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

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	return key
}

func (a *Authority) sign(of *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, of, a.cert, &key.PublicKey, a.key)
	a.must(err)
	return der
}

func (a *Authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	a.must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

func (a *Authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
