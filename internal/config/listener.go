package config

import (
	"fmt"
	"slices"
)

// Listener is an address that serves agents: written as the address alone, or as a
// mapping that says which profiles it offers.
type Listener struct {
	Address  Text     `yaml:"address" as:"text" doc:"unix:///path (mode 0600) or tcp://host:port on loopback." required:"true" format:"listen"`
	Profiles []string `yaml:"profiles" doc:"The profiles that requests here may name; one that names none gets the first. Without this key: all, and default_profile. Listeners with the same set of profiles are a tenant, which reaches only what came through them; its name is that set, so another set is another tenant." format:"name"`
}

// Front is the address that serves MCP clients: written as the address alone, or as a mapping.
type Front struct {
	Address  Text     `yaml:"address" as:"text" doc:"Loopback host:port, or off: /mcp there has the tools of the default profile, /mcp/NAME those of another." default:"off" format:"admin"`
	Profiles []string `yaml:"profiles" doc:"As those of a listener." format:"name"`
	Hosts    []string `yaml:"hosts" doc:"Names, without port, by which it may be asked for beside loopback names and addresses and its own: others are answered 421." format:"host"`
}

// Reveal returns the address with its references resolved; empty when it is off.
func (f Front) Reveal() string {
	if address := f.Address.Reveal(); address != "off" {
		return address
	}
	return ""
}

// Reveal returns the address with its references resolved.
func (l Listener) Reveal() string { return l.Address.Reveal() }

// ListeningAt is the config with other addresses to serve agents at. They offer the
// profiles of the first address of the file. The admin address is off unless the file
// names one: of the default there is one on a machine, and of such sidecars there may be
// many.
func (c *Config) ListeningAt(addresses ...string) (*Config, error) {
	other := *c
	other.Listen = make([]Listener, 0, len(addresses))
	for _, address := range addresses {
		switch {
		case slices.ContainsFunc(other.Listen, func(l Listener) bool { return l.Reveal() == address }):
			return nil, fmt.Errorf("%s: it is named twice", address)
		case address == c.Operator.Reveal():
			return nil, fmt.Errorf("%s: this is the operator's address: an agent needs another", address)
		}
		if wrong := checkListen(address); wrong != "" {
			return nil, fmt.Errorf("%s: %s", address, wrong)
		}
		other.Listen = append(other.Listen, Listener{Address: NewText(address), Profiles: c.Listen[0].Profiles})
	}
	if _, there := c.find([]string{"admin"}); !there {
		other.Admin = NewText("off")
	}
	return &other, nil
}

// listen looks at what the addresses have to do with each other, and with the
// profiles.
func (k *checker) listen() {
	seen := map[string]bool{}
	for i, l := range k.Listen {
		address, at := l.Reveal(), k.in("listen", index(i))
		if seen[address] && address != "" {
			at.bad("this address is in the list already")
		}
		seen[address] = true
		k.offered(l.Profiles, at.in("profiles"))
	}
	k.offered(k.HTTP.Profiles, k.in("http", "profiles"))
}

// offered looks at the profiles that an address offers.
func (k *checker) offered(profiles []string, at within) {
	if profiles != nil && len(profiles) == 0 {
		at.bad("no profile is offered here, so nothing can be called: expected at least one")
	}
	for j, name := range profiles {
		if _, ok := k.Profile(name); !ok || name == "" {
			at.in(index(j)).bad("there is no profile " + quote(name) + Suggestion(name, k.ProfileNames()))
		}
		if slices.Contains(profiles[:j], name) {
			at.in(index(j)).bad("this profile is in the list already")
		}
	}
}
