package app

import (
	"fmt"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/definition"
	"github.com/sidecall/sidecall/internal/tool"
)

// maxTold bounds the log lines about the tools of one list, and maxToldName what of a
// name is in them, in characters.
const (
	maxTold     = 20
	maxToldName = 200
)

// openPins reads the file of pins. That it cannot be read is wrong where a backend
// relies on it; elsewhere it is worth a warning, and changes are noticed until the
// process ends. A program that brings its backends has no directory of a sidecar: it
// has a file only where the config names one.
func openPins(cfg *config.Config, around surroundings, found *problems) *definition.Pins {
	file := cfg.PinsFile()
	if len(around.brought) > 0 {
		file = cfg.Pins.Path.Reveal()
	}
	pins, err := definition.OpenPins(file)
	if err == nil {
		return pins
	}
	for name, b := range cfg.Backends {
		if b.Pin {
			found.add(config.RuleBackend, "the file of pins cannot be read: "+err.Error(), "backends", name, "pin")
			return pins
		}
	}
	around.logger.Warn("the file of pins cannot be read: changes of tools are noticed until the sidecar ends", "error", err)
	pins, _ = definition.OpenPins("") // without a file nothing can fail
	return pins
}

// pinned is what is known of the definition of a tool.
type pinned struct {
	hash string
	// refused says why it must not be called; empty when it may be.
	refused string
}

// comparePins compares what tools say of themselves with what they said when they
// were first seen, and tells of what has changed: names, parts and hashes, no words.
func comparePins(h *host, found []tool.Discovered, cfg *config.Config, pins *definition.Pins) map[string]pinned {
	now := make(map[definition.Tool]definition.Pin, len(found))
	asked := make([]definition.Tool, 0, len(found))
	for i := range found {
		if _, offered := cfg.Discovered(h.name, found[i].Name, nil); offered {
			t := definition.Tool{Backend: h.name, Name: found[i].Name}
			now[t] = definition.Of(&found[i])
			asked = append(asked, t)
		}
	}
	known, err := pins.Known(asked)
	if err != nil {
		h.logger.Error("the file of pins cannot be read again; the pins last read stay", "backend", h.name, "error", err)
	}
	c := comparison{host: h, file: pins.Path(), verdicts: make(map[string]pinned, len(asked)), fresh: make(map[definition.Tool]definition.Pin)}
	for _, t := range asked { // in the order of the list
		before, seen := known[t]
		c.compare(t, now[t], before, seen)
	}
	if c.told > maxTold {
		h.logger.Warn("more tools say something else of themselves", "backend", h.name, "tools", c.told-maxTold)
	}
	if err := pins.Remember(c.fresh); err != nil {
		c.unwritten(err, known)
	}
	return c.verdicts
}

// comparison is of one list of tools.
type comparison struct {
	host     *host
	file     string
	verdicts map[string]pinned
	fresh    map[definition.Tool]definition.Pin // to be remembered
	told     int
}

// compare takes one tool; before is what it said when it was first seen.
func (c *comparison) compare(t definition.Tool, now, before definition.Pin, seen bool) {
	verdict := pinned{hash: now.Hash}
	switch {
	case !seen && len(t.Name) > definition.MaxName:
		if c.host.config.Pin {
			verdict.refused = fmt.Sprintf("its name has more than %d bytes, so it can have no pin", definition.MaxName)
		}
	case !seen:
		c.fresh[t] = now
	case before.Hash != now.Hash:
		changed := now.Changed(before)
		if c.host.config.Pin {
			verdict.refused = fmt.Sprintf("this tool says something else of itself (%s) than when it was pinned: %s then, %s now", changed, before.Hash, now.Hash)
		} else {
			c.fresh[t] = now
		}
		c.tell(t, changed, before.Hash, now.Hash)
	}
	c.verdicts[t.Name] = verdict
}

// tell tells operators of a change.
func (c *comparison) tell(t definition.Tool, changed, before, now string) {
	if c.told++; c.told > maxTold {
		return
	}
	attrs := []any{"backend", t.Backend, "tool", tool.Shorten(t.Name, maxToldName), "changed", changed, "was", before, "is", now}
	if !c.host.config.Pin {
		c.host.logger.Warn("a tool says something else of itself", attrs...)
		return
	}
	c.host.logger.Error("a pinned tool says something else of itself; its calls are refused",
		append(attrs, "to_accept", "remove its line from "+c.file+", or write the new hash there, and reload (SIGHUP)")...)
}

// unwritten is for pins that could not be written down. A backend that is pinned has
// no new tools then.
func (c *comparison) unwritten(err error, known map[definition.Tool]definition.Pin) {
	c.host.logger.Warn("the file of pins cannot be written", "file", c.file, "error", err)
	if !c.host.config.Pin {
		return
	}
	for t := range c.fresh {
		if _, seen := known[t]; !seen {
			c.verdicts[t.Name] = pinned{hash: c.fresh[t].Hash, refused: "this tool has no pin, and the file of pins cannot be written: an operator has to add " + c.fresh[t].Hash}
		}
	}
}
