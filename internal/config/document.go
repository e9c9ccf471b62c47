package config

import (
	"encoding/json"
	"reflect"
)

// Document is a YAML file of another kind than the config, read as strictly: T
// says in the tags that the package comment lists what may stand in it.
type Document[T any] struct {
	Source

	// Value is what stands in it, with every default filled in.
	Value *T
}

// ReadDocument reads the file at path. The error is of type Problems.
func ReadDocument[T any](path string) (*Document[T], error) {
	data, err := readBounded(path, MaxFileBytes)
	if err != nil {
		return nil, unreadable(path, "file", err)
	}
	return ParseDocument[T](path, data)
}

// ParseDocument reads data; name stands for the file in messages. References are
// not resolved in it.
func ParseDocument[T any](name string, data []byte) (*Document[T], error) {
	found := &collector{file: name, most: MaxProblems}
	tree := parse(found, data)
	if tree == nil {
		return nil, found.problems()
	}
	read := &Document[T]{Value: new(T), Source: Source{File: name, root: tree}}
	v := reflect.ValueOf(read.Value).Elem()
	d := &decoder{found: found}
	d.setDefaults(v)
	d.value(v, &field{}, spot{node: tree})
	if problems := found.problems(); problems != nil {
		return nil, problems
	}
	return read, nil
}

// Value is any YAML value, as JSON; nil when it is not there. References in it are
// not resolved.
type Value json.RawMessage

func (v *Value) decode(d *decoder, _ *field, s spot) { *v = d.json(nil, s) }

var _ special = (*Value)(nil)
