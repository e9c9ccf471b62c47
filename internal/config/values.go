package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Bytes is a size, written as a number of bytes or with a unit: 4MiB.
type Bytes int64

// byteUnits, largest first.
var byteUnits = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1}}

// String writes the size with the largest binary unit that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits[:3] {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MarshalText is String.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Trust says whether output is trusted; empty means that nothing was said.
type Trust string

// The values of Trust.
const (
	Trusted   Trust = "trusted"
	Untrusted Trust = "untrusted"
)

// JSON is free YAML, such as a JSON Schema, as one JSON object. Keys keep
// their order. References in it are not resolved.
type JSON []byte

// MarshalJSON returns the JSON itself.
func (j JSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// Env is the environment of a process: Pass lists variables of the sidecar
// that it inherits, Set those that it is given. Only one of the two is used.
type Env struct {
	Pass []string          `as:"list" doc:"a list of names to pass on" format:"env_name"`
	Set  map[string]Secret `as:"map" doc:"a map of names to values" keys:"env_name" format:"env_value"`
}

// List returns the environment as NAME=value, sorted. lookup finds the
// variables of the sidecar itself; one that is not set is left out.
func (e Env) List(lookup func(name string) (string, bool)) []string {
	var out []string
	for _, name := range slices.Sorted(slices.Values(e.Pass)) {
		if value, ok := lookup(name); ok {
			out = append(out, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Set)) {
		out = append(out, name+"="+e.Set[name].Reveal())
	}
	return out
}

// Body says what the body of a request is: the value of the argument Arg, or
// an object whose members are the arguments that Members names.
type Body struct {
	Arg     string            `as:"text" doc:"the name of an argument" format:"nonempty"`
	Members map[string]string `as:"map" doc:"a map of body members to arguments" keys:"nonempty" format:"nonempty"`
}
