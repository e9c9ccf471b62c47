package catalog

import "github.com/sidecall/sidecall/internal/rules/history/failures"

// Recovery is how a failed call of a tool is told what was tried before it.
type Recovery struct {
	// Targeting says what a call is about.
	Targeting *failures.Targeting
	// MaxChars is the most that it is told, in characters; 0 for the advisor's own.
	MaxChars int
}

// Advice is by what failed calls are told. The zero value tells nothing.
type Advice struct {
	Advisor *failures.Advisor
	// UnknownTools: calls of tools that there are not are told too.
	UnknownTools bool
}
