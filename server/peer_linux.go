package server

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peerUID is the user of the process that opened the connection, when it did
// (unix(7), SO_PEERCRED).
func peerUID(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var found *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) {
		found, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, asked); err != nil {
		return 0, err
	}
	return found.Uid, nil
}
