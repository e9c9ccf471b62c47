//go:build linux || darwin

package server

import (
	"errors"
	"net"
)

// ofSocket asks something of the descriptor of a connection.
func ofSocket(conn *net.UnixConn, ask func(fd int) (uid uint32, err error)) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var asked error
	err = raw.Control(func(fd uintptr) { uid, asked = ask(int(fd)) })
	if err := errors.Join(err, asked); err != nil {
		return 0, err
	}
	return uid, nil
}
