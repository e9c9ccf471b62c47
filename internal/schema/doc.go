// Package schema decides whether the arguments of a call fit the tool's JSON
// Schema, and says what is wrong in a shape that a program can act on.
//
// The way of one call:
//
//	raw ──ParseArgs──▶ map ──Check──▶ map, nulls dropped ──Canonical──▶ bytes ──Fingerprint──▶ hash
//	          │                  │
//	          └── one violation  └── up to ten violations, most useful first
//
// Whether a value is valid is the library's verdict alone
// (santhosh-tekuri/jsonschema). A valid call costs nothing beyond it. Only when
// the library says no does this package look further: it flattens the library's
// tree of errors into findings (of an anyOf only those of the nearest branch),
// looks up every subschema that applies at the place of each finding, and words
// each as a tool.Error.
//
// # The grammar a program can rely on
//
//	field       priority, items[2].sku, ["a.b"].c; empty for the whole object
//	constraint  <keyword>: <JSON value>, or a plain sentence
//	received    a JSON value of at most 200 characters, (missing) or (redacted)
//	hint        holds Did you mean "X"? and e.g. X where they are known
//
// Two keywords carry what a repair needs instead of their bare value:
//
//	required: {...}            at the missing property's own path, with its schema
//	additionalProperties: [..] at the unknown property's own path, with the names allowed there
//
// Whatever is one item too many is reported at the array, as maxItems, so that
// no index moves while a program edits; only maxContains points at the item to
// remove.
//
// X of Did you mean "X"? is a name where the constraint is about names
// (required, additionalProperties, propertyNames), else the value to send.
// X of e.g. X is JSON, and always a complete valid value of field: putting it
// there repairs the violation.
package schema
