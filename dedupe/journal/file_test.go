package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

type memFile struct {
	disk   *memDisk
	inode  *memInode
	name   string
	locks  bool
	closed bool
}

func (f *memFile) ReadAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	if err := f.disk.failing("read", f.name); err != nil {
		return 0, err
	}
	if at >= int64(len(f.inode.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.inode.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	if err := f.disk.failing("write", f.name); err != nil {
		return 0, err
	}
	n, full := len(b), error(nil)
	if space := f.disk.space; space >= 0 && int64(n) > space {
		n, full = int(space), syscall.ENOSPC
	}
	if f.disk.space >= 0 {
		f.disk.space -= int64(n)
	}
	written := slices.Clone(b[:n])
	f.do(func(data []byte) []byte {
		if missing := int(at) + len(written) - len(data); missing > 0 {
			data = append(data, make([]byte, missing)...)
		}
		copy(data[at:], written)
		return data
	})
	return n, full
}

// do changes the file and remembers how, for a loss of power.
func (f *memFile) do(change func([]byte) []byte) {
	f.inode.data = change(f.inode.data)
	f.inode.since = append(f.inode.since, change)
}

func (f *memFile) Sync() error {
	if f.disk.syncing != nil {
		f.disk.syncing()
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.syncs++
	if err := f.disk.failing("sync", f.name); err != nil {
		return err
	}
	f.inode.synced, f.inode.since = slices.Clone(f.inode.data), nil
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.failing("truncate", f.name); err != nil {
		return err
	}
	f.truncate(size)
	return nil
}

func (f *memFile) truncate(size int64) {
	f.do(func(data []byte) []byte { return slices.Clone(data[:min(size, int64(len(data)))]) })
}

func (f *memFile) Stat() (fs.FileInfo, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return memInfo{f.inode, int64(len(f.inode.data))}, nil
}

func (f *memFile) Lock() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.inode.locked {
		return errLocked
	}
	f.inode.locked, f.locks = true, true
	return nil
}

func (f *memFile) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	if f.locks {
		f.inode.locked = false
	}
	return nil
}

type memInfo struct {
	inode *memInode
	size  int64
}

func (i memInfo) Name() string       { return "" }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return 0o600 }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return false }
func (i memInfo) Sys() any           { return i.inode }

// A file in memory reads, grows, shrinks, locks and closes as one of the machine.
func TestAFileInMemoryIsAsTheMachines(t *testing.T) {
	for name, open := range disks(t) {
		t.Run(name, func(t *testing.T) {
			d, dir := open()
			name := filepath.Join(dir, "file")
			f, err := d.Open(name, os.O_CREATE)
			if err != nil {
				t.Fatal(err)
			}
			holds := func(want string) {
				t.Helper()
				got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
				if info, statErr := f.Stat(); err != nil || string(got) != want || statErr != nil || info.Size() != int64(len(want)) {
					t.Errorf("%q, %v, want %q; %v", got, err, want, statErr)
				}
			}
			for at, text := range map[int64]string{0: "begin", 8: "end"} {
				if n, err := f.WriteAt([]byte(text), at); n != len(text) || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
			}
			holds("begin\x00\x00\x00end")
			if n, err := f.ReadAt(make([]byte, 9), 5); n != 6 || !errors.Is(err, io.EOF) {
				t.Errorf("read %d beyond the end, %v", n, err)
			}
			if err := errors.Join(f.Truncate(3), f.Sync()); err != nil {
				t.Error(err)
			}
			holds("beg")
			second, err := d.Open(name, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Lock(); err != nil {
				t.Error(err)
			}
			if err := second.Lock(); !errors.Is(err, errLocked) {
				t.Errorf("locked twice: %v", err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := second.Lock(); err != nil {
				t.Errorf("its lock outlives it: %v", err)
			}
			if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) || !errors.Is(f.Close(), fs.ErrClosed) {
				t.Errorf("closed, and used: %v", err)
			}
			if err := second.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
