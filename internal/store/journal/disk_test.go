package journal

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var errPower = errors.New("the power is gone")

// memDisk is a directory in memory that can fill up, fail and lose power. It knows what
// was synced: the content of files, and separately their names.
type memDisk struct {
	mu    sync.Mutex
	names map[string]*memFile // as a process sees them
	// durable are the names as they were when the directory was synced and after each
	// change since: any of them may be there after a loss of power.
	durable []map[string]*memFile
	space   int // bytes that may still be written; -1: any number
	calls   []string
	dies    int // the number of the call from which on nothing works; 0: none
	// fail, when not nil, may make an operation fail: create, write, sync, rename, read,
	// remove, names or syncdir.
	fail func(operation, name string) error
}

type memFile struct {
	disk         *memDisk
	name         string
	data, synced []byte
}

func newDisk() *memDisk {
	return &memDisk{names: map[string]*memFile{}, durable: []map[string]*memFile{{}}, space: -1}
}

// call notes a call, and says whether it works.
func (d *memDisk) call(operation, name string) error {
	d.calls = append(d.calls, operation)
	if d.dies > 0 && len(d.calls) >= d.dies {
		return errPower
	}
	if d.fail != nil {
		return d.fail(operation, name)
	}
	return nil
}

// revive is what the next process finds: after a loss of power what was synced, and of
// the rest whatever the disk had come to.
func (d *memDisk) revive(random *rand.Rand, power bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls, d.dies, d.fail = nil, 0, nil
	if !power {
		return
	}
	after := map[string]*memFile{}
	for name, f := range d.durable[random.IntN(len(d.durable))] {
		data := f.data[:len(f.synced)+random.IntN(len(f.data)-len(f.synced)+1)]
		after[name] = &memFile{disk: d, name: name, data: data, synced: data}
	}
	d.names, d.durable = after, []map[string]*memFile{maps.Clone(after)}
}

// changed notes a change of the names.
func (d *memDisk) changed() { d.durable = append(d.durable, maps.Clone(d.names)) }

func (d *memDisk) content(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return slices.Clone(f.data)
	}
	return nil
}

func (d *memDisk) put(name string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	data = slices.Clone(data)
	f := &memFile{disk: d, name: name, data: data, synced: data}
	d.names[name] = f
	d.durable = []map[string]*memFile{maps.Clone(d.names)}
}

// with returns the names that end in a suffix, in order.
func (d *memDisk) with(suffix string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(func(yield func(string) bool) {
		for name := range d.names {
			if strings.HasSuffix(name, suffix) && !yield(name) {
				return
			}
		}
	})
}

func (d *memDisk) Create(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("create", name); err != nil {
		return nil, err
	}
	if d.names[name] != nil {
		return nil, fs.ErrExist
	}
	f := &memFile{disk: d, name: name}
	d.names[name] = f
	d.changed()
	return f, nil
}

func (d *memDisk) ReadFile(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("read", name); err != nil {
		return nil, err
	}
	if f := d.names[name]; f != nil {
		return slices.Clone(f.data), nil
	}
	return nil, fs.ErrNotExist
}

func (d *memDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("rename", to); err != nil {
		return err
	}
	if d.names[from] == nil {
		return fs.ErrNotExist
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	d.changed()
	return nil
}

func (d *memDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("remove", name); err != nil {
		return err
	}
	if d.names[name] == nil {
		return fs.ErrNotExist
	}
	delete(d.names, name)
	d.changed()
	return nil
}

func (d *memDisk) Names() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("names", ""); err != nil {
		return nil, err
	}
	return slices.Collect(maps.Keys(d.names)), nil
}

func (d *memDisk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("syncdir", ""); err != nil {
		return err
	}
	d.durable = []map[string]*memFile{maps.Clone(d.names)}
	return nil
}

func (d *memDisk) Close() error { return nil }

// Write writes a part of it when it fails.
func (f *memFile) Write(data []byte) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := len(data), d.call("write", f.name)
	if err != nil {
		n /= 2
	}
	if d.space >= 0 {
		if n > d.space {
			n, err = d.space, syscall.ENOSPC
		}
		d.space -= n
	}
	f.data = append(f.data, data[:n]...)
	return n, err
}

func (f *memFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.call("sync", f.name); err != nil {
		return err
	}
	f.synced = f.data
	return nil
}

func (f *memFile) Close() error { return nil }

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

// What the tests show on a disk in memory is true of the machine's: both do and refuse
// the same.
func TestADiskInMemoryIsAsTheMachines(t *testing.T) {
	machines, err := openDirectory(filepath.Join(t.TempDir(), "j"))
	if err != nil {
		t.Fatal(err)
	}
	if err := machines.Remove(lockName); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]disk{"memory": newDisk(), "machine": machines} {
		t.Run(name, func(t *testing.T) {
			refused := func(what string, err, want error) {
				t.Helper()
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
			}
			_, err := d.ReadFile("one")
			refused("reading what is not there", err, fs.ErrNotExist)
			refused("removing what is not there", d.Remove("one"), fs.ErrNotExist)
			refused("renaming what is not there", d.Rename("one", "other"), fs.ErrNotExist)
			for _, name := range []string{"one", "other"} {
				f, err := d.Create(name)
				if err != nil {
					t.Fatal(err)
				}
				_, err = f.Write([]byte(name))
				if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
					t.Error(err)
				}
			}
			_, err = d.Create("one")
			refused("making what is there", err, fs.ErrExist)
			if err := errors.Join(d.Rename("one", "other"), d.Sync()); err != nil {
				t.Error(err)
			}
			if data, err := d.ReadFile("other"); err != nil || string(data) != "one" {
				t.Errorf("%q, %v", data, err)
			}
			if names, err := d.Names(); err != nil || !slices.Equal(names, []string{"other"}) {
				t.Errorf("names %q, %v", names, err)
			}
			if err := errors.Join(d.Remove("other"), d.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
