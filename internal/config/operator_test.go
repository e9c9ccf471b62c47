package config

import (
	"strings"
	"testing"
)

// Where operators are served, when the file says it, and when it does not.
func TestWhereOperatorsAreServed(t *testing.T) {
	long := "/" + strings.Repeat("d", 90) + "/calls.db"
	for text, want := range map[string]struct{ address, off string }{
		"operator: unix:///run/op.sock": {"unix:///run/op.sock", ""},
		`operator: "off"`:               {"", "off in the config"},
		"store: {embedded: {path: /var/lib/sidecall/sidecall.db}}": {"unix:///var/lib/sidecall/sidecall.operator.sock", ""},
		"store: {embedded: {path: /var/lib/calls}}":                {"unix:///var/lib/calls.operator.sock", ""},
		"store: {embedded: {path: " + long + "}}":                  {"", "systems allow"},
		"store: {memory: {}}":                                      {"", "set operator: unix:///path"},
		// Not beside the socket that an agent is given, perhaps with its directory.
		"listen: [unix:///run/s.sock]\nstore: {redis: {addrs: [\"127.0.0.1:6379\"]}}":  {"", "of the kind redis"},
		"store: {redis: {addrs: [\"127.0.0.1:6379\"]}}\noperator: unix:///run/op.sock": {"unix:///run/op.sock", ""},
	} {
		cfg, err := Parse("test.yaml", []byte(text), theScene)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		address, off := cfg.OperatorAddress()
		if address != want.address || !strings.Contains(off, want.off) || (address == "") != (off != "") {
			t.Errorf("%s: %q, %q; want %q, %q", text, address, off, want.address, want.off)
		}
	}
}
