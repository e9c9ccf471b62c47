package call

import (
	"github.com/sidecall/sidecall/call/result"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
	"strings"
)

// mayBeSaid reports whether a conversation may say a text of a call: it is what the
// record has, or says that nobody knows, or it is no sidecar's. Of what does no harm when
// it is had twice it may also be said that it is refused now, as whoever sends it is told.
func (r recorded) mayBeSaid(text string) bool {
	record := r.Record
	if !saysOtherwise(text) || record.State == dedupe.Closed || record.Refused() && !record.MayHaveRun() {
		return true
	}
	if record.State == dedupe.NotRun && record.Effect.Harmless() && r.declared().Harmless() && !saysNothingRan(text) {
		return true
	}
	last, err := result.Recorded(record)
	if err != nil {
		return false
	}
	said, _ := tool.ParseError(text)
	return string(said.Code) == last.GetError().GetCode() && said.Constraint == last.GetError().GetConstraint() || last.GetContent() != "" && strings.HasPrefix(text, last.GetContent())
}

// closed is what whoever sends a call is answered that its conversation has answered:
// that answer, when it is a sidecar's, and else that there is one, and which.
func (r recorded) closed(mayHaveRun bool, text string) *answer {
	r.standIn(tool.NonIdempotent)
	said, ours := tool.ParseError(text)
	if !ours {
		said = r.subject().Answered(r.subject().Cleaned(text, maxClosingChars), mayHaveRun)
	}
	a := result.For{ID: r.Key.ID}.Refused(said, 0)
	a.Recorded = true
	return a
}
