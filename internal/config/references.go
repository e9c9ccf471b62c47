package config

import "strings"

// FileReference is a ${file:...} of the config.
type FileReference struct {
	// Path is the file that it names.
	Path string
	// Line and Column are where the value begins that holds it.
	Line, Column int
}

// File is the name that the config was parsed under: its path, after Load.
func (c *Config) File() string { return c.source.file }

// FileReferences are the files that references of the config name, each once, in
// the order of the file.
func (c *Config) FileReferences() []FileReference {
	var found []FileReference
	known := map[string]bool{}
	for _, g := range c.given {
		path, isFile := strings.CutPrefix(g.name, "${file:")
		if isFile && !known[path] {
			known[path] = true
			found = append(found, FileReference{from(c.source.dir, strings.TrimSuffix(path, "}")), g.at.Line, g.at.Column})
		}
	}
	return found
}
