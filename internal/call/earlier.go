package call

import (
	"cmp"
	"strings"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/identity"
	"github.com/sidecall/sidecall/internal/tool"
)

// duplicate answers a call whose effect another one has had.
func (r recorded) duplicate() *answer {
	res, err := result.Recorded(r.Record)
	if err != nil {
		res = &response{} // it is done, whatever it returned
	}
	if code := tool.Code(res.GetError().GetCode()); code != "" && code != tool.CodeInvalidOutput || res.GetInputRequiredJson() != "" {
		// It failed, or asks for something first, and may yet have had its effect: frees has the reasons.
		return r.effectUnknown()
	}
	earlier := r.earlier()
	earlier.Content, earlier.OutputRef = res.GetContent(), res.GetTruncation().GetOutputRef()
	if r.Earlier.Conversation != r.Key.Conversation {
		earlier.Content, earlier.OutputRef = withoutHandles(res), ""
	}
	a := r.result().Refused(earlier.DuplicateEffect(), 0)
	a.Quotes = res
	return r.besides(dedupe.Done, a)
}

// goesOn reports that the call is a further round of the request for which the one in its way has asked
// for input: by what its record says, and never by an id alone.
func (r recorded) goesOn() bool {
	if r.Verdict != dedupe.DuplicateEffect || !r.Round.Further() {
		return false
	}
	request, before := r.Key, r.Earlier
	request.ID, before.ID = identity.RequestOf(request.ID), cmp.Or(identity.RequestOf(before.ID), before.ID)
	if request.ID == "" || before != request {
		return false
	}
	res, err := result.Recorded(r.Record)
	return err == nil && res.GetInputRequiredJson() != ""
}

// effectUnknown answers a call whose effect another one may have had.
func (r recorded) effectUnknown() *answer {
	earlier := r.earlier()
	a := r.result().Refused(earlier.EffectUnknown(), 0)
	a.Alternatives = r.verifiers()
	return r.besides(dedupe.Unknown, a)
}

// effectInProgress answers a call whose effect another one is having.
func (r recorded) effectInProgress() *answer {
	earlier := r.earlier()
	return r.besides(dedupe.Claimed, r.result().Refused(earlier.EffectInProgress(), explain.WhenInProgress))
}

func (r recorded) earlier() explain.Earlier {
	return explain.Earlier{Of: r.subject(), Key: r.Earlier, Record: r.Record}
}

// besides adds to a refusal the call that stands in its way.
func (r recorded) besides(state dedupe.State, a *answer) *answer {
	a.Earlier = result.NewEarlier(r.Earlier, state, r.Record.FinishedAt)
	return a
}

// withoutHandles is the content of a result of another conversation, whose handles
// this one cannot read.
func withoutHandles(res *response) string {
	handles := []string{res.GetTruncation().GetOutputRef(), res.GetStructuredOutputRef()}
	for _, b := range res.GetBlocks() {
		handles = append(handles, b.GetOutputRef())
	}
	content := res.GetContent()
	for _, handle := range handles {
		if handle != "" {
			content = strings.ReplaceAll(content, handle, "(of another conversation)")
		}
	}
	return content
}
