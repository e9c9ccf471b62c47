package httptool

import (
	"cmp"
	"crypto/tls"
	"net/url"
	"time"
)

const (
	defaultConnectTimeout = 10 * time.Second
	defaultIdleTimeout    = 4 * time.Second
	// maxHeaderBytes bounds the header of a response.
	maxHeaderBytes = 64 << 10
)

// Config describes one HTTP API. Zero durations and numbers stand for the
// defaults.
type Config struct {
	// Name of the backend, for messages.
	Name string
	// BaseURL is put before the path of every tool: http or https, host, and
	// maybe a path. No user, query or fragment.
	BaseURL string
	// HidePath keeps the path of BaseURL out of spans: it may be secret.
	HidePath bool
	// Headers are sent with every request; secrets are resolved. Host sets the
	// Host header.
	Headers map[string]string
	// Mask takes out of an error message what the upstream must not echo; nil is
	// nothing.
	Mask func(text string) string
	// AllowPrivate allows loopback and private addresses. Link-local and
	// metadata addresses are always refused (backend.GuardAddresses).
	AllowPrivate bool
	// Proxy is a forward proxy; nil means none, whatever the environment says.
	// The base URL's host is still guarded, by what it resolves to here; the
	// proxy resolves it again by itself. Its own address may be private.
	Proxy *url.URL
	// MaxConns bounds the connections; 0 means no bound. Calls beyond it wait,
	// at most until their context ends.
	MaxConns int
	// DisableHTTP2 keeps to HTTP/1.1 where an https upstream offers HTTP/2.
	DisableHTTP2 bool
	// TLS is how an https upstream is verified, and the client certificate.
	TLS *tls.Config
	// ConnectTimeout bounds DNS and TCP connect, and once more the TLS
	// handshake. Default 10 s.
	ConnectTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. The default of 4 s
	// is below the 5 s after which common servers (Node, uvicorn) close theirs:
	// a request that crosses such a close may or may not have run, and a new
	// connection costs less than that doubt.
	IdleTimeout time.Duration
}

func (c Config) withDefaults() Config {
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, defaultConnectTimeout)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, defaultIdleTimeout)
	if c.Mask == nil {
		c.Mask = func(text string) string { return text }
	}
	return c
}
