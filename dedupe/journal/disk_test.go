package journal

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// memDisk is a disk in memory that can fill up, fail and lose power. It knows
// what was synced: the content of files, and separately the names in the one
// directory.
type memDisk struct {
	mu      sync.Mutex
	names   map[string]*memInode // as a process sees them
	durable map[string]*memInode // as they are after a loss of power
	space   int64                // bytes that may still be written; -1: any number
	syncs   int
	// fail, when not nil, may make an operation fail: open, read, write, sync,
	// truncate, rename, remove or syncdir.
	fail func(operation, name string) error
	// syncing, when not nil, is called in every sync of a file.
	syncing func()
}

type memInode struct {
	data   []byte
	synced []byte
	// since are the writes and truncations since the last sync.
	since  []func([]byte) []byte
	locked bool
}

func newDisk() *memDisk {
	return &memDisk{names: map[string]*memInode{}, durable: map[string]*memInode{}, space: -1}
}

func (d *memDisk) failing(operation, name string) error {
	if d.fail == nil {
		return nil
	}
	return d.fail(operation, name)
}

// kill is kill -9: locks are gone, the data is not.
func (d *memDisk) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, inode := range d.names {
		inode.locked = false
	}
}

// losePower keeps what was synced and a random part of what was not: a prefix
// of the operations, the last of them perhaps in part.
func (d *memDisk) losePower(random *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := d.durable
	if random.IntN(2) == 0 {
		names = d.names
	}
	after := map[string]*memInode{}
	for name, inode := range names {
		data := slices.Clone(inode.synced)
		for _, do := range inode.since[:random.IntN(len(inode.since)+1)] {
			before := len(data)
			if data = do(data); len(data) > before && random.IntN(2) == 0 {
				data = data[:before+random.IntN(len(data)-before)]
				break
			}
		}
		after[name] = &memInode{data: data, synced: slices.Clone(data)}
	}
	d.names, d.durable = after, maps.Clone(after)
}

func (d *memDisk) content(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if inode := d.names[name]; inode != nil {
		return slices.Clone(inode.data)
	}
	return nil
}

func (d *memDisk) put(name string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	inode := &memInode{data: slices.Clone(data), synced: slices.Clone(data)}
	d.names[name], d.durable[name] = inode, inode
}

func (d *memDisk) Open(name string, flag int) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failing("open", name); err != nil {
		return nil, err
	}
	inode := d.names[name]
	switch {
	case inode == nil && flag&os.O_CREATE == 0:
		return nil, fs.ErrNotExist
	case inode != nil && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case inode == nil:
		inode = &memInode{}
		d.names[name] = inode
	}
	f := &memFile{disk: d, inode: inode, name: name}
	if flag&os.O_TRUNC != 0 {
		f.truncate(0)
	}
	return f, nil
}

func (d *memDisk) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	inode := d.names[name]
	if inode == nil {
		return nil, fs.ErrNotExist
	}
	return memInfo{inode, int64(len(inode.data))}, nil
}

func (d *memDisk) Same(one, other fs.FileInfo) bool { return one.Sys() == other.Sys() }

func (d *memDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failing("rename", to); err != nil {
		return err
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	return nil
}

func (d *memDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failing("remove", name); err != nil {
		return err
	}
	if d.names[name] == nil {
		return fs.ErrNotExist
	}
	delete(d.names, name)
	return nil
}

func (d *memDisk) Names(string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (d *memDisk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failing("syncdir", dir); err != nil {
		return err
	}
	d.durable = maps.Clone(d.names)
	return nil
}

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

// failOn makes one kind of operation fail, as often as told.
func failOn(operation string, times int) func(string, string) error {
	return func(got, _ string) error {
		if got != operation || times == 0 {
			return nil
		}
		times--
		return errors.New("the disk fails: " + operation)
	}
}

func damagedNames(d *memDisk) []string {
	names, _ := d.Names("") // it never fails
	return slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, ".damaged-") })
}
