package budget

import (
	"math"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/rules"
)

// Limits are what a prompt may use; 0 is no limit.
type Limits struct {
	Calls, Tokens int64
	// Duration is how long after its first call it may make calls.
	Duration time.Duration
}

// LimitsOf are those of the prompts of a profile.
func LimitsOf(p *catalog.Profile) Limits {
	return Limits{Calls: p.MaxCalls, Tokens: p.MaxTokens, Duration: p.MaxDuration}
}

// None reports that nothing is limited, and so nothing is counted.
func (l Limits) None() bool { return l == Limits{} }

// Draw is what a call asks of its prompt's budget. reported are the tokens that
// the loop says it has used so far; 0 says nothing.
func (l Limits) Draw(prompt string, reported int64) dedupe.Draw {
	return dedupe.Draw{
		Counter: rules.Counter(prompt), Tokens: min(reported, dedupe.MaxTokens),
		MaxCalls: l.Calls, MaxTokens: l.Tokens, MaxAge: l.Duration,
	}
}

// charsPerToken is how many characters a token has on average, in the tokenizers of
// the large providers and in English.
const charsPerToken = 4

// Estimate is how many tokens a text costs the loop, roughly: it counts until the
// loop reports what it has used.
func Estimate(chars int) int64 { return (int64(chars) + charsPerToken - 1) / charsPerToken }

// Chars is how many characters so many tokens are, roughly; 0 for none and for fewer.
func Chars(tokens int64) int {
	return int(min(max(tokens, 0), math.MaxInt32/charsPerToken)) * charsPerToken
}
