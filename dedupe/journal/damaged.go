package journal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxDamagedFiles bounds the damaged files that are kept beside a journal. For
// one more the oldest is removed, which is logged.
const maxDamagedFiles = 8

// damagedFiles lists the damaged files that are kept, oldest first: their names
// end in the time.
func (j *Journal) damagedFiles() ([]string, error) {
	dir, prefix := filepath.Dir(j.path), filepath.Base(j.path)+".damaged-"
	names, err := j.options.disk.Names(dir)
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			kept = append(kept, filepath.Join(dir, name))
		}
	}
	return kept, nil
}

// setAside copies the file as it is for the operator, once, and returns the
// copy's path.
func (j *Journal) setAside(size int64) (string, error) {
	j.asideMu.Lock()
	defer j.asideMu.Unlock()
	if j.aside {
		return "", nil
	}
	if err := j.removeOldest(); err != nil {
		return "", err
	}
	name := j.path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	if err := j.copyTo(name, size); err != nil {
		return "", errors.Join(err, ignoreMissing(j.options.disk.Remove(name)))
	}
	j.aside = true
	return name, nil
}

func (j *Journal) removeOldest() error {
	kept, err := j.damagedFiles()
	if err != nil {
		return err
	}
	for ; len(kept) >= maxDamagedFiles; kept = kept[1:] {
		j.options.Log.Error("too many damaged journals are kept: the oldest is removed", "path", kept[0], "kept", maxDamagedFiles)
		if err := j.options.disk.Remove(kept[0]); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) copyTo(name string, size int64) error {
	to, err := j.options.disk.Open(name, os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(to, 0), io.NewSectionReader(j.file, 0, size))
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	return j.options.disk.SyncDir(filepath.Dir(j.path))
}

// notAside notes that the file is another one now.
func (j *Journal) notAside() {
	j.asideMu.Lock()
	defer j.asideMu.Unlock()
	j.aside = false
}
