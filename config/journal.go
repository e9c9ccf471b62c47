package config

// Journal is the local file where results wait that the store could not take:
// their calls have happened, so they must not be lost.
type Journal struct {
	Enabled  *bool `yaml:"enabled" doc:"Keep a journal. Without this key: with a redis store, and with an embedded store when path is there."`
	Path     Text  `yaml:"path" doc:"The file, mode 0600: it holds results of calls. For one sidecar alone; best on a disk that is not the store's. Without this key: ./sidecall.journal. Relative to the working directory."`
	MaxBytes Bytes `yaml:"max_bytes" doc:"Largest size of the file. A result beyond it is lost to the store, which is logged." default:"64MiB" min:"64KiB" max:"4GiB"`
}

// defaultJournal is where the journal is when the file does not say.
const defaultJournal = "./sidecall.journal"

// On reports whether there is a journal beside a store of a kind. Beside the
// embedded one it needs a path of its own: on a disk that is full or failing a
// second file would not help. The memory store is never away.
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

// File is the path of the journal.
func (j Journal) File() string {
	if path := j.Path.Reveal(); path != "" {
		return path
	}
	return defaultJournal
}
