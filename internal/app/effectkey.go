package app

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
)

// checkEffectKey checks the arguments by which calls of a tool are the same. One that
// a call may leave out, or misspell, would make two effects of one.
func checkEffectKey(route *catalog.Route, wrong complaint) {
	if route.Schema == nil || len(route.Tool.Policy.EffectKey.Args) == 0 {
		return // reported already, or nothing that its schema would be compiled for
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

// checkHasEffect refuses a discovered tool that has an effect by its effect_key, or because a
// person is asked before it, and none by what its server claims or is said of all of its tools:
// one of them is wrong, and to believe the latter would have the effect as often as it is asked
// for, and without a question.
func checkHasEffect(route *catalog.Route, wrong complaint) {
	if route.Tool.Effect != tool.ReadOnly {
		return
	}
	for _, says := range [...]struct {
		key string
		set bool
	}{
		{"effect_key", len(route.Tool.Policy.EffectKey.Args) > 0},
		{"approve_when", route.Approval != nil},
		{"require_confirmation_after", route.Tool.Policy.ConfirmAfter > 0},
	} {
		if key := says.key; says.set {
			wrong([]string{key}, fmt.Errorf("it counts as read_only, by its server's annotations or by effects, and has no effect then: say under effect what repeating a call does, or remove %s", key))
		}
	}
}
