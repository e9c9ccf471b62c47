package assembly

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/tool"
)

// checkEffectKey checks the arguments by which calls of a tool are the same. One that
// a call may leave out, or misspell, would make two effects of one.
func checkEffectKey(route *catalog.Route, wrong complaint) {
	if route.Schema == nil {
		return // reported already
	}
	required := route.Schema.Required()
	for i, name := range route.Tool.Policy.EffectKey.Args {
		if slices.Contains(required, name) {
			continue
		}
		why := fmt.Sprintf("the input schema does not require %s, and a call without it would count as another effect: expected a name under required of input_schema", strconv.Quote(name))
		if known := route.Schema.Properties(); !slices.Contains(known, name) {
			why = "the input schema has no property " + strconv.Quote(name)
			if near := tool.Closest(name, known); near != "" {
				why += "; did you mean " + strconv.Quote(near) + "?"
			}
		}
		wrong([]string{"effect_key", "args", strconv.Itoa(i)}, errors.New(why))
	}
}
