package config

import (
	"regexp"

	"go.yaml.in/yaml/v4"
)

// FileReference is a ${file:...} of the config.
type FileReference struct {
	// Path is the file that it names.
	Path string
	// Line and Column are where the value begins that holds it.
	Line, Column int
}

var fileReference = regexp.MustCompile(`(\$?)\$\{file:([^}]+)\}`)

// File is the name that the config was parsed under: its path, after Load.
func (c *Config) File() string { return c.source.file }

// FileReferences are the files that references of the config name, each once, in
// the order of the file; none after Release.
func (c *Config) FileReferences() []FileReference {
	var found []FileReference
	known := map[string]bool{}
	visited := map[*yaml.Node]bool{} // aliases share what they stand for
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		if n == nil || visited[n] {
			return
		}
		visited[n] = true
		for _, match := range fileReference.FindAllStringSubmatch(n.Value, -1) {
			if escaped := match[1] != ""; !escaped && !known[match[2]] {
				known[match[2]] = true
				found = append(found, FileReference{from(c.source.dir, match[2]), n.Line, n.Column})
			}
		}
		for _, child := range n.Content {
			visit(child)
		}
	}
	visit(c.source.root)
	return found
}
