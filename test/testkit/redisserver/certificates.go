package redisserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The files of a server with TLS, in its directory.
const (
	caFile, serverFile, serverKeyFile = "ca.pem", "server.pem", "server.key"
	clientFile, clientKeyFile         = "client.pem", "client.key"
)

// certificates are those of one server and of its clients.
type certificates struct{ client *tls.Config }

// authority signs the certificates of all servers of the test process, so that
// they trust each other.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	err  error
}

var theAuthority = sync.OnceValue(func() authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{err: err}
	}
	template := template("test authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{err: err}
	}
	cert, err := x509.ParseCertificate(der)
	return authority{cert: cert, key: key, err: err}
})

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"localhost"},
	}
}

// writeCertificates makes the files of a server in its directory.
func writeCertificates(tb testing.TB, dir string) *certificates {
	tb.Helper()
	ca := theAuthority()
	if ca.err != nil {
		tb.Fatal(ca.err)
	}
	writePEM(tb, filepath.Join(dir, caFile), "CERTIFICATE", ca.cert.Raw)
	issue(tb, ca, filepath.Join(dir, serverFile), filepath.Join(dir, serverKeyFile))
	cert, key := filepath.Join(dir, clientFile), filepath.Join(dir, clientKeyFile)
	issue(tb, ca, cert, key)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		tb.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	return &certificates{client: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}}
}

// issue writes a new certificate and its key.
func issue(tb testing.TB, ca authority, certFile, keyFile string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, template(filepath.Base(certFile)), ca.cert, key.Public(), ca.key)
	if err != nil {
		tb.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	writePEM(tb, certFile, "CERTIFICATE", cert)
	writePEM(tb, keyFile, "PRIVATE KEY", der)
}

func writePEM(tb testing.TB, path, kind string, der []byte) {
	tb.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
}
