package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sidecall/sidecall/dedupe"
)

// commit is the committer, the one goroutine that writes to the file. It ends
// at Close, after what was accepted.
func (j *Journal) commit() {
	defer close(j.gone)
	for ended := false; ; {
		j.commitAll()
		if ended {
			return
		}
		select {
		case <-j.wake:
		case <-j.quit:
			ended = true // and once more for what came before
		}
	}
}

func (j *Journal) commitAll() {
	for b := j.take(); b != nil; b = j.take() {
		b.err = j.write(b)
		close(b.done)
	}
	if err := j.cutWhenEmpty(); err != nil {
		j.options.Log.Error("the journal could not be cut back; it is tried again", "path", j.path, "error", err)
	}
}

// take returns the batch that is due; nil when there is none.
func (j *Journal) take() *batch {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.queue
	j.queue = nil
	return b
}

// write makes a batch durable and then known.
func (j *Journal) write(b *batch) error {
	total := b.size()
	err := j.makeRoom(total)
	from := j.end // only the committer changes it
	if err == nil {
		if err = j.writeAt(from, b); err != nil {
			// What is there of it would look like a torn append, or be written
			// over by the next one.
			err = errors.Join(err, j.file.Truncate(from))
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queued -= total
	if err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	for _, f := range b.frames {
		j.add(f.key, from, int64(len(f.bytes)))
		from += int64(len(f.bytes))
	}
	return nil
}

func (b *batch) size() (total int64) {
	for _, f := range b.frames {
		total += int64(len(f.bytes))
	}
	return total
}

func (j *Journal) writeAt(at int64, b *batch) error {
	if j.renamed {
		if err := j.options.disk.SyncDir(filepath.Dir(j.path)); err != nil {
			return err
		}
		j.renamed = false
	}
	for _, f := range b.frames {
		if _, err := j.file.WriteAt(f.bytes, at); err != nil {
			return err
		}
		at += int64(len(f.bytes))
	}
	return j.file.Sync()
}

// add makes a frame of the file known as an entry that waits. mu is held.
func (j *Journal) add(key dedupe.Key, offset, size int64) {
	j.seq++
	s := &slot{seq: j.seq, key: key, offset: offset, size: size}
	j.slots = append(j.slots, s)
	j.bySeq[s.seq] = s
	j.byKey[key] = s
	j.end = offset + size
	j.live += size
	j.waiting.Add(1)
}

// makeRoom writes the file anew when a batch does not fit behind its end.
func (j *Journal) makeRoom(total int64) error {
	j.mu.Lock()
	fits := j.end+total <= j.options.MaxBytes || !j.worthCompacting()
	j.mu.Unlock()
	if fits {
		return nil
	}
	return j.compact()
}

// cutWhenEmpty cuts the file back to its header when nothing in it waits.
func (j *Journal) cutWhenEmpty() error {
	if cut, err := j.cut(); !cut || err != nil {
		return err
	}
	return j.file.Sync()
}

func (j *Journal) cut() (cut bool, err error) {
	j.io.Lock()
	defer j.io.Unlock()
	j.mu.Lock()
	empty := j.waiting.Load() == 0 && j.end > int64(headerSize)
	j.mu.Unlock()
	if !empty { // and stays so, or not: only the committer adds
		return false, nil
	}
	if err := j.file.Truncate(int64(headerSize)); err != nil {
		return false, err
	}
	// Synced or not, the file is that short now: the next entry goes there.
	j.mu.Lock()
	j.end = int64(headerSize)
	j.mu.Unlock()
	j.notAside()
	return true, nil
}

// compact writes the file anew with the entries that wait. Only the exchange
// keeps readers out: a disk that hangs in the writing is not theirs to wait for.
func (j *Journal) compact() error {
	j.mu.Lock()
	var waiting []*slot
	for _, s := range j.slots {
		if !s.done {
			waiting = append(waiting, s)
		}
	}
	j.mu.Unlock()
	fresh, offsets, err := j.rewrite(waiting)
	if err != nil {
		return fmt.Errorf("while writing it anew: %w", err)
	}
	old := j.file
	j.io.Lock()
	defer j.io.Unlock()
	j.mu.Lock()
	j.file, j.slots, j.end = fresh, waiting, int64(headerSize)
	for i, s := range waiting {
		s.offset = offsets[i]
		j.end = s.offset + s.size
	}
	j.renamed = true
	j.mu.Unlock()
	j.notAside()
	_ = old.Close() // everything that is wanted of it is in the new one
	return nil
}

// rewrite puts a file with the given entries in the place of the file. Until
// the rename nothing has changed.
func (j *Journal) rewrite(entries []*slot) (file, []int64, error) {
	disk, name := j.options.disk, j.path+".new"
	fresh, err := disk.Open(name, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, nil, err
	}
	err = fresh.Lock()
	var offsets []int64
	if err == nil {
		offsets, err = j.fill(fresh, entries)
	}
	if err == nil {
		err = fresh.Sync()
	}
	if err == nil {
		err = disk.Rename(name, j.path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, fresh.Close(), ignoreMissing(disk.Remove(name)))
	}
	return fresh, offsets, nil
}

// fill writes a header and copies frames as they are: one that has been damaged
// meanwhile is found when it is read.
func (j *Journal) fill(fresh file, entries []*slot) ([]int64, error) {
	if _, err := fresh.WriteAt(header(j.id), 0); err != nil {
		return nil, err
	}
	offsets, at := make([]int64, len(entries)), int64(headerSize)
	for i, s := range entries {
		b := make([]byte, s.size)
		if err := readFull(j.file, b, s.offset); err != nil {
			return nil, err
		}
		if _, err := fresh.WriteAt(b, at); err != nil {
			return nil, err
		}
		offsets[i] = at
		at += s.size
	}
	return offsets, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
