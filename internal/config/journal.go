package config

import (
	"net/url"
	"path/filepath"
)

// Journal is the local directory where results wait that the store could not take:
// their calls have happened, so they must not be lost.
type Journal struct {
	Enabled  *bool `yaml:"enabled" doc:"Keep a journal. Without this key: with a redis store, and with an embedded store when path is there."`
	Path     Path  `yaml:"path" doc:"The directory, made with mode 0700 in one that is there: its files, mode 0600, hold results of calls. For one sidecar alone; best on a disk that is not the store's. Without this key: ./sidecall.journal, or ./sidecall.INSTANCE.journal of a sidecar with an instance."`
	MaxBytes Bytes `yaml:"max_bytes" doc:"Largest size of the results that wait in it, each counted as 4 KiB and itself. A result beyond it is lost to the store, which is logged." default:"64MiB" min:"64KiB" max:"4GiB"`
}

// On reports whether there is a journal beside a store of a kind. Beside the
// embedded one it needs a path of its own: on a disk that is full or failing a
// second one there would not help. The memory store is never away.
func (j Journal) On(kind string) bool {
	switch {
	case j.Enabled != nil:
		return *j.Enabled
	case kind == "redis":
		return true
	default:
		return kind == "embedded" && j.Path.Reveal() != ""
	}
}

// JournalPath is the path of the journal. It is for one sidecar alone, so that of one with
// a name has it.
func (c *Config) JournalPath() string {
	if path := c.Journal.Path.Reveal(); path != "" {
		return path
	}
	name := "sidecall.journal"
	if instance := c.Instance.Reveal(); instance != "" {
		name = "sidecall." + url.PathEscape(instance) + ".journal"
	}
	return filepath.Join(c.Dir, name)
}
