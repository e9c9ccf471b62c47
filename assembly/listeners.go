package assembly

import (
	"errors"
	"fmt"
	"net"

	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/server"
)

// listeners are the open addresses of a sidecar.
type listeners struct {
	grpc  []net.Listener
	admin net.Listener // nil when it is off
}

// listen opens every address before any of them serves: a sidecar that cannot
// have one of them does not start.
func listen(cfg *config.Config) (*listeners, error) {
	opened := &listeners{}
	for _, address := range config.RevealList(cfg.Listen) {
		listener, err := server.Listen(address)
		if err != nil {
			return nil, opened.close(err)
		}
		opened.grpc = append(opened.grpc, listener)
	}
	if address := cfg.Admin.Reveal(); address != "off" {
		var err error
		if opened.admin, err = server.Listen("tcp://" + address); err != nil {
			return nil, opened.close(fmt.Errorf("admin: %w", err))
		}
	}
	return opened, nil
}

// close closes those for gRPC, because of an error, and returns all errors.
func (l *listeners) close(because error) error {
	for _, listener := range l.grpc {
		because = errors.Join(because, listener.Close())
	}
	return because
}
