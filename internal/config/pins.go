package config

import "path/filepath"

// Pins is the file that remembers what discovered tools say of themselves.
type Pins struct {
	Path Path `yaml:"path" doc:"The file: a line with a hash for each discovered tool, to be committed where a backend says pin. Without this key: ./sidecall.pins, and none with the memory store unless a backend says pin."`
}

// PinsFile is the path of the file of pins; empty when there is none.
func (c *Config) PinsFile() string {
	discovers, pins := false, false
	for _, b := range c.Backends {
		discovers = discovers || b.Discovers()
		pins = pins || b.Pin
	}
	switch {
	case c.Pins.Path.Reveal() != "":
		return c.Pins.Path.Reveal()
	case pins, discovers && c.Store.Kind() != "memory":
		return filepath.Join(c.Dir, "sidecall.pins")
	default:
		return ""
	}
}
