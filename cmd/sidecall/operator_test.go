package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Which operator socket is asked: the flag, the config, the environment, the
// config in the working directory, in this order.
func TestWhichOperatorSocketIsAsked(t *testing.T) {
	write := func(dir, name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other := write(t.TempDir(), "other.yaml", "operator: unix:///other.sock\n")
	off := write(t.TempDir(), "off.yaml", "operator: \"off\"\n")
	wrong := write(t.TempDir(), "wrong.yaml", "operator: 1\n")
	for name, c := range map[string]struct {
		at        operatorAt
		env, here string
		want      string // an address, or part of the error
	}{
		"the flag":                  {operatorAt{addr: "unix:///flag.sock"}, "unix:///env.sock", "operator: unix:///here.sock\n", "unix:///flag.sock"},
		"a config":                  {operatorAt{config: other}, "unix:///env.sock", "operator: unix:///here.sock\n", "unix:///other.sock"},
		"the environment":           {operatorAt{}, "unix:///env.sock", "operator: unix:///here.sock\n", "unix:///env.sock"},
		"the config that is there":  {operatorAt{}, "", "operator: unix:///here.sock\n", "unix:///here.sock"},
		"one that is off":           {operatorAt{config: off}, "", "", "off in the config"},
		"one that is wrong":         {operatorAt{config: wrong}, "", "", "--addr unix:///path names the operator socket"},
		"nobody says":               {operatorAt{}, "", "", "which sidecar?"},
		"beside the embedded store": {operatorAt{}, "", "store: {embedded: {path: /var/lib/calls.db}}\n", "unix:///var/lib/calls.operator.sock"},
		"Redis, and nobody says so": {operatorAt{}, "", "store: {redis: {addrs: [\"127.0.0.1:1\"]}}\n", "set operator: unix:///path"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv(operatorEnv, c.env)
			if c.here != "" {
				write(".", defaultConfig, c.here)
			}
			address, err := c.at.address()
			if strings.HasPrefix(c.want, "unix://") && (err != nil || address != c.want) || !strings.HasPrefix(c.want, "unix://") && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%q, %v; want %q", address, err, c.want)
			}
		})
	}
}
