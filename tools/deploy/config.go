package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// configsIn is the directory where the configs of sidecars are written that were found,
// for `sidecall check` to look at. Empty: they are not.
var configsIn = os.Getenv("SIDECALL_CONFIGS")

// mounted is a directory of a container with files of Secrets.
var mounted = regexp.MustCompile(`/etc/sidecall/[a-z-]+/`)

// sidecallConfig writes down a config of a sidecar. Of the secrets that are mounted into
// its container there is a file beside it.
func sidecallConfig(name string, text []byte) error {
	if configsIn == "" {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(configsIn, "*.yaml"))
	if err != nil {
		return err
	}
	here := mounted.ReplaceAllString(string(text), filepath.Join(configsIn, "secrets")+"/")
	return os.WriteFile(filepath.Join(configsIn, fmt.Sprintf("%02d-%s.yaml", len(found), filepath.Base(name))), []byte(here), 0o600)
}
