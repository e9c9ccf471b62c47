// Package journal is the dedupe.Journal in a directory on this machine, where
// settlements wait whose store could not be reached.
//
// Each entry is a file of its own, named by its number. Put writes a temporary file,
// syncs it, renames it and syncs the directory. What a crash leaves of that is removed by
// the next Open: nobody was told that it was kept.
//
// An entry that cannot be read is a damage: it is reported, and set aside under another
// name for whoever wants to look. Opening goes on all the same: the loss of an entry
// makes no call run twice, for the record stays CLAIMED and then UNKNOWN, while a sidecar
// that does not start loses the entries that are intact too.
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
	"sync/atomic"

	"github.com/sidecall/sidecall/dedupe"
)

// maxDamaged bounds the damaged entries that are kept.
const maxDamaged = 8

// Journal is a dedupe.Journal in a directory. One process uses it at a time.
type Journal struct {
	path    string
	disk    disk
	log     *slog.Logger
	waiting []dedupe.Waiting
	kept    []string      // the names of damaged entries, oldest first
	last    atomic.Uint64 // number given out
	damaged atomic.Int64
}

var _ dedupe.Journal = (*Journal)(nil)

// Open opens the journal at a path, or makes one, and keeps other processes out of it
// until Close. The log is told what an operator should know. The error says why there
// can be no journal; nothing that waits in one is lost then.
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

// load looks at all that is there, and puts right what is wrong with it.
func (j *Journal) load() error {
	names, err := j.disk.Names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	var entries []uint64
	for _, name := range names {
		number, suffix, ok := parse(name)
		j.last.Store(max(j.last.Load(), number)) // those to come are beyond it
		switch {
		case suffix == damagedSuffix:
			j.kept = append(j.kept, name)
		case suffix == temporarySuffix:
			err = errors.Join(err, j.remove(name))
		case ok:
			entries = append(entries, number)
		}
	}
	for _, number := range entries {
		err = errors.Join(err, j.examine(number))
	}
	if err != nil {
		return err
	}
	if len(j.kept) > 0 {
		j.log.Warn("damaged entries are kept in the journal: look at them, then remove them", "path", j.path, "entries", j.kept)
	}
	if n := len(j.waiting); n > 0 {
		j.log.Warn("settlements of an earlier run wait in the journal", "path", j.path, "waiting", n)
	}
	return nil
}

func (j *Journal) examine(number uint64) error {
	late, err := j.Get(number)
	switch {
	case err == nil:
		j.waiting = append(j.waiting, dedupe.Waiting{Number: number, Key: late.Settlement.Key, Bytes: late.Bytes()})
	case errors.Is(err, errLater):
		j.log.Error("an entry of the journal is of a later version: it is left where it is, for a sidecar that knows it, and its call stays unknown until then",
			"path", j.pathOf(nameOf(number)), "error", err)
	case !errors.Is(err, dedupe.ErrCorrupt): // else it is told and set aside
		return err
	}
	return nil
}

func (j *Journal) pathOf(name string) string { return filepath.Join(j.path, name) }

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

func (j *Journal) write(name string, data []byte) error {
	f, err := j.disk.Create(name + temporarySuffix)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = j.disk.Rename(name+temporarySuffix, name); err != nil {
		return err
	}
	return j.disk.Sync()
}

// Get implements dedupe.Journal.
func (j *Journal) Get(number uint64) (late dedupe.Late, err error) {
	name := nameOf(number)
	data, err := j.disk.ReadFile(name)
	if err == nil {
		late, err = decode(data)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, dedupe.ErrCorrupt) {
		err = j.giveUp(name, err)
	}
	if err != nil {
		return dedupe.Late{}, fmt.Errorf("journal %s: %s: %w", j.path, name, err)
	}
	return late, nil
}

// giveUp ends an entry that can be read no more, and returns ErrCorrupt. While it cannot
// be set aside it is an entry still.
func (j *Journal) giveUp(name string, why error) error {
	err := j.disk.Rename(name, name+damagedSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // which somebody has removed
		return fmt.Errorf("it is damaged (%v) and cannot be set aside: %w", why, err) //nolint:errorlint // it is given up later
	}
	j.damaged.Add(1)
	j.log.Error("the journal is damaged: an entry is lost to the store, and its call stays unknown",
		"path", j.pathOf(name), "reason", why, "kept_as", j.pathOf(name+damagedSuffix))
	if err == nil {
		j.kept = append(j.kept, name+damagedSuffix)
	}
	for ; len(j.kept) > maxDamaged; j.kept = j.kept[1:] {
		j.log.Error("too many damaged entries are kept in the journal: the oldest is removed",
			"path", j.pathOf(j.kept[0]), "kept", maxDamaged, "error", j.remove(j.kept[0]))
	}
	return fmt.Errorf("%w: %w", dedupe.ErrCorrupt, why)
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
func (j *Journal) Close() error { return j.disk.Close() }
