// Package interpret reads what a backend brought back: whether it is a result,
// an empty one, one that was done in part, or a failure, and which.
//
// A backend classifies by what its transport knows: an HTTP status, an exit
// code. What a reply means beyond that only the operator knows, who writes it
// down in CEL expressions. They are compiled and type-checked when the tool is
// registered, so that a typo is an error at start; at run time an expression
// that cannot be evaluated, because the reply lacks what it asks for, does not
// match. Evaluation is bounded by CEL's own cost accounting.
//
// The order in which a reply is read:
//
//  1. error rules, the first that matches counts;
//  2. the success condition, when there is one;
//  3. the selection of the result;
//  4. partial success: by the rule for it, or, of an HTTP status 207, by what each
//     item says of itself. A failure of which the rule reads that some items were done
//     is a partial success too;
//  5. the output schema;
//  6. emptiness.
//
// Variables of every expression:
//
//	status     int     HTTP status or exit code
//	exit_code  int     the same number, for commands
//	headers    map     response headers by lower-case name
//	body       any     the reply as JSON; null when it is not JSON
//	result     any     the selected part of body; body when nothing is selected
//	text       string  the reply as text
//	is_error   bool    the backend calls it a failure
//	args       map     the arguments of the call
//
// done(item) is what an item says of itself (see word).
//
// The reply is parsed only when an expression asks for body or result, and
// once.
package interpret

import (
	"bytes"
	"encoding/json"

	"cel.dev/cel-go/common/types"

	"github.com/sidecall/sidecall/internal/tool"
)

// Program is a compiled Config. It is immutable and safe for concurrent use.
type Program struct {
	rules     []rule
	success   *expression
	selection *selection
	partial   *partial
	emptyWhen *expression
	check     func(json.RawMessage) error
}

type rule struct {
	Rule
	when *expression
}

// Interpret reads one reply. failure is the backend's own classification; nil
// for a success. args are the arguments of the call, decoded, numbers as
// json.Number. A nil Program reads by the backend's classification alone.
func (p *Program) Interpret(reply tool.Reply, failure *tool.Failure, args map[string]any) Reading {
	if p == nil {
		p = &plain
	}
	if reply.InputRequired != nil && failure == nil {
		return Reading{Reply: reply} // no result yet, which a rule could be about
	}
	v := &view{reply: &reply, failure: failure, args: args, selection: p.selection}
	if failure == nil || answered(failure) {
		failure = p.classify(v)
	}
	if failure != nil {
		return p.fail(v, failure)
	}
	return p.succeed(v)
}

// fail reads a reply that is a failure. One that tells item by item what was done,
// and that some of it was, is no failure of the whole, whatever the backend makes of
// its status, exit code or isError: who sends all of it again does some of it twice.
func (p *Program) fail(v *view, failure *tool.Failure) Reading {
	failed := Reading{Outcome: Failed, Failure: failure, Reply: *v.reply}
	itsWord := answered(failure) || failure.ErrorType == errorTypeTool // of which backend.Invocation.OwnWord may doubt what it proves
	if p.partial == nil || p.success != nil || failure != v.failure || !itsWord {
		return failed
	}
	reading := Reading{Reply: *v.reply}
	if p.selection != nil && !v.reply.Cut && p.selection.apply(v, &reading.Reply) != nil {
		return failed
	}
	if p.partial.read(v, &reading); reading.Outcome == Partial {
		reading.Failure = nil
		return reading
	}
	failed.Items, failed.Total = reading.Items, reading.Total
	if reading.Done > 0 {
		failed.Items, failed.Total = nil, 0 // it says that all was done, and that it failed
	}
	return failed
}

// KnowsEmpty reports that the config says what is empty; else a reply is that says
// nothing at all.
func (p *Program) KnowsEmpty() bool { return p != nil && p.emptyWhen != nil }

// plain is the program of a zero Config.
var plain Program

// answered reports whether a failure is the tool's answer. One without an
// answer (no connection, no time left) is nothing that a mapping may explain
// away.
func answered(failure *tool.Failure) bool {
	return failure.Evidence == tool.Definite || failure.Status != 0
}

