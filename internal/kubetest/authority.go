package kubetest

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
	"strings"
	"time"
)

// authority signs the certificates of one cluster.
type authority struct {
	cert     *x509.Certificate
	key      *ecdsa.PrivateKey
	pem      []byte
	file     string // of the PEM
	accounts string // file of the key that signs service accounts' tokens
}

const validFor = 24 * time.Hour

func newAuthority(dir string) (*authority, error) {
	a := &authority{file: filepath.Join(dir, "ca.crt"), accounts: filepath.Join(dir, "accounts.key")}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	self := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(validFor), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, self, self, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.pem = block("CERTIFICATE", der)
	if err := os.WriteFile(a.file, a.pem, 0o600); err != nil {
		return nil, err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if der, err = x509.MarshalECPrivateKey(accounts); err != nil {
		return nil, err
	}
	return a, os.WriteFile(a.accounts, block("EC PRIVATE KEY", der), 0o600)
}

// issue makes a certificate, PEM, for a user in groups, or for a server at these IP addresses and its name.
func (a *authority) issue(name string, groups []string, ips ...string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: groups}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(ips) > 0 {
		c.ExtKeyUsage, c.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []string{name, "localhost"}
		for _, ip := range append(ips, "127.0.0.1", "10.0.0.1") {
			c.IPAddresses = append(c.IPAddresses, net.ParseIP(ip))
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	return block("CERTIFICATE", der), block("EC PRIVATE KEY", keyDER), err
}

// issueFiles writes what issue makes to NAME.crt and NAME.key in dir.
func (a *authority) issueFiles(dir, name string, groups []string, ips ...string) (cert, key string, err error) {
	c, k, err := a.issue(name, groups, ips...)
	if err != nil {
		return "", "", err
	}
	cert, key = fileName(dir, name, ".crt"), fileName(dir, name, ".key")
	if err := os.WriteFile(cert, c, 0o600); err != nil {
		return "", "", err
	}
	return cert, key, os.WriteFile(key, k, 0o600)
}

// fileName is a file for a name that may have colons, "system:kube-scheduler".
func fileName(dir, name, ext string) string {
	return filepath.Join(dir, strings.NewReplacer(":", "_", "/", "_").Replace(name)+ext)
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}
