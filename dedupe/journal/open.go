package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sidecall/sidecall/dedupe"
)

// Open opens the journal at a path, or makes one, and keeps other processes
// out of it until Close. It repairs what it can, see the package comment; the
// error says why there can be no journal, and nothing was changed then.
func Open(path string, options Options) (*Journal, error) {
	j := &Journal{
		path: path, options: options.withDefaults(),
		bySeq: map[uint64]*slot{}, byKey: map[dedupe.Key]*slot{},
		wake: make(chan struct{}, 1), quit: make(chan struct{}), gone: make(chan struct{}),
	}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	go j.commit()
	return j, nil
}

func (j *Journal) open() (err error) {
	if j.file, err = j.openLocked(); err != nil {
		return err
	}
	if err := j.load(); err != nil {
		return errors.Join(err, j.file.Close())
	}
	j.remind()
	return nil
}

// openLocked opens and locks the file that stands at the path. Another process
// may put a new one there between the two; then once more.
func (j *Journal) openLocked() (file, error) {
	for range 10 {
		_, err := j.options.disk.Stat(j.path)
		j.existed = err == nil
		f, err := j.options.disk.Open(j.path, os.O_CREATE)
		if err != nil {
			return nil, err
		}
		same, err := j.lock(f)
		if err == nil && same {
			return f, nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return nil, errLocked
}

func (j *Journal) lock(f file) (same bool, err error) {
	if err := f.Lock(); err != nil {
		return false, err
	}
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !mine.Mode().IsRegular() {
		return false, errors.New("it is not a regular file")
	}
	standing, err := j.options.disk.Stat(j.path)
	if err != nil {
		return false, ignoreMissing(err)
	}
	return j.options.disk.Same(mine, standing), nil
}

// load reads the file, and puts right what is wrong with it.
func (j *Journal) load() error {
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	id, damages, err := j.identify(size)
	if err != nil {
		return err
	}
	if id == nil {
		return j.create(size)
	}
	j.id = *id
	// The process before may have ended between the exchange of the file and the
	// sync of its directory. What is added now must not go with the power.
	if err := j.options.disk.SyncDir(filepath.Dir(j.path)); err != nil {
		return err
	}
	found, err := scanFrames(j.file, size, j.id, func(offset int64, body []byte) error {
		late, err := decode(body)
		if err == nil {
			j.add(late.Settlement.Key, offset, int64(headSize+len(body)))
		}
		return err
	})
	if err != nil {
		return err
	}
	j.end = found.end
	if damages = append(damages, found.damages...); len(damages) > 0 {
		return j.repair(size, damages, found.torn)
	}
	if found.torn == 0 {
		return nil
	}
	j.options.Log.Warn("the journal ends in an entry that was being written when its process ended; nobody was told that it was kept, and it is cut off",
		"path", j.path, "offset", found.end, "bytes", found.torn)
	return errors.Join(j.file.Truncate(found.end), j.file.Sync())
}

// create writes the header of a new file, over what may be there of one.
func (j *Journal) create(torn int64) error {
	j.id, j.end = newID(), int64(headerSize)
	if j.existed {
		j.options.Log.Warn("the journal has not even a header: its process ended while it made it, or its content is lost; it is made anew",
			"path", j.path, "bytes", torn)
	}
	if _, err := j.file.WriteAt(header(j.id), 0); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	return j.options.disk.SyncDir(filepath.Dir(j.path))
}

// identify reads the header of the file. No id and no error: the file is new.
// When the header is damaged the id is taken from the first entry. A file with
// neither is not touched, unless it says at least that it is a journal.
func (j *Journal) identify(size int64) (*fileID, []damage, error) {
	first := make([]byte, min(size, int64(headerSize+headSize)))
	if n, err := j.file.ReadAt(first, 0); n < len(first) {
		return nil, nil, fmt.Errorf("its header: %w", err)
	}
	named := len(first) >= len(magic) && string(first[:len(magic)]) == magic
	switch {
	case len(first) < headerSize:
		// Nothing can be in it. A beginning of a header is one that was being
		// written.
		if n := min(len(first), len(magic)); string(first[:n]) != magic[:n] {
			return nil, nil, errNotAJournal
		}
		return nil, nil, nil
	case named:
		if id, ok := parseHeader(first[:headerSize]); ok {
			return &id, nil, nil
		}
	}
	id, _, ok := parseHead(first[headerSize:])
	switch {
	case ok:
		return &id, []damage{{0, int64(headerSize), "the header of the file is damaged"}}, nil
	case !named:
		return nil, nil, errNotAJournal
	}
	// Without the id no entry can be told from what is inside another.
	unreadable := newID()
	return &unreadable, []damage{{0, int64(headerSize), "the header of the file and its first entry are damaged: no entry can be found"}}, nil
}

// repair reports damages, sets the file aside and goes on with the entries that
// are intact.
func (j *Journal) repair(size int64, damages []damage, torn int64) error {
	name, err := j.setAside(size)
	if err != nil {
		return fmt.Errorf("it is damaged at offset %d and cannot be set aside: %w", damages[0].offset, err)
	}
	j.damaged.Add(int64(len(damages)))
	for i, d := range damages {
		if i == maxReported {
			j.options.Log.Error("the journal is damaged", "path", j.path, "further_damages", len(damages)-i)
			break
		}
		j.options.Log.Error("the journal is damaged: what it held there is lost to the store, and its calls stay unknown",
			"path", j.path, "offset", d.offset, "bytes", d.length, "reason", d.reason, "kept_as", name)
	}
	j.options.Log.Error("the journal was damaged and goes on with its intact entries",
		"path", j.path, "damages", len(damages), "intact", len(j.slots), "torn_bytes", torn, "kept_as", name)
	if err := j.compact(); err != nil {
		return err
	}
	j.renamed = false
	return j.options.disk.SyncDir(filepath.Dir(j.path))
}

// maxReported bounds the log lines about the damages of one file.
const maxReported = 32

// remind says at every start what lies beside the journal.
func (j *Journal) remind() {
	kept, err := j.damagedFiles()
	switch {
	case err != nil:
		j.options.Log.Warn("damaged journals cannot be looked for", "path", j.path, "error", err)
	case len(kept) > 0:
		j.options.Log.Warn("damaged journals are kept: look at them, then remove them", "paths", kept)
	}
	if n := j.Waiting(); n > 0 {
		j.options.Log.Warn("settlements of an earlier run wait in the journal", "path", j.path, "waiting", n)
	}
}
