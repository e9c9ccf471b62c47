// Package journal is the dedupe.Journal in a directory on this machine, where
// settlements wait whose store could not be reached.
//
// Each entry is a file of its own, named by its number. Put writes a temporary
// file, syncs it, renames it and syncs the directory; Remove removes it. What a crash
// leaves is a temporary file, which the next Open removes: nobody was told that it was
// kept. Entries that were removed when the power went may be handed out once more.
//
// An entry that cannot be read is a damage: it is reported and set aside, under another
// name in the directory, for whoever wants to look. Opening goes on all the same: the
// loss of an entry makes no call run twice, for the record stays CLAIMED and then
// UNKNOWN, while a sidecar that does not start loses the entries that are intact too.
// An entry of a later version is left where it is, for a process that knows it.
//
// The results of calls are in the files in plain text; their mode is 0600.
package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sidecall/sidecall/dedupe"
)

// Journal is a dedupe.Journal in a directory. One process uses it at a time.
type Journal struct {
	path    string
	disk    disk
	log     *slog.Logger
	waiting []dedupe.Waiting
	last    atomic.Uint64 // number given out
	damaged atomic.Int64
	aside   sync.Mutex // held while an entry is set aside
}

var _ dedupe.Journal = (*Journal)(nil)

// Open opens the journal at a path, or makes one, and keeps other processes out of it
// until Close. The log is told what an operator should know. The error says why there
// can be no journal; what stands at the path is as it was then.
func Open(path string, log *slog.Logger) (*Journal, error) {
	d, err := openDirectory(path)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	return open(path, d, log)
}

func open(path string, d disk, log *slog.Logger) (*Journal, error) {
	j := &Journal{path: path, disk: d, log: log}
	if err := j.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("journal %s: %w", path, err), d.Close())
	}
	return j, nil
}

// load looks at all entries, and puts right what is wrong with them.
func (j *Journal) load() error {
	names, err := j.disk.Names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names { // numbers are given out beyond all that are there
		if number, _, ok := parse(name); ok {
			j.last.Store(max(j.last.Load(), number))
		}
	}
	for _, name := range names {
		if err := j.examine(name); err != nil {
			return err
		}
	}
	if kept := slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, damagedSuffix) }); len(kept) > 0 {
		j.log.Warn("damaged entries are kept in the journal: look at them, then remove them", "path", j.path, "entries", kept)
	}
	if n := len(j.waiting); n > 0 {
		j.log.Warn("settlements of an earlier run wait in the journal", "path", j.path, "waiting", n)
	}
	return nil
}

// examine looks at what was found in the directory.
func (j *Journal) examine(name string) error {
	number, suffix, ok := parse(name)
	switch {
	case !ok || suffix == damagedSuffix:
		return nil
	case suffix == temporarySuffix:
		return j.remove(name)
	}
	late, err := j.Get(number)
	switch {
	case err == nil:
		j.waiting = append(j.waiting, dedupe.Waiting{Number: number, Key: late.Settlement.Key, Bytes: late.Bytes()})
	case errors.Is(err, errLater):
		j.log.Error("an entry of the journal is of a later version: it is left where it is, for a sidecar that knows it, and its call stays unknown until then",
			"path", filepath.Join(j.path, name), "error", err)
	case !errors.Is(err, dedupe.ErrCorrupt):
		return err
	}
	return nil
}

// Waiting implements dedupe.Journal.
func (j *Journal) Waiting() []dedupe.Waiting { return j.waiting }

// Damaged implements dedupe.Journal.
func (j *Journal) Damaged() int64 { return j.damaged.Load() }

// Put implements dedupe.Journal.
func (j *Journal) Put(late dedupe.Late) (uint64, error) {
	data, err := encode(late)
	if err != nil {
		return 0, err
	}
	number := j.last.Add(1)
	name := nameOf(number)
	if err := j.write(name, data); err != nil {
		return 0, errors.Join(fmt.Errorf("journal %s: %w", j.path, err), j.remove(name+temporarySuffix), j.remove(name))
	}
	return number, nil
}

// write makes an entry durable.
func (j *Journal) write(name string, data []byte) error {
	f, err := j.disk.Create(name + temporarySuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := j.disk.Rename(name+temporarySuffix, name); err != nil {
		return err
	}
	return j.disk.Sync()
}

// Get implements dedupe.Journal.
func (j *Journal) Get(number uint64) (dedupe.Late, error) {
	name := nameOf(number)
	data, err := j.disk.ReadFile(name)
	if err == nil {
		var late dedupe.Late
		if late, err = decode(data); err == nil {
			return late, nil
		}
	}
	switch {
	case errors.Is(err, dedupe.ErrCorrupt):
		if err := j.setAside(name, err); err != nil {
			return dedupe.Late{}, err
		}
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: somebody has removed it", dedupe.ErrCorrupt)
		j.lost(name, "", err)
	}
	return dedupe.Late{}, fmt.Errorf("journal %s: %s: %w", j.path, name, err)
}

// Remove implements dedupe.Journal.
func (j *Journal) Remove(number uint64) error { return j.remove(nameOf(number)) }

func (j *Journal) remove(name string) error {
	if err := j.disk.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	return nil
}

// Close implements dedupe.Journal.
func (j *Journal) Close() error {
	if err := j.disk.Close(); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	return nil
}

// maxDamaged bounds the damaged entries that are kept. For one more the oldest is
// removed, which is logged.
const maxDamaged = 8

// setAside gives a damaged entry another name, for the operator. While it cannot be,
// nothing was changed, and it is an entry still.
func (j *Journal) setAside(name string, why error) error {
	j.aside.Lock()
	defer j.aside.Unlock()
	kept, err := j.disk.Names()
	if err == nil {
		err = j.disk.Rename(name, name+damagedSuffix)
	}
	if err != nil {
		return fmt.Errorf("journal %s: %s is damaged (%v) and cannot be set aside: %w", j.path, name, why, err) //nolint:errorlint // it is corrupt when it is
	}
	j.lost(name, filepath.Join(j.path, name+damagedSuffix), why)
	kept = slices.DeleteFunc(kept, func(name string) bool { return !strings.HasSuffix(name, damagedSuffix) })
	slices.Sort(kept)
	for ; len(kept) >= maxDamaged; kept = kept[1:] {
		j.log.Error("too many damaged entries are kept in the journal: the oldest is removed",
			"path", filepath.Join(j.path, kept[0]), "kept", maxDamaged, "error", j.remove(kept[0]))
	}
	return nil
}

// lost counts and says that an entry is lost to the store.
func (j *Journal) lost(name, kept string, why error) {
	j.damaged.Add(1)
	j.log.Error("the journal is damaged: an entry is lost to the store, and its call stays unknown",
		"path", filepath.Join(j.path, name), "reason", why, "kept_as", kept)
}
