package server

import (
	"context"
	"errors"
	"net"
	"os/user"
	"strconv"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// User is who opened a connection to a unix socket, as the operating system
// knows it. It is the AuthInfo of connections to the operator's surface.
type User struct {
	// Name of the user; "uid 1000" where the system has no name for it.
	Name string
}

// AuthType implements credentials.AuthInfo.
func (User) AuthType() string { return "peercred" }

// unverified stands for a user whom the operating system does not name: this one
// cannot, or it is no socket that it was asked of.
const unverified = "(unverified)"

// userOf is the user behind a request.
func userOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		if u, ok := p.AuthInfo.(User); ok {
			return u.Name
		}
	}
	return unverified
}

// peerCredentials asks the operating system who opened each connection. What it
// says cannot be made up by whoever connects. What only a client asks of credentials is
// answered as for any connection without encryption.
type peerCredentials struct {
	credentials.TransportCredentials
}

// errNoPeer says that this operating system does not tell who connects.
var errNoPeer = errors.New("this operating system does not tell who opened a unix socket")

// ServerHandshake implements credentials.TransportCredentials. A connection of
// which the system could tell, and does not, is not served.
func (peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return conn, User{unverified}, nil
	}
	uid, err := peerUID(socket)
	switch {
	case errors.Is(err, errNoPeer):
		return conn, User{unverified}, nil
	case err != nil:
		return nil, nil, err
	}
	return conn, User{nameOf(uid)}, nil
}

// nameOf is the name of a user; of one without, its number.
func nameOf(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if known, err := user.LookupId(number); err == nil && known.Username != "" {
		return known.Username
	}
	return "uid " + number
}

// Clone implements credentials.TransportCredentials.
func (p peerCredentials) Clone() credentials.TransportCredentials { return p }
