package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// maxHintArgs bounds the arguments that a hint spells out, in bytes; of longer
// ones those that are required are named only.
const maxHintArgs = 400

// Open are those of the tools that no breaker blocks at this moment: nobody is sent to
// the others.
func Open(tools *catalog.Snapshot, names []string) []string {
	isBlocked := func(name string) bool { return blocked(tools, name) > 0 }
	if !slices.ContainsFunc(names, isBlocked) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), isBlocked)
}

// blocked is for how long a breaker blocks a tool; 0 when none does.
func blocked(tools *catalog.Snapshot, name string) time.Duration {
	if route, ok := tools.Lookup(name); ok {
		return route.Blocked()
	}
	return 0
}

// now says to call a tool or, of one that is blocked at this moment, from when on.
func now(tools *catalog.Snapshot, call, name string) string {
	if wait := blocked(tools, name); wait > 0 {
		return fmt.Sprintf("%s has been failing and cannot be called now; after %s %s %s", name, tool.RoundTime(wait), call, name)
	}
	return call + " " + name
}

// NotNow warns of the tools that are named and blocked at this moment; empty when none is.
func NotNow(tools *catalog.Snapshot, names []string) string {
	var warnings []string
	for _, name := range names {
		if wait := blocked(tools, name); wait > 0 {
			warnings = append(warnings, fmt.Sprintf("%s has been failing: do not call it before %s have passed.", name, tool.RoundTime(wait)))
		}
	}
	return strings.Join(warnings, " ")
}

// askWith says to call the tool that can tell whether a call has happened, and with
// what of its arguments is known. Known is what the verification makes of the
// call's own arguments or, without one, those of the same name.
func (s *Subject) askWith(verify string) string {
	const purpose = " to see whether it has"
	route, ok := s.Snapshot.Lookup(verify)
	if !ok {
		return "call " + verify + purpose
	}
	call := now(s.Snapshot, "call", verify)
	known := s.knownArgs(route)
	with := ""
	switch text, err := schema.Canonical(known); {
	case err != nil || len(text) > maxHintArgs:
		known = nil
	case len(known) > 0:
		with = " with " + string(text)
	}
	missing := slices.DeleteFunc(route.Schema.Required(), func(name string) bool { _, has := known[name]; return has })
	switch {
	case len(missing) == 0:
		return call + with + purpose
	case with == "":
		return fmt.Sprintf("%s with the fitting %s%s", call, strings.Join(missing, ", "), purpose)
	default:
		return fmt.Sprintf("%s%s and the fitting %s%s", call, with, strings.Join(missing, ", "), purpose)
	}
}

// knownArgs are the arguments to ask with, as far as they follow from the
// call's own. What the schema of the tool that is asked refuses is not known.
func (s *Subject) knownArgs(with *catalog.Route) map[string]any {
	known := map[string]any{}
	if v := s.Route.Verification; v != nil && v.Tool == with.Tool.Name {
		if text, err := v.Program.Arguments(s.About); err == nil {
			known, _ = with.Schema.ParseArgs(string(text))
		}
	} else {
		for _, name := range with.Schema.Properties() {
			if value, given := s.About.Args[name]; given {
				known[name] = value
			}
		}
	}
	secrets := s.Route.Schema.SecretTexts(s.About.Args)
	for name, value := range known {
		shown := fmt.Sprint(value)
		if with.Schema.Secret(name) ||
			slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(shown, secret) }) {
			delete(known, name)
		}
	}
	_, _, violations := with.Schema.Check(known)
	for _, violation := range violations {
		if path := schema.FieldPath(violation.Field); len(path) > 0 {
			delete(known, path[0])
		}
	}
	return known
}
