package demo

import (
	"context"
	"net"
)

// listen opens a loopback address.
func listen(addr string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
}

// freePort returns a loopback address that nothing listens on.
func freePort() (string, error) {
	listener, err := listen("127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
