package dedupe

import (
	"fmt"
	"strings"
)

// Fields is a set of the optional fields of requests and settlements, those that
// a store could do without. A field that is neither here nor mandatory fails a
// test: a store would ignore it, and ignoring a ceiling is how budgets leak.
type Fields uint32

const (
	// FieldOutput is Settlement.Output.
	FieldOutput Fields = 1 << iota
	// FieldResolves is Settlement.Resolves.
	FieldResolves
	// FieldCharges is Request.Charges.
	FieldCharges
	// FieldDraw is Request.Draw, FieldSpend Settlement.Spend.
	FieldDraw
	FieldSpend
	// FieldLogs is Request.Logs, FieldAppends Settlement.Appends.
	FieldLogs
	FieldAppends
	// FieldEffectKey is Request.EffectKey, FieldFrees Settlement.Frees.
	FieldEffectKey
	FieldFrees
)

// FieldsOfLoop are the fields of tallies and logs, which a store knows all of or
// none.
const FieldsOfLoop = FieldCharges | FieldDraw | FieldSpend | FieldLogs | FieldAppends

// FieldsOfEffects are the fields of effect identity, likewise.
const FieldsOfEffects = FieldEffectKey | FieldFrees

var fieldNames = []string{"Output", "Resolves", "Charges", "Draw", "Spend", "Logs", "Appends", "EffectKey", "Frees"}

// String returns the names of the fields.
func (f Fields) String() string {
	var names []string
	for i, name := range fieldNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Knowledge says which optional fields a store knows.
type Knowledge struct {
	// Store names the store, for whoever has sent it what it does not know.
	Store string
	// Fields are those that it honours.
	Fields Fields
}

// covers refuses fields that the store does not know.
func (k Knowledge) covers(set Fields) error {
	if unknown := set &^ k.Fields; unknown != 0 {
		return fmt.Errorf("%w: %s knows nothing of %v", ErrInvalid, k.Store, unknown)
	}
	return nil
}

// everyField is what Machine knows.
var everyField = Knowledge{Store: "this store", Fields: ^Fields(0)}
