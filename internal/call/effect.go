package call

import (
	"net/http"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// frees is the effect that a call provably has not had which ends so: others may have
// it. Where its record says as much by itself, nothing needs to be written.
//
// A definite error can be such a proof (provesNothingDone), where no earlier attempt
// may have had the effect.
func (end *ending) frees(c *admitted) (free dedupe.EffectKey) {
	if !end.harmless || c.now.EarlierMayHaveRun {
		return dedupe.EffectKey{}
	}
	if end.state == dedupe.Done || c.effect() == tool.Keyed && c.tried.sent > 0 {
		return c.effectKey
	}
	return dedupe.EffectKey{}
}

// provesNothingDone reports whether a definite error proves that the attempt had no
// effect. A card that was declined, an order of the wrong state: to ask again under
// another id, when that has changed, is no second payment.
//
//	what a rule of the tool's config makes of a reply    yes: it is its operator's word
//	HTTP 4xx, 501, 505                                   yes: RFC 9110, 15.5: it was not fulfilled
//	HTTP 3xx                                             no: 303 is how a form answers that is done
//	the tool's own word (exit code, isError)             where the operator says fails_cleanly
//	an answer that cannot be read                        no: it ran
//
// Of a tool that must not be repeated, its own word is definite only where it is a
// proof (backend.OwnWord); of a keyed one it is definite either way.
func (f failing) provesNothingDone() bool {
	failure, effect := f.failure, f.effect()
	switch {
	case failure.Code == tool.CodeInvalidOutput:
		return false
	case f.tried.mapped || effect.Harmless():
		return true
	case failure.Status >= http.StatusMultipleChoices && failure.Status < http.StatusBadRequest:
		return false
	default:
		return effect == tool.NonIdempotent || f.route.Tool.Policy.FailsCleanly || failure.Status >= http.StatusBadRequest
	}
}
