package failures

import (
	"slices"
	"sync"

	"github.com/sidecall/sidecall/internal/tool"
)

// builtIn is the catalogue that is built in, from what the error says to what only
// its code says. It is read at the first failure: a sidecar in which nothing fails
// pays nothing for it.
//
// It names no tool, since it knows none, and suggests nothing that could repeat an
// effect of which nobody knows whether it has happened.
var builtIn = sync.OnceValue(func() []compiled {
	var c compiler
	rules := c.rules("rules", slices.Concat(aboutFiles, aboutArguments, aboutServices, aboutTheWay, byCode))
	if err := c.err(); err != nil {
		panic(err) // a test reads it too
	}
	return rules
})

// refused are the codes under which tools report what they cannot do, in their own
// words; broken those of what took too long or fell over.
var (
	refused = []tool.Code{
		tool.CodeNotFound, tool.CodePermissionDenied, tool.CodeConflict, tool.CodeBusinessRule, tool.CodeUnrecoverable, tool.CodeInvalidArgs,
	}
	broken = []tool.Code{tool.CodeUnrecoverable, tool.CodeTimeout, tool.CodeDependencyUnavailable}
	either = slices.Concat(refused, broken)
)

// one is one code.
func one(code tool.Code) []tool.Code { return []tool.Code{code} }

// byCode is what can be said whatever the error says.
var byCode = []Rule{
	{Codes: one(tool.CodeInvalidArgs), Suggest: []string{
		"Change only what the error names, and keep the rest.",
		"Take a value that is missing from the conversation, or ask the user for it; do not make one up.",
	}},
	{Codes: one(tool.CodeUnknownTool), Suggest: []string{"Use only the names of the tools that you were given; there is none of this name."}},
	{Codes: one(tool.CodeNotFound), Suggest: []string{
		"Look up what there is (list or search) instead of trying variants of the name or id.",
		"Check that it is an id of this kind of thing, and of this account.",
		"It may have been deleted or renamed: ask the user what is meant.",
	}},
	{Codes: one(tool.CodePermissionDenied), Suggest: []string{
		"Do the part of the task that is allowed, and tell the user which permission the rest needs.",
	}},
	{Codes: one(tool.CodeUnauthenticated), Suggest: []string{
		"No argument changes this: the credentials are the operator's. Tell the user which service refuses them.",
	}},
	{Codes: one(tool.CodeConflict), Suggest: []string{"Read the state as it is now, and decide anew whether this is still wanted."}},
	{Codes: one(tool.CodeBusinessRule), Suggest: []string{
		"Read which rule forbids it, and offer the user what the rule allows.",
		"Do not try variants to find out what passes.",
	}},
	{Codes: one(tool.CodeRateLimited), Tried: TriedWaited, Suggest: []string{
		"Wait as long as the error says, else a minute, and do other parts of the task meanwhile.",
	}},
	{Codes: one(tool.CodeRateLimited), Suggest: []string{
		"Use what earlier calls have returned, and ask for several things in one call where the tool takes lists.",
	}},
	{Codes: one(tool.CodeTimeout), Tried: TriedSmaller, Suggest: []string{"Ask for less at a time: a smaller range, fewer items, a narrower filter."}},
	{Codes: one(tool.CodeTimeout), Suggest: []string{"Split the task into smaller steps, and make them one after the other."}},
	{Codes: []tool.Code{tool.CodeTimeout, tool.CodeDependencyUnavailable, tool.CodeCircuitOpen, tool.CodeStoreUnavailable}, Tried: TriedWaited, Suggest: []string{
		"Nothing in the arguments causes this: do other parts of the task first, and come back to it once.",
	}},
	{Codes: []tool.Code{tool.CodeDependencyUnavailable, tool.CodeCircuitOpen, tool.CodeStoreUnavailable}, Suggest: []string{
		"Go on with what does not need it, and tell the user what is missing for that.",
	}},
	{Codes: one(tool.CodeOverloaded), Tried: TriedWaited, Suggest: []string{"Make fewer calls at the same time, and this one a little later."}},
	{Codes: one(tool.CodeOutcomeUnknown), Suggest: []string{
		"Find out what has happened with a tool that only reads, before anything else.",
		"If that cannot be found out, tell the user that it may or may not have happened, and let them decide.",
	}},
	{Codes: one(tool.CodeInvalidOutput), Suggest: []string{"The call was made: look at what it has done with a tool that only reads, instead of repeating it."}},
	{Codes: []tool.Code{tool.CodeUnrecoverable, tool.CodeInternal}, Suggest: []string{
		"Leave this part out or take another way, and tell the user what could not be done.",
	}},
}
