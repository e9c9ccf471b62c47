package config

import (
	"path/filepath"
	"strings"
)

// OperatorAddress is the socket that serves OperatorService, unix:///path; or why
// there is none.
//
// Where the file does not say, it is beside the file of the embedded store: who
// may enter that directory as the sidecar's user has the records already. It is
// not beside a socket of agents, since such a directory is what one shares with an
// agent.
func (c *Config) OperatorAddress() (address, off string) {
	const set = "; set operator: unix:///path"
	switch said := c.Operator.Reveal(); {
	case said == "off":
		return "", "off in the config"
	case said != "":
		return said, ""
	case c.Store.Embedded == nil:
		return "", "off: beside a store of the kind " + c.Store.Kind() + " there is no place for it" + set
	}
	path := c.Store.Embedded.Path.Reveal()
	path = strings.TrimSuffix(path, filepath.Ext(path)) + ".operator.sock"
	if bad := checkSocket(path); bad != "" {
		return "", "off: " + bad + set
	}
	return "unix://" + path, ""
}
