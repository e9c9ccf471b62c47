package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID is the user of the process that opened the connection, when it did
// (unix(4), LOCAL_PEERCRED).
func peerUID(conn *net.UnixConn) (uid uint32, err error) {
	return ofSocket(conn, func(fd int) (uint32, error) {
		found, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err != nil {
			return 0, err
		}
		return found.Uid, nil
	})
}
