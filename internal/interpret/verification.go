package interpret

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/interpreter"

	"github.com/sidecall/sidecall/internal/tool"
)

// VerificationConfig says how the answer of a read-only tool tells what became
// of a call of another tool, of which nobody knows whether it ran. All are CEL.
//
// Variables, besides those of every expression, which are about the read-only
// tool's answer, but for args, which are the unknown call's:
//
//	tool_use_id, conversation_id, turn_id  string  what names the unknown call
//	idempotency_key                        string  the key its attempts carried
//
// The expressions of Args know these four and args alone.
type VerificationConfig struct {
	// Args are the arguments to ask the read-only tool with, by name.
	Args map[string]string
	// DoneWhen and NotRunWhen are conditions; at least one is needed.
	DoneWhen, NotRunWhen string
	// Result is what the model gets of a call that is done; empty for a sentence.
	Result string
}

// Subject is the call that a verification is about.
type Subject struct {
	tool.CallID

	IdempotencyKey string
	// Args are its arguments, decoded, numbers as json.Number; nil when they are
	// not known.
	Args map[string]any
}

// Verdict is what an answer says of the call in question.
type Verdict uint8

const (
	// Inconclusive: it cannot be told. The zero value.
	Inconclusive Verdict = iota
	// Happened: the call has had its effect.
	Happened
	// NotThere: at the time of the answer, it had not.
	NotThere
)

var verdictNames = []string{Inconclusive: "inconclusive", Happened: "happened", NotThere: "not_there"}

// String returns inconclusive, happened or not_there.
func (v Verdict) String() string { return tool.Named("verdict", verdictNames, v) }

// Judgement is what a verification makes of an answer.
type Judgement struct {
	Verdict Verdict
	// Why says in a few words why nothing can be told; nil otherwise.
	Why error
	// Result is what the model gets of a call that Happened; nil when none is
	// configured or the answer lacks it.
	Result *tool.Reply
}

// Verification is a compiled VerificationConfig. It is immutable and safe for
// concurrent use.
type Verification struct {
	args             *Arguments
	doneWhen, notRun *expression
	result           *expression
}

// CompileVerification compiles a config. Its errors are *KeyError, all at once.
func CompileVerification(cfg VerificationConfig) (*Verification, error) {
	c := compiler{}
	v := &Verification{
		args:     c.arguments(cfg.Args, subjectScope),
		doneWhen: c.compile(cfg.DoneWhen, verificationScope, cel.BoolType, "done_when"),
		notRun:   c.compile(cfg.NotRunWhen, verificationScope, cel.BoolType, "not_run_when"),
		result:   c.compile(cfg.Result, verificationScope, nil, "result"),
	}
	if cfg.DoneWhen == "" && cfg.NotRunWhen == "" {
		c.fail("it can never decide: expected done_when, not_run_when, or both")
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return v, nil
}

// ReadsArgs reports whether an expression reads the arguments of the call: then
// nothing can be verified without them.
func (v *Verification) ReadsArgs() bool {
	all := slices.AppendSeq([]*expression{v.doneWhen, v.notRun, v.result}, maps.Values(v.args.of))
	return slices.ContainsFunc(all, func(e *expression) bool { return e != nil && e.readsArgs })
}

// Arguments are those to ask the read-only tool with: a JSON object.
func (v *Verification) Arguments(about Subject) (json.RawMessage, error) {
	return v.args.object(&verificationView{view: &view{args: about.Args}, about: &about})
}

// Judge reads the answer of the read-only tool. Only an answer tells something:
// a failure to get one, and one that was cut, tell nothing. Nothing is told
// either when an expression cannot be evaluated, or both conditions hold.
func (v *Verification) Judge(answer Reading, about Subject) Judgement {
	failure := answer.Failure
	switch {
	case failure != nil && failure.Evidence != tool.Definite:
		return Judgement{Why: fmt.Errorf("there is no answer (%s)", failure.Code)}
	case answer.Reply.Cut:
		return Judgement{Why: errors.New("the answer is too long to be read to its end")}
	}
	seen := &verificationView{view: &view{reply: &answer.Reply, failure: failure, args: about.Args}, about: &about}
	done, err := v.doneWhen.isTrue(seen)
	if err != nil {
		return Judgement{Why: fmt.Errorf("done_when cannot be evaluated: %w", err)}
	}
	notRun, err := v.notRun.isTrue(seen)
	switch {
	case err != nil:
		return Judgement{Why: fmt.Errorf("not_run_when cannot be evaluated: %w", err)}
	case done && notRun:
		return Judgement{Why: errors.New("done_when and not_run_when both hold")}
	case done:
		return Judgement{Verdict: Happened, Result: v.picked(seen)}
	case notRun:
		return Judgement{Verdict: NotThere}
	default:
		return Judgement{Why: errors.New("neither done_when nor not_run_when holds")}
	}
}

// picked is the result for the model; nil when there is none.
func (v *Verification) picked(seen *verificationView) *tool.Reply {
	if v.result == nil {
		return nil
	}
	value, err := v.result.value(seen)
	if err != nil {
		return nil // what matters is certain, and a sentence says it
	}
	text, err := encode(plainValue(value))
	if err != nil {
		return nil
	}
	reply := &tool.Reply{Status: seen.reply.Status}
	show(reply, text)
	return reply
}

// verificationView is an answer beside the call that it is to tell of.
type verificationView struct {
	*view

	about *Subject
}

var _ interpreter.Activation = (*verificationView)(nil)

// ResolveName implements interpreter.Activation.
func (v *verificationView) ResolveName(name string) (any, bool) {
	switch name {
	case "tool_use_id":
		return v.about.ID, true
	case "conversation_id":
		return v.about.Conversation, true
	case "turn_id":
		return v.about.Turn, true
	case "idempotency_key":
		return v.about.IdempotencyKey, true
	default:
		return v.view.ResolveName(name)
	}
}
