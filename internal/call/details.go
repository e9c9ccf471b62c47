package call

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// maxKeptArguments is how much of its arguments is kept of a call, in bytes.
const maxKeptArguments = 4 << 10

// details are what the record of the call has for people.
func (c *checked) details() *sidecallv1.CallDetails {
	kept := &sidecallv1.CallDetails{PromptId: c.Prompt, Labels: c.Labels}
	if c.snapshot.Limits.KeepArguments {
		kept.ArgumentsJson = c.shownArguments()
		if shown := tool.ShortenBytes(kept.GetArgumentsJson(), maxKeptArguments); shown != kept.GetArgumentsJson() {
			kept.ArgumentsJson, kept.ArgumentsCut = shown, true
		}
	}
	return kept
}

// details are those of a call that was made.
func (c *admitted) details() *sidecallv1.CallDetails {
	kept := c.checked.details()
	kept.UpstreamId = c.tried.upstreamID
	c.planUndo(kept)
	return kept
}

// sealed are details as a record has them.
func (c *call) sealed(kept *sidecallv1.CallDetails) []byte {
	encoded, err := proto.Marshal(kept)
	if err != nil || len(encoded) > dedupe.MaxDetailsBytes {
		// Unreachable while every text is valid UTF-8 and bounded where it comes in.
		c.log.cause = err
		return nil
	}
	return encoded
}

// detailsOf is what the record of a call has for people; nil when it has nothing.
func detailsOf(record dedupe.Record) *sidecallv1.CallDetails {
	details := new(sidecallv1.CallDetails)
	if len(record.Details) == 0 || proto.Unmarshal(record.Details, details) != nil {
		return nil
	}
	return details
}

// shownArguments are the arguments of a checked call as it sends them, but for what is sensitive.
func (c *checked) shownArguments() string {
	shown := c.canonical
	if c.route.Schema.HasSecret(c.values) {
		// What could be written whole can be written without some of it.
		shown, _ = schema.Canonical(c.route.Schema.Redacted(c.values))
	}
	return c.route.Secrets.Replace(string(shown))
}

// Kinds of terms that calls are found by.
const (
	byID           = "id"
	byConversation = "conversation"
	byLabel        = "label"
	byArgument     = "argument"
)

// terms are what the call is found by.
func (c *checked) terms() []dedupe.Term {
	terms := termsOf(c.Key)
	add := func(kind, name, value string) {
		if term := dedupe.TermOf(c.Key.Tenant, kind, name, value); len(terms) < dedupe.MaxTerms && !slices.Contains(terms, term) {
			terms = append(terms, term)
		}
	}
	if len(c.Labels) > 0 { // most have none
		for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
			add(byLabel, name, c.Labels[name])
		}
	}
	c.route.Search.Each(c.values, func(name, value string) { add(byArgument, name, value) })
	return terms
}

// termsOf are what every call is found by.
func termsOf(key tool.CallID) []dedupe.Term {
	terms := append(make([]dedupe.Term, 0, 4), dedupe.TermOf(key.Tenant, byID, "", key.ID))
	if key.Conversation != "" {
		terms = append(terms, ConversationTerm(key.Tenant, key.Conversation))
	}
	return terms
}

// ConversationTerm is what the calls of a conversation are found by.
func ConversationTerm(tenant, conversation string) dedupe.Term {
	return dedupe.TermOf(tenant, byConversation, "", conversation)
}

// upstreamNames are the headers in which upstreams tell what they call a request, the most telling
// first.
var upstreamNames = [...]string{"x-request-id", "request-id", "x-amzn-requestid", "x-correlation-id", "x-trace-id", "cf-ray"}

// upstreamID is what the upstream calls a request that it has answered so; empty where it does
// not say.
func upstreamID(header map[string]string) string {
	for _, name := range upstreamNames {
		if id := header[name]; id != "" {
			return tool.ShortenBytes(output.Clean([]byte(id)), maxUpstreamID)
		}
	}
	return ""
}

// maxUpstreamID bounds what is kept of such a name, in bytes.
const maxUpstreamID = 128

// toldBefore are details with what the model was told before its call was settled by somebody
// else: all that there is room for.
func toldBefore(details []byte, text string) []byte {
	kept := new(sidecallv1.CallDetails)
	if proto.Unmarshal(details, kept) != nil || kept.GetToldBefore() != "" {
		return details
	}
	const field = 4 // bytes of its number and its length
	kept.ToldBefore = tool.ShortenBytes(text, dedupe.MaxDetailsBytes-proto.Size(kept)-field)
	encoded, err := proto.Marshal(kept)
	if err != nil || len(encoded) > dedupe.MaxDetailsBytes {
		return details
	}
	return encoded
}
