package app

import (
	"errors"
	"fmt"
	"net"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/server"
)

// listeners are the open addresses of a sidecar.
type listeners struct {
	agents []agentListener
	// operators and admin are nil when they are off.
	operators net.Listener
	admin     net.Listener
	// http is nil when it is off.
	http net.Listener
	// operator says where operators are served, or why they are not.
	operator string
}

// agentListener serves agents, and offers them profiles; nil is all.
type agentListener struct {
	net.Listener

	profiles []string
}

// listen opens every address before any of them serves: a sidecar that cannot
// have one of them does not start.
func listen(cfg *config.Config) (*listeners, error) {
	opened := &listeners{}
	for _, l := range cfg.Listen {
		listener, err := server.Listen(l.Reveal())
		if err != nil {
			return nil, opened.close(err)
		}
		opened.agents = append(opened.agents, agentListener{listener, l.Profiles})
	}
	if err := opened.forOperators(cfg); err != nil {
		return nil, opened.close(err)
	}
	if address := cfg.Admin.Reveal(); address != "off" {
		var err error
		if opened.admin, err = server.Listen("tcp://" + address); err != nil {
			return nil, opened.close(fmt.Errorf("admin: %w", err))
		}
	}
	if address := cfg.HTTP.Reveal(); address != "" {
		var err error
		if opened.http, err = server.Listen("tcp://" + address); err != nil {
			return nil, opened.close(fmt.Errorf("http: %w", err))
		}
	}
	return opened, nil
}

// forOperators opens the socket of operators. One that nobody has asked for, and
// that cannot be had, is off: a sidecar served agents before there was one.
func (l *listeners) forOperators(cfg *config.Config) error {
	address, off := cfg.OperatorAddress()
	if off != "" {
		l.operator = off
		return nil
	}
	listener, err := server.Listen(address)
	switch {
	case err == nil:
		l.operators, l.operator = listener, address
	case cfg.Operator.Reveal() != "":
		return fmt.Errorf("operator: %w", err)
	default:
		l.operator = fmt.Sprintf("off: %v; name another socket with operator: unix:///path", err)
	}
	return nil
}

// close closes them, because of an error, and returns all errors.
func (l *listeners) close(because error) error {
	for _, listener := range l.agents {
		because = errors.Join(because, listener.Close())
	}
	for _, listener := range []net.Listener{l.operators, l.admin, l.http} {
		if listener != nil {
			because = errors.Join(because, listener.Close())
		}
	}
	return because
}
