package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// disk is what the journal needs of a file system. Tests put one in its place
// that fills up, fails and crashes.
type disk interface {
	// Open opens a file for reading and writing, with mode 0600 when it makes it.
	Open(name string, flag int) (file, error)
	Stat(name string) (fs.FileInfo, error)
	// Same reports whether two looks were at the same file, whatever its name.
	Same(one, other fs.FileInfo) bool
	Rename(from, to string) error
	Remove(name string) error
	// Names lists a directory, sorted.
	Names(dir string) ([]string, error)
	// SyncDir makes what was created, renamed and removed in it durable.
	SyncDir(dir string) error
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	// Lock keeps every other process out until Close; errLocked when one was
	// first.
	Lock() error
}

var errLocked = errors.New("another process is using it")

// osDisk is the disk of the machine.
type osDisk struct{}

func (osDisk) Open(name string, flag int) (file, error) {
	f, err := os.OpenFile(name, flag|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osDisk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }
func (osDisk) Same(one, other fs.FileInfo) bool      { return os.SameFile(one, other) }
func (osDisk) Rename(from, to string) error          { return os.Rename(from, to) }
func (osDisk) Remove(name string) error              { return os.Remove(name) }

func (osDisk) Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (osDisk) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

type osFile struct{ *os.File }

func (f osFile) Lock() error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
