package backend

import "github.com/sidecall/sidecall/internal/tool"

// notAProof is said of a failure that only the tool itself tells of.
const notAProof = ", which does not prove that it had done nothing by then"

// OwnWord weighs a failure that is the tool's own word: it was asked, it ran, and
// it says that it failed. An exit code or an error in place of a result does not
// say how far it had come. So a call that must not be repeated is of unknown
// outcome, unless the operator knows better. Of one that may be repeated it is
// enough to know that it failed.
func (i *Invocation) OwnWord(failure *tool.Failure) *tool.Failure {
	failure.Evidence = tool.Definite
	if !i.Effect.Repeatable() && !i.FailsCleanly {
		failure.Evidence = tool.Ambiguous
		failure.Constraint += notAProof
	}
	return failure
}
