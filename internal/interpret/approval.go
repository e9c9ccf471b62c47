package interpret

import (
	"errors"

	"cel.dev/cel-go/cel"
)

// Always is the condition of an approval of which every call needs one.
const Always = "always"

var approvalScope = newScope([]variable{{"args", cel.MapType(cel.StringType, cel.DynType)}})

// Approval is a compiled condition under which a person is asked before a call: it is
// immutable and safe for concurrent use.
type Approval struct {
	text string
	when *expression // nil for Always
}

// CompileApproval compiles a condition, in CEL over args, or Always. Its error is a *KeyError.
func CompileApproval(text string) (*Approval, error) {
	if text == Always {
		return &Approval{text: text}, nil
	}
	c := compiler{}
	when := c.compile(text, approvalScope, cel.BoolType, "approve_when")
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return &Approval{text, when}, nil
}

// Asks reports whether a person is asked before a call with these arguments, decoded and with
// numbers as json.Number. Where that cannot be told one is: why says what went wrong.
func (a *Approval) Asks(args map[string]any) (asks bool, why error) {
	if a.when == nil {
		return true, nil
	}
	asks, err := a.when.isTrue(&view{args: args})
	return asks || err != nil, err
}

// String is the condition as it was written.
func (a *Approval) String() string { return a.text }
