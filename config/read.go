package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// MaxFileBytes bounds the config file.
const MaxFileBytes = 16 << 20

// errTooLarge is what readBounded finds when a file is longer than allowed.
var errTooLarge = errors.New("the file is too large")

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from: nothing can be lost
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(f, limit+1))
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
