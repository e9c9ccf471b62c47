package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
)

// Watch reads a config file again and again, and tells when there is something new to
// be read: in the file, in one that a ${file:} of it leads to, or in a certificate of a
// backend. It looks and keeps nothing open, so it does not matter how a file is
// replaced: written over, renamed, or led to by another link, as a ConfigMap is.
//
// It is not safe for concurrent use.
type Watch struct {
	path string
	env  Environment

	// once: the config came through a pipe, from which nothing more comes.
	once bool
	// files were read beside path, sorted, and had is what all of them held.
	files []string
	had   digest
	// seen is what all held at the last look.
	seen digest
	// again: it was read before.
	again bool
}

// digest is a hash of the content of files.
type digest [sha256.Size]byte

// NewWatch returns a Watch over the file at path. It reads nothing yet.
func NewWatch(path string) *Watch { return &Watch{path: path, env: System()} }

// Again returns a Watch over the same file that reads it as this one does when it reads it
// again.
func (w *Watch) Again() *Watch { return &Watch{path: w.path, env: w.env, again: true} }

// Load is Load of the file; Changed compares with what it has read, right or wrong.
// When it is called again the file has to be a regular one.
func (w *Watch) Load() (*Config, error) {
	read := readBounded
	if w.again {
		read = ReadRegular
	} else if info, err := os.Stat(w.path); err == nil {
		w.once = !info.Mode().IsRegular()
	}
	w.again = true
	data, err := read(w.path, MaxFileBytes)
	if err != nil {
		w.remember(contentOf(nil, err), nil)
		return nil, unreadable(w.path, "config file", err)
	}
	files := &recorder{Environment: w.env, read: make(map[string]digest), vars: make(map[string]string)}
	c, problems := examine(&collector{file: w.path, most: MaxProblems}, data, files)
	if c != nil {
		for _, path := range certificates(c.Backends) {
			files.read[path] = contentOf(w.env.ReadFile(path))
		}
	}
	w.remember(contentOf(data, nil), files.read)
	if problems != nil {
		return nil, problems
	}
	c.Fingerprint = w.fingerprint(files.vars, append([]string{c.Dir}, passed(c.Backends)...))
	return c, nil
}

// Changed reports that Load would read something else than it last has. What is
// different is said to be so when it has not changed from one look to the next: it may
// have been half written.
func (w *Watch) Changed() bool {
	if w.once {
		return false
	}
	last := w.seen
	w.seen = w.digest()
	return w.seen != w.had && w.seen == last
}

func (w *Watch) fingerprint(vars map[string]string, around []string) string {
	hash := sha256.New()
	hash.Write(w.had[:])
	fmt.Fprintf(hash, "%q\n", around)
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		fmt.Fprintf(hash, "%q=%q\n", name, vars[name])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// passed are the variables that commands are passed.
func passed(backends map[string]Backend) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		b := backends[name]
		var env Env
		switch {
		case b.Exec != nil:
			env = b.Exec.Env
		case b.MCP != nil:
			env = b.MCP.Env
		}
		for _, one := range env.Pass {
			value, set := os.LookupEnv(one)
			all = append(all, fmt.Sprint(name, "\x00", one, "\x00", set, "\x00", value))
		}
	}
	return all
}

// remember keeps what was read.
func (w *Watch) remember(file digest, others map[string]digest) {
	w.files = slices.Sorted(maps.Keys(others))
	w.had = together(file, w.files, func(path string) digest { return others[path] })
	w.seen = w.had
}

// digest is what the files hold now.
func (w *Watch) digest() digest {
	return together(contentOf(ReadRegular(w.path, MaxFileBytes)), w.files, func(path string) digest {
		return contentOf(w.env.ReadFile(path))
	})
}

func together(file digest, paths []string, content func(path string) digest) digest {
	var all bytes.Buffer
	all.Write(file[:])
	for _, path := range paths {
		of := content(path)
		all.WriteString(path + "\x00")
		all.Write(of[:])
	}
	return sha256.Sum256(all.Bytes())
}

// contentOf is what was read of a file, or why it was not.
func contentOf(data []byte, err error) digest {
	if err != nil {
		return sha256.Sum256([]byte("error: " + reason(err)))
	}
	return sha256.Sum256(append([]byte("content: "), data...))
}

// Digest is a hash of the content of files, or of why they cannot be read.
func Digest(paths ...string) string {
	all := together(digest{}, paths, func(path string) digest { return contentOf(ReadRegular(path, MaxFileBytes)) })
	return string(all[:])
}

// certificates are the PEM files of the backends. Those of the store are read once, as
// the store is opened once.
func certificates(backends map[string]Backend) (files []string) {
	for _, b := range backends {
		if b.HTTP != nil && b.HTTP.TLS != nil {
			files = append(files, b.HTTP.TLS.Files()...)
		}
	}
	return files
}

// recorder notes what is read.
type recorder struct {
	Environment

	read map[string]digest
	vars map[string]string
}

// Getenv implements Environment.
func (r *recorder) Getenv(name string) (string, bool) {
	value, set := r.Environment.Getenv(name)
	if set {
		r.vars[name] = value
	}
	return value, set
}

// ReadFile implements Environment.
func (r *recorder) ReadFile(path string) ([]byte, error) {
	data, err := r.Environment.ReadFile(path)
	r.read[path] = contentOf(data, err)
	return data, err
}
