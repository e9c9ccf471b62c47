package call

import (
	"context"
	"slices"
	"time"

	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/rules/budget"
	"github.com/sidecall/sidecall/internal/telemetry"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// maxReasonBytes bounds what a program may say of the end of a prompt.
const maxReasonBytes = 256

// tallyTimeout bounds the wait for what is left of a budget.
const tallyTimeout = 5 * time.Second

// Prompt is a prompt as a front names it.
type Prompt struct {
	Choice

	Tenant, Conversation string
	// ID may be empty: the conversation is the prompt then.
	ID string
}

// StartPrompt begins a prompt and returns what is used of its budget; nil when it
// has none, or nobody knows. The error is a Fault: the request is wrong.
func (e Prompts) StartPrompt(ctx context.Context, p Prompt) (*sidecallv1.Budget, error) {
	profile, err := e.open(p)
	if err != nil {
		return nil, err
	}
	e.Recorder.StartPrompt(p.key(), profile.Name)
	return e.leftOf(ctx, p, profile), nil
}

// EndPrompt ends a prompt, for the log and the metrics, and tells what is used of its budget
// and what has happened in it.
func (e Prompts) EndPrompt(ctx context.Context, p Prompt, reason string) (*sidecallv1.EndPromptResponse, error) {
	if len(reason) > maxReasonBytes {
		why := explain.TooLong("exit_reason", reason, maxReasonBytes)
		return nil, fault(Invalid, "%s: %s", why.Field, why.Constraint)
	}
	profile, err := e.open(p)
	if err != nil {
		return nil, err
	}
	e.Recorder.EndPrompt(p.key(), reason)
	res := &sidecallv1.EndPromptResponse{Budget: e.leftOf(ctx, p, profile)}
	if p.Conversation != "" {
		res.Effects, res.EffectsIncomplete = e.committed(ctx, p)
	}
	return res, nil
}

// committed are the effects of a prompt; that the store cannot tell of them is no reason not to end
// it.
func (e Prompts) committed(ctx context.Context, p Prompt) (effects []*sidecallv1.CommittedEffect, incomplete bool) {
	ctx, cancel := context.WithTimeout(ctx, tallyTimeout)
	defer cancel()
	began, err := e.Dedupe.Tally(ctx, p.Tenant, p.Conversation, rules.Counter(p.ID))
	if err != nil {
		return nil, true
	}
	asked := effectQuery{Records: e.Records(), tenant: p.Tenant, conversation: p.Conversation, prompt: p.ID, since: began.StartedAt}
	effects, next, err := asked.list(ctx)
	return effects, err != nil || next != ""
}

func (p *Prompt) key() telemetry.PromptKey {
	return telemetry.PromptKey{Tenant: p.Tenant, Conversation: p.Conversation, Prompt: p.ID}
}

// open finds the profile of a prompt. It is refused where a call of it would be.
func (e Prompts) open(p Prompt) (catalog.Profile, error) {
	snapshot := e.Catalog.Snapshot()
	if err := p.identity(snapshot.Limits.RequireIDs); err != nil {
		return catalog.Profile{}, err
	}
	profile, ok := snapshot.Profiles.Find(p.Profile, p.Offered...)
	if !ok {
		why := explain.UnknownProfile(p.Profile, snapshot.Profiles.Names(p.Offered...))
		return catalog.Profile{}, fault(Invalid, "profile: %s. %s", why.Constraint, why.Hint)
	}
	return profile, nil
}

// identity checks the ids of a prompt; required are those of a call.
func (p *Prompt) identity(required []string) error {
	for _, id := range [...]id{{"conversation_id", p.Conversation}, {"prompt_id", p.ID}} {
		why := unfit(id)
		if id.value == "" && slices.Contains(required, id.name) {
			missing := explain.NoID(id.name)
			why = &missing
		}
		if why != nil {
			return fault(Invalid, "%s: %s", why.Field, why.Constraint)
		}
	}
	if p.Conversation == "" && p.ID == "" {
		return fault(Invalid, "conversation_id: is required where there is no prompt_id")
	}
	return nil
}

// leftOf asks the store what is used of a budget. That it cannot be asked is no
// reason not to begin or end a prompt.
func (e Prompts) leftOf(ctx context.Context, p Prompt, profile catalog.Profile) *sidecallv1.Budget {
	limits := budget.LimitsOf(&profile)
	if limits.None() || p.Conversation == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tallyTimeout)
	defer cancel()
	used, err := e.Dedupe.Tally(ctx, p.Tenant, p.Conversation, rules.Counter(p.ID))
	if err != nil {
		return nil
	}
	return limits.Left(&used)
}
