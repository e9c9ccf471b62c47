package embedded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

type medium interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync returns when what was written is as safe as it gets.
	Sync() error
	Truncate(size int64) error
	// inPlace reports why it is not what was opened, or not of so many bytes.
	inPlace(size int64) error
	// forget says that what stands in a segment is needed no more.
	forget(segment int64)
}

type osFile struct {
	*os.File

	info os.FileInfo
}

func (osFile) forget(int64) {}

func (d osFile) inPlace(size int64) error {
	info, err := os.Stat(d.Name())
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return errors.New("its file was removed or moved away while it was in use")
	case errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.EIO):
		return fmt.Errorf("its file cannot be looked at: %w", err)
	case info == nil: // that it cannot be looked at now says nothing about the file
	case !os.SameFile(d.info, info):
		return errors.New("another file was put in the place of its own while it was in use")
	case info.Size() < size:
		return fmt.Errorf("its file was cut from %d to %d bytes while it was in use", size, info.Size())
	}
	return nil
}

// ram is a medium that ends with its process. It has the memory of the segments that are in
// use; nobody who has not written one reads it.
type ram struct {
	heads    [segmentsAt]byte
	segments []*[segmentSize]byte
}

func (r *ram) at(offset int64) []byte {
	if offset < segmentsAt {
		return r.heads[offset:]
	}
	offset -= segmentsAt
	segment := &r.segments[offset/segmentSize]
	if *segment == nil {
		*segment = new([segmentSize]byte)
	}
	return (*segment)[offset%segmentSize:]
}

func (r *ram) ReadAt(b []byte, offset int64) (int, error) { return copy(b, r.at(offset)), nil }

func (r *ram) WriteAt(b []byte, offset int64) (int, error) { return copy(r.at(offset), b), nil }

func (*ram) Sync() error { return nil }

func (*ram) Close() error { return nil }

func (*ram) Truncate(int64) error { return nil }

func (*ram) inPlace(int64) error    { return nil }
func (r *ram) forget(segment int64) { r.segments[segment] = nil }
