package backend

import (
	"net/http"
	"time"
)

const (
	// pingAfter is how long an HTTP/2 connection may be silent before it is
	// asked whether it lives.
	pingAfter = 10 * time.Second
	// pongWithin is how long it has for the answer.
	pongWithin = 5 * time.Second
)

// HTTP2 is how backends speak HTTP/2. All requests share one connection, and
// one on which nothing arrives any more would take every call with it until the
// kernel gives up, which takes a quarter of an hour. As it is, calls are lost on
// it for up to 15 s.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pongWithin}
}