// classify applies the error rules and the success condition.
func (p *Program) classify(v *view) *tool.Failure {
	for i := range p.rules {
		if p.rules[i].when.holds(v) {
			return p.rules[i].failure(v)
		}
	}
	if p.success == nil {
		return v.failure
	}
	value, err := p.success.value(v)
	if err == nil && value == types.True {
		return nil
	}
	if v.failure != nil {
		return v.failure
	}
	failure := &tool.Failure{
		Code: tool.CodeUnrecoverable, Evidence: tool.Definite, CallerFault: true,
		Status: v.reply.Status, ErrorType: errorTypeTool,
		Constraint: "the upstream answered, but its answer is not one of success",
		Message:    v.message(),
	}
	if tooCostly(err) {
		failure.Evidence, failure.Constraint = tool.Ambiguous, "the upstream answered, but it costs too much to find out whether its answer is one of success"
	}
	return failure
}

// failure is what the rule makes of a reply.
func (r *rule) failure(v *view) *tool.Failure {
	mapped := tool.Failure{ErrorType: errorTypeTool, Status: v.reply.Status}
	if v.failure != nil {
		mapped = *v.failure
	} else {
		mapped.Message = v.message()
	}
	mapped.Code = r.Code
	mapped.Evidence = tool.Definite
	mapped.CallerFault = true
	class := r.Code.Class()
	if class == tool.Transient || class == tool.Unknown {
		mapped.Evidence = tool.Ambiguous
		mapped.CallerFault = false
	}
	proved := v.failure != nil && v.failure.Evidence == tool.NotExecuted && class == tool.Transient
	if r.NotExecuted || proved {
		mapped.Evidence = tool.NotExecuted
	}
	mapped.Hint = r.Hint
	mapped.Field = r.Field
	mapped.AllowedAlternatives = r.AllowedAlternatives
	return &mapped
}

// succeed reads a reply that is a success so far.
func (p *Program) succeed(v *view) Reading {
	reading := Reading{Reply: *v.reply}
	if p.selection != nil && !v.reply.Cut {
		// Of a reply that was cut nothing can be selected; it is shown as it is.
		if failure := p.selection.apply(v, &reading.Reply); failure != nil {
			return Reading{Outcome: Failed, Failure: failure, Reply: *v.reply}
		}
	}
	if items := p.itemwise(v); items != nil {
		reading.Unread = items == asIs && len(v.reply.Text) > 0
		if items.read(v, &reading); reading.Total > 0 {
			reading.Unread = false
		}
	}
	if reading.Failure == nil && p.check != nil {
		reading.Failure = p.checkOutput(&reading.Reply)
	}
	switch {
	case reading.Failure != nil:
		reading.Outcome = Failed
	case reading.Outcome == OK && p.empty(v, &reading.Reply):
		reading.Outcome = Empty
	}
	return reading
}

// checkOutput checks the result against the output schema. A reply that was
// cut cannot be checked, and is not wrong for that.
func (p *Program) checkOutput(reply *tool.Reply) *tool.Failure {
	if reply.Cut {
		return nil
	}
	result := []byte(reply.Structured)
	if result == nil {
		if !isJSON(reply) {
			return badOutput("the tool declares structured output, but its answer is not JSON", reply, nil)
		}
		result = reply.Text
	}
	if err := p.check(result); err != nil {
		return badOutput("the answer breaks the tool's output schema: "+err.Error(), reply, err)
	}
	return nil
}

func (p *Program) empty(v *view, reply *tool.Reply) bool {
	if p.emptyWhen != nil {
		return p.emptyWhen.holds(v)
	}
	switch {
	case len(reply.Blocks) > 0, reply.Binary != "" && reply.Size != 0, reply.Cut:
		return false
	case reply.Structured != nil && !nothing(reply.Structured):
		return false
	default:
		return nothing(reply.Text)
	}
}

// nothing reports whether a text says nothing: blank, or an empty JSON value,
// which may have a few spaces inside.
func nothing(text []byte) bool {
	text = bytes.Trim(text, " \t\r\n")
	const longest = 16
	if len(text) > longest {
		return false
	}
	var compact [longest]byte
	n := 0
	for _, c := range text {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			compact[n] = c
			n++
		}
	}
	switch string(compact[:n]) {
	case "", "null", "[]", "{}", `""`:
		return true
	default:
		return false
	}
}
