package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// original is the file as it was opened, to notice when it is not that any more.
// A file that was removed or replaced goes on taking what is written to it, until
// the process ends and all of it is gone; one that was cut or overwritten is read
// as pages that fault, or as records that never were.
type original struct {
	path string
	info os.FileInfo
	// head are the two meta pages, mapped as the engine maps them. Each commit
	// writes one of them, and nobody else does.
	head     []byte
	pageSize int
	// size is what the file had at least, in bytes: it never becomes shorter.
	size atomic.Int64

	// writing is held while a transaction is written. It guards metas, the heads of
	// the meta pages as this process has left them.
	writing sync.Mutex
	metas   [2][pageHead + metaSize]byte
}

// errOverwritten stands for a page that cannot be read any more, or that is not as
// the engine has written it.
var errOverwritten = errors.New("its file was cut short or overwritten by somebody else while it was in use")

// newOriginal returns a file that nobody else writes to, as it is now.
func newOriginal(path string, file *os.File, info os.FileInfo, pageSize int) (*original, error) {
	head, err := syscall.Mmap(int(file.Fd()), 0, 2*pageSize, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map its first pages: %w", err)
	}
	o := &original{path: path, info: info, head: head, pageSize: pageSize}
	o.size.Store(info.Size())
	for i := range o.metas {
		copy(o.metas[i][:], o.meta(i))
	}
	return o, nil
}

// meta is a meta page, as far as it says anything.
func (o *original) meta(i int) []byte { return o.head[i*o.pageSize:][:pageHead+metaSize] }

// forget lets go of what is mapped.
func (o *original) forget() error { return syscall.Munmap(o.head) }

// inPlace reports why the file under the path is not the one that was opened, or
// not the whole of it.
func (o *original) inPlace() error {
	size := o.size.Load()
	info, err := os.Stat(o.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return errors.New("its file was removed or moved away while it was in use")
	case errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.EIO):
		return fmt.Errorf("its file cannot be looked at: %w", err)
	case info == nil: // that it cannot be looked at now says nothing about the file
	case !os.SameFile(o.info, info):
		return errors.New("another file was put in the place of its own while it was in use")
	case info.Size() < size:
		return fmt.Errorf("its file was cut from %d to %d bytes while it was in use", size, info.Size())
	default:
		o.size.CompareAndSwap(size, info.Size())
	}
	return nil
}

// readable reports whether the engine can begin to read: it takes its locks
// before it looks at the meta pages, and keeps them when it panics there. This is
// asked before every look into the store, and costs next to nothing. Whoever asks
// has made faults panic.
func (o *original) readable() (err error) {
	defer func() {
		if recover() != nil {
			err = errOverwritten
		}
	}()
	for i := range o.metas {
		// Never written but as they are, so nobody sees half of a write here.
		if m := o.meta(i)[pageHead:]; order.Uint32(m) != boltMagic || order.Uint32(m[4:]) != boltVersion {
			return errOverwritten
		}
	}
	return nil
}

// untouched reports why what the file says first is not what this process has
// left there. Whoever asks holds writing, and has made faults panic.
func (o *original) untouched() (err error) {
	defer func() {
		if recover() != nil {
			err = errOverwritten
		}
	}()
	for i := range o.metas {
		if !bytes.Equal(o.metas[i][:], o.meta(i)) {
			return errOverwritten
		}
	}
	return nil
}

// wrote notes that this process has written a transaction, and reports why that
// is not what the file says. Whoever asks holds writing, and has made faults panic.
func (o *original) wrote(id int64) (err error) {
	defer func() {
		if recover() != nil {
			err = errOverwritten
		}
	}()
	page := int(id % 2)
	copy(o.metas[page][:], o.meta(page))
	m := o.metas[page][pageHead:]
	sum := fnv.New64a()
	_, _ = sum.Write(m[:56]) // a hash never fails
	if int64(order.Uint64(m[48:])) != id || order.Uint64(m[56:]) != sum.Sum64() {
		return errOverwritten
	}
	return o.untouched()
}

// lookEvery is how often the file is looked at while nobody uses it.
const lookEvery = time.Second

// watch notices what happens to the file, whoever asks or not, until the store
// fails or is closed.
func (d *database) watch(quit <-chan struct{}) {
	debug.SetPanicOnFault(true)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-d.over:
			return
		case <-quit:
			return
		}
		if err := d.look(); err != nil {
			_ = d.fail(err) // which says it
			return
		}
	}
}

// look looks at the file; at what it holds only between two transactions, each of
// which looks itself.
func (d *database) look() error {
	if err := d.original.inPlace(); err != nil || !d.original.writing.TryLock() {
		return err
	}
	defer d.original.writing.Unlock()
	return d.original.untouched()
}
