package httptool

import (
	"net"
	"net/http"
	"time"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/backend/conn"
)

// idleConns is how many unused connections are kept. It is as high as the calls
// that a busy sidecar has in flight, so that they need not connect again.
const idleConns = 1024

func newTransport(cfg Config, conns *conn.Set) *http.Transport {
	dialer := &net.Dialer{
		Timeout:   cfg.ConnectTimeout,
		KeepAlive: 15 * time.Second,
		Control:   backend.GuardAddresses(cfg.AllowPrivate),
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!cfg.DisableHTTP2)
	t := &http.Transport{
		DialContext:            conns.Dialer(dialer.DialContext),
		TLSClientConfig:        cfg.TLS.Clone(),
		TLSHandshakeTimeout:    cfg.ConnectTimeout,
		Protocols:              protocols,
		HTTP2:                  backend.HTTP2(),
		MaxIdleConnsPerHost:    idleConns,
		MaxConnsPerHost:        cfg.MaxConns,
		IdleConnTimeout:        cfg.IdleTimeout,
		MaxResponseHeaderBytes: cfg.MaxHeaderBytes,
	}
	if cfg.Proxy != nil {
		t.Proxy = http.ProxyURL(cfg.Proxy)
	}
	return t
}
