package telemetry

import (
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// PromptKey names a prompt of the user. Without an id of its own the conversation is
// the prompt, as it is for budgets.
type PromptKey struct{ Tenant, Conversation, Prompt string }

// named reports that calls can be told to belong to it.
func (k PromptKey) named() bool { return k.Conversation != "" || k.Prompt != "" }

// prompt is what is known of one prompt.
type prompt struct {
	key PromptKey
	// profile is that of its first call, or of StartPrompt.
	profile string
	// calls are those that the model made; errors those of them that failed;
	// recovered how often a success followed on the errors of a tool.
	calls, errors, recovered int
	// failed: the last call did not work, for whatever reason.
	failed bool
	// open are the tools of which an error is the last word.
	open []openError
	// last is when it was heard of last.
	last time.Time
	// ended is when EndPrompt ended it; zero while it is open. What ended stays for
	// a while, so that an EndPrompt that is sent again counts nothing.
	ended time.Time
}

// openError is a tool that has failed, and not worked since.
type openError struct {
	tool, turn string
	since      time.Time
}

// maxOpenErrors bounds the tools that a prompt remembers as failed.
const maxOpenErrors = 8

// called takes down a call that has its answer.
func (p *prompt) called(c *Call, end *CallEnd, now time.Time) (recoveries int) {
	p.last = now
	if end.resent() {
		return 0 // the program's doing, and not the model's
	}
	p.calls++
	if p.profile == "" {
		p.profile = end.Profile
	}
	switch {
	case end.Code == "":
		p.failed = false
		return p.recover(c)
	case end.isError():
		p.errors++
		p.remember(openError{tool: c.name, turn: c.info.Turn, since: now})
		p.failed = true
	case end.Code != tool.CodeCancelled:
		p.failed = true
	}
	return 0
}

// remember opens an error, unless the tool has failed before it.
func (p *prompt) remember(e openError) {
	for i := range p.open {
		if p.open[i].tool == e.tool {
			return
		}
	}
	if len(p.open) < maxOpenErrors {
		p.open = append(p.open, e)
	}
}

// recover closes the errors that a success has followed on: those of its tool, and
// of tools that there are not, for these can never work. What was called in the same
// turn, or before the error was told, is no answer to it.
func (p *prompt) recover(c *Call) (recoveries int) {
	kept := p.open[:0]
	for _, e := range p.open {
		sameTurn := e.turn != "" && e.turn == c.info.Turn
		if (e.tool == c.name || e.tool == unknownToolName) && !sameTurn && !c.start.Before(e.since) {
			recoveries++
			continue
		}
		kept = append(kept, e)
	}
	p.open = kept
	p.recovered += recoveries
	return recoveries
}

// resent reports an answer to a call that was made before: the model called once.
func (e *CallEnd) resent() bool { return e.Replayed || e.Code == tool.CodeInProgress }

// isError reports a failure that the model is to recover from. What a guard of the
// loop refuses, or is told to have happened already, is counted as a refusal; and what
// the program cancels the model never hears of.
func (e *CallEnd) isError() bool {
	switch {
	case e.Code == "", e.Code == tool.CodeCancelled, e.Code.Class() == tool.Guard:
		return false
	default:
		return e.Rule != ruleEffectDuplicate
	}
}

// endedBadly judges the end of a prompt. Where nobody says how it ended, its last
// answer does: a loop that ends on an error has given up.
func (p *prompt) endedBadly(exit string) bool {
	switch exit {
	case "end_turn":
		return false
	case exitOther, exitIdle, exitEvicted:
		return p.failed
	default:
		return true
	}
}

// unrecovered are the tools whose errors nothing has made good.
func (p *prompt) unrecovered() []string {
	names := make([]string, len(p.open))
	for i := range p.open {
		names[i] = p.open[i].tool
	}
	return names
}
