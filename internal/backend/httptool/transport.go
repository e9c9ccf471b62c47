package httptool

import (
	"net"
	"net/http"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/conn"
)

// idleConns is how many unused connections are kept. It is as high as the calls
// that a busy sidecar has in flight, so that they need not connect again.
const idleConns = 1024

// newTransport makes the transport. through is where a proxy is asked to go; nil
// without one.
func newTransport(cfg Config, conns *conn.Set, through *destination) *http.Transport {
	// A proxy is named by the operator, and mostly stands in their own network.
	dialer := &net.Dialer{
		Timeout:   cfg.ConnectTimeout,
		KeepAlive: 15 * time.Second,
		Control:   backend.GuardAddresses(cfg.AllowPrivate || through != nil),
	}
	dial := dialer.DialContext
	if through != nil {
		dial = through.guard(dial)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!cfg.DisableHTTP2)
	t := &http.Transport{
		DialContext:            conns.Dialer(dial),
		TLSClientConfig:        cfg.TLS.Clone(),
		TLSHandshakeTimeout:    cfg.ConnectTimeout,
		Protocols:              protocols,
		HTTP2:                  backend.HTTP2(),
		MaxIdleConnsPerHost:    idleConns,
		MaxConnsPerHost:        cfg.MaxConns,
		IdleConnTimeout:        cfg.IdleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	if cfg.Proxy != nil {
		t.Proxy = http.ProxyURL(cfg.Proxy)
	}
	return t
}
