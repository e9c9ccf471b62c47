package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/sidecall/sidecall/internal/config"
)

// maxPEM bounds a file of certificates; the roots of a system have 0.3 MiB.
const maxPEM = 4 << 20

// loadTLS reads the files that a tls block names.
func loadTLS(cfg config.TLS) (*tls.Config, error) {
	loaded := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: cfg.ServerName.Reveal(),
		InsecureSkipVerify: cfg.InsecureSkipVerify, //nolint:gosec // the operator's explicit choice, documented as for tests only
	}
	if ca := cfg.CA.Reveal(); ca != "" {
		pem, err := config.ReadRegular(ca, maxPEM)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		loaded.RootCAs = x509.NewCertPool()
		if !loaded.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s holds no PEM certificate", ca)
		}
	}
	cert, key := cfg.Cert.Reveal(), cfg.Key.Reveal()
	switch {
	case cert == "" && key == "":
	case cert == "" || key == "":
		return nil, errors.New("cert and key belong together: set both or none")
	default:
		pair, err := loadPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		loaded.Certificates = []tls.Certificate{pair}
	}
	return loaded, nil
}

// loadPair is tls.LoadX509KeyPair of regular files only.
func loadPair(cert, key string) (tls.Certificate, error) {
	certPEM, err := config.ReadRegular(cert, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := config.ReadRegular(key, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}
