package app

import (
	"crypto/rand"
	"net"
	"os"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/config"
)

// began is when this process began, as near as it knows.
var began = time.Now()

// instance is the name under which this sidecar is known to others on its store:
// the one that the file gives it, or what only one sidecar of a machine can have,
// its first address. Where the system chooses the port that is nothing to come back
// under, so nobody else gets the name.
func instance(cfg *config.Config) string {
	if name := cfg.Instance.Reveal(); name != "" {
		return name
	}
	address := cfg.Listen[0].Reveal()
	if rest, ok := strings.CutPrefix(address, "tcp://"); ok {
		if _, port, err := net.SplitHostPort(rest); err != nil || port == "0" {
			address = rand.Text()
		}
	}
	name := hostName() + " " + address
	return name[max(len(name)-config.MaxInstanceBytes, 0):]
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// self tells other processes of this one.
func self() dedupe.Who {
	who := dedupe.Who{Host: hostName(), PID: os.Getpid(), Since: began.Round(0), World: world()}
	if who.World != "" {
		who.Start, _ = startOf(who.PID)
	}
	return who
}

// gone reports that a process provably runs no more: it was one of this machine,
// since its last boot, whose processes can be seen from here, and there is none
// of its number, or another has it by now. Everything else only time can tell.
func gone(who dedupe.Who) bool {
	if who.World == "" || who.Start == "" || who.PID <= 0 || who.World != world() {
		return false
	}
	start, exists := startOf(who.PID)
	return !exists || start != "" && start != who.Start
}
