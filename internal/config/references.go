package config

import "strings"

// FileReference is a ${file:...} of the config.
type FileReference struct {
	// Path is the file that it names.
	Path string
	// Line and Column are where the value begins that holds it.
	Line, Column int
}

// FileReferences are the files that references name, each once, in
// the order of the file.
func (s *Source) FileReferences() []FileReference {
	var found []FileReference
	known := map[string]bool{}
	for _, g := range s.given {
		path, isFile := strings.CutPrefix(g.name, "${file:")
		if isFile && !known[path] {
			known[path] = true
			found = append(found, FileReference{from(s.Dir, strings.TrimSuffix(path, "}")), g.at.Line, g.at.Column})
		}
	}
	return found
}
