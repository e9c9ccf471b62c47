package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// MaxFileBytes bounds the config file.
const MaxFileBytes = 16 << 20

// errTooLarge is what readBounded finds when a file is longer than allowed.
var errTooLarge = errors.New("the file is too large")

// readBounded reads a file of at most limit bytes, whatever kind it is: a config
// may come through a pipe.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from: nothing can be lost
	return readAll(f, limit)
}

// regularPatience is how long a file that says it is regular may keep its reader
// waiting: some of the kernel's own (/proc/kmsg) wait for more without an end.
const regularPatience = 2 * time.Second

// ReadRegular reads a regular file, or what links lead to, of at most limit bytes.
// A pipe, a device, a socket or a directory is an error, and is not opened:
// opening alone may wait for ever, or do something.
func ReadRegular(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		pe.Op = "open" // that it is looked at before is nobody's concern
	}
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, err
	}
	// It may have become another between the two looks, so it is opened without
	// waiting and looked at again.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from: nothing can be lost
	if info, err = f.Stat(); err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, err
	}
	_ = f.SetReadDeadline(time.Now().Add(regularPatience)) // the others cannot wait, and have none
	return readAll(f, limit)
}

// regular returns what a file is instead of a regular one, as an error.
func regular(info fs.FileInfo) error {
	var kind string
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	default:
		kind = "something else"
	}
	return fmt.Errorf("it is %s: expected a regular file", kind)
}

func readAll(from io.Reader, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(from, limit+1))
	switch {
	case err != nil:
		return nil, err
	case n > limit:
		return nil, fmt.Errorf("%w: more than %s", errTooLarge, Bytes(limit))
	}
	return buf.Bytes(), nil
}

// reason is err without the path that the sentence around it already names.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
