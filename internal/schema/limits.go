package schema

import (
	"errors"
	"fmt"
)

// Bounds of the arguments of one call. Depth and Values keep the memory of a
// check proportional to something sane: the validator may remember an error for
// every single value.
const (
	// MaxDepth is how deep arrays and objects may be nested.
	MaxDepth = 100
	// MaxValues is how many values (members, items, scalars) there may be.
	MaxValues = 100_000
)

var (
	errTooDeep    = fmt.Errorf("at most %d levels of nesting", MaxDepth)
	errTooMany    = fmt.Errorf("at most %d values", MaxValues)
	errNotObject  = errors.New("a JSON object")
	errEndOfInput = errors.New("the end of the arguments")
)
