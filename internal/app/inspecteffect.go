package app

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

var (
	// namesThing is what the name of an argument looks like that says which thing a call
	// is about: order_id, orderId, invoice_number, ref.
	namesThing = regexp.MustCompile(`(?i:(^|[_-])(id|ref|reference|number|no|code)$)|[a-z](Id|ID|Ref|Number)$`)
	// namesMeasure is what it looks like that says how much of it, or when.
	namesMeasure = regexp.MustCompile(`(?i)amount|cents|price|quantity|currency|date|count`)
	// namesWaiting is what the name of a tool looks like that is asked again and again.
	namesWaiting = regexp.MustCompile(`(?i)status|poll|progress|wait`)
)

// asWaiting says of a tool that only reads, and looks as if one waited with it, that the
// loop guard does not know that.
func asWaiting(name string, effect tool.Effect) string {
	if effect != tool.ReadOnly || !namesWaiting.MatchString(name) {
		return ""
	}
	return "the loop guard refuses it the fourth time that it says the same: if it is meant to be asked until that changes, add polling: true"
}

// withoutKey says of a tool that does something each time, about a thing that its
// arguments name, that a call of it under a new id has its effect once more; empty of all
// others.
func withoutKey(effect tool.Effect, own schema.Draft) string {
	if effect != tool.NonIdempotent {
		return ""
	}
	var key []string
	thing := false
	for _, name := range own.Required() {
		if about := namesThing.MatchString(name); about || namesMeasure.MatchString(name) {
			key, thing = append(key, name), thing || about
		}
	}
	if !thing {
		return ""
	}
	return fmt.Sprintf("a model that orders it again under a new id has the effect again: where the same arguments mean the same effect, add effect_key: {args: [%s], window: 24h}", strings.Join(key, ", "))
}
