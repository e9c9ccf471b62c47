package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The names of a journal: a lock, and entries by their numbers, in 16 hexadecimal digits
// so that they sort; with a suffix while they are written, and when they are damaged.
const (
	lockName        = "lock"
	temporarySuffix = ".new"
	damagedSuffix   = ".damaged"
)

func nameOf(number uint64) string { return fmt.Sprintf("%016x", number) }

// parse is the inverse of nameOf; not ok for the lock, and for what no journal has.
func parse(name string) (number uint64, suffix string, ok bool) {
	suffix = filepath.Ext(name)
	hex := strings.TrimSuffix(name, suffix)
	number, err := strconv.ParseUint(hex, 16, 64)
	if err != nil || nameOf(number) != hex || suffix != "" && suffix != temporarySuffix && suffix != damagedSuffix {
		return 0, "", false
	}
	return number, suffix, true
}

// disk is what the journal needs of its directory. Tests put one in its place that fills
// up, fails and crashes.
type disk interface {
	// Create makes a file that is not there yet.
	Create(name string) (file, error)
	ReadFile(name string) ([]byte, error)
	Rename(from, to string) error
	Remove(name string) error
	Names() ([]string, error)
	// Sync makes durable what was renamed.
	Sync() error
	Close() error
}

type file interface {
	io.WriteCloser
	Sync() error
}

var (
	errLocked      = errors.New("another process is using it")
	errNotAJournal = errors.New("it is not a journal of Sidecall, and was left untouched")
)

// directory is a disk of the machine, locked for this process.
type directory struct {
	*os.Root
	self, lock *os.File
}

// openDirectory opens a directory in which nothing but a journal is, or makes it.
func openDirectory(path string) (disk, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%w: it is no directory", errNotAJournal)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	d := directory{Root: root}
	if d.self, err = root.Open("."); err == nil {
		err = d.take(path)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// take makes the directory this process's own.
func (d *directory) take(path string) error {
	names, err := d.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, _, ok := parse(name); !ok && name != lockName {
			return fmt.Errorf("%w: %s is in it", errNotAJournal, name)
		}
	}
	if d.lock, err = d.OpenFile(lockName, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	} else if err != nil {
		return err
	}
	above, err := os.Open(filepath.Dir(path)) // the process that made it may not have come to sync that
	if err != nil {
		return err
	}
	return errors.Join(above.Sync(), above.Close())
}

func (d directory) Create(name string) (file, error) {
	return d.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

func (d directory) Names() ([]string, error) {
	if _, err := d.self.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return d.self.Readdirnames(-1)
}

func (d directory) Sync() error { return d.self.Sync() }

func (d directory) Close() error {
	err := d.Root.Close()
	for _, f := range []*os.File{d.self, d.lock} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
