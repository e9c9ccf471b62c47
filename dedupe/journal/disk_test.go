package journal

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
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

// disks are the disk of the machine, in a directory of its own, and the one in memory,
// each with the names that its files have on it.
func disks(t *testing.T) map[string]func() (on disk, dir string) {
	return map[string]func() (disk, string){
		"machine": func() (disk, string) { return osDisk{}, t.TempDir() },
		"memory":  func() (disk, string) { return newDisk(), "" },
	}
}

// What the tests show on a disk in memory is true of the machine's: both do and refuse
// the same.
func TestADiskInMemoryIsAsTheMachines(t *testing.T) {
	for name, open := range disks(t) {
		t.Run(name, func(t *testing.T) {
			d, dir := open()
			one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
			refused := func(what string, err, want error) {
				t.Helper()
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
			}
			written := func(name string, flag int) {
				t.Helper()
				f, err := d.Open(name, flag)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt([]byte(name), 0); err != nil {
					t.Error(err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
			_, err := d.Open(one, 0)
			refused("opening what is not there", err, fs.ErrNotExist)
			_, err = d.Stat(one)
			refused("looking at what is not there", err, fs.ErrNotExist)
			refused("removing what is not there", d.Remove(one), fs.ErrNotExist)
			written(one, os.O_CREATE)
			written(other, os.O_CREATE|os.O_EXCL)
			_, err = d.Open(one, os.O_CREATE|os.O_EXCL)
			refused("making what is there", err, fs.ErrExist)
			before, err := d.Stat(one)
			if err != nil || before.Size() != int64(len(one)) {
				t.Errorf("%v, %v", before, err)
			}
			apart, _ := d.Stat(other)
			if err := d.Rename(one, other); err != nil {
				t.Error(err)
			}
			after, err := d.Stat(other)
			if err != nil || !d.Same(before, after) || d.Same(before, apart) {
				t.Errorf("it is another file under its new name, or the one that had it: %v", err)
			}
			if names, err := d.Names(dir); err != nil || !slices.Equal(names, []string{"other"}) {
				t.Errorf("names %q, %v", names, err)
			}
			if f, err := d.Open(other, os.O_TRUNC); err != nil || f.Close() != nil {
				t.Error(err)
			}
			if after, err = d.Stat(other); err != nil || after.Size() != 0 {
				t.Errorf("%v, %v after it was emptied", after, err)
			}
			if err := errors.Join(d.SyncDir(filepath.Join(dir, ".")), d.Remove(other)); err != nil {
				t.Error(err)
			}
		})
	}
}
