package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Listen opens unix:///path (mode 0600) or tcp://host:port. Its errors say what
// is wrong with the address and what to do.
func Listen(address string) (net.Listener, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	switch {
	case ok && scheme == "unix":
		return listenUnix(rest)
	case ok && scheme == "tcp":
		return listenTCP(rest)
	default:
		return nil, fmt.Errorf("listen address %q: want unix:///path/to/socket or tcp://127.0.0.1:8470", address)
	}
}

func listenTCP(address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on tcp://%s: the port is in use: stop what listens there, or choose another port", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on tcp://%s: %w", address, err)
	}
	return listener, nil
}

// masked is held while the process has another mask for new files: of two at a time one would
// take the other's for what was there before.
var masked sync.Mutex

// listenUnix takes over the socket file of a process that is gone, but never
// that of one that still answers.
func listenUnix(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("listen on unix://%s: its directory does not exist: create it, or choose another path", path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
		return nil, errors.Join(
			fmt.Errorf("listen on unix://%s: another process listens there: stop it, or choose another path", path), conn.Close())
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("listen on unix://%s: the path exists and is no socket: remove it, or choose another path", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on unix://%s: the socket of an earlier process cannot be removed: %w", path, err)
		}
	}
	// The socket is born with these permissions: there is no moment in which
	// others could connect.
	masked.Lock()
	old := syscall.Umask(0o177)
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	syscall.Umask(old)
	masked.Unlock()
	if err != nil {
		return nil, fmt.Errorf("listen on unix://%s: %w", path, err)
	}
	return listener, nil
}
