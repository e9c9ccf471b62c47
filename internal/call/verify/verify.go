// Package verify finds out what became of a call whose answer was lost: it asks
// a read-only tool, and says what the answer proves.
//
// That the effect is there proves that the call has happened. That it is not
// there proves nothing while the request may still be under way: only an answer
// that was asked for a while after the call's end does.
package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
)

// Verdict is what is known of a call after a look.
type Verdict uint8

const (
	// Inconclusive: nothing can be told.
	Inconclusive Verdict = iota
	// Done: the call has happened.
	Done
	// NotRun: it has not, and will not.
	NotRun
	// TooEarly: its effect is not there, and may still come.
	TooEarly
)

// Case is the call in question, of the claim that ended without an answer.
type Case struct {
	Key   tool.CallID
	Epoch int64
	// About is what the tool is asked with.
	About    interpret.Subject
	Route    *catalog.Route // has a Verification
	Snapshot *catalog.Snapshot
	// NotBefore is from when on, by the store's clock, an effect that is not
	// there will not come; zero when that cannot be said yet.
	NotBefore time.Time
	// Client is whose call it is, as in backend.Invocation.
	Client string
}

// Finding is what a look came to.
type Finding struct {
	Verdict Verdict
	// Why nothing can be told, for the log and the operator.
	Why error
	// Wait is for how much longer it is TooEarly; 0 when that cannot be said.
	Wait time.Duration
	// Result is for the model, of a call that is Done; nil when there is none.
	Result *tool.Reply
	// Untrusted: the tool that was asked is.
	Untrusted bool
}

// Question is one call of a read-only tool.
type Question struct {
	Key       tool.CallID
	Client    string
	Route     *catalog.Route
	Args      map[string]any
	Canonical []byte
	// MaxBytes is how much of the answer is read at the most.
	MaxBytes int64
	// Trace records the attempt.
	Trace *telemetry.Call
}

// Looker looks into calls, one look per claim at a time.
type Looker struct {
	// Now is the store's time.
	Now func(ctx context.Context) (time.Time, error)
	// Ask makes one attempt at the tool. An error says why it could not be
	// asked; why says more of what it answered, for the log.
	Ask      func(ctx context.Context, q Question) (answer interpret.Reading, why, err error)
	Recorder *telemetry.Recorder

	looks looks
}

// Look finds out what became of a call, together with whoever else wants to
// know. It ends with ctx.
func (l *Looker) Look(ctx context.Context, c Case) Finding {
	return c.judge(l.looks.share(ctx, claim{c.Key, c.Epoch}, func() sight { return l.look(ctx, c) }))
}

// judge says what a sight proves.
func (c *Case) judge(seen sight) Finding {
	found := Finding{Why: seen.judged.Why, Untrusted: seen.untrusted}
	switch seen.judged.Verdict {
	case interpret.Inconclusive:
	case interpret.Happened:
		found.Verdict, found.Result = Done, seen.judged.Result
	case interpret.NotThere:
		switch {
		case c.NotBefore.IsZero():
			found.Verdict = TooEarly
		case seen.asked.Before(c.NotBefore):
			found.Verdict, found.Wait = TooEarly, c.NotBefore.Sub(seen.asked)
		default:
			found.Verdict = NotRun
		}
	}
	return found
}

// NotBefore is from when on the effect of a recorded call that is not there will
// not come, by the store's clock. When the owner itself has said that it does not
// know, its attempt had ended then. When it has said nothing it may be cut off
// and at work still, until the deadline of the call.
func NotBefore(record dedupe.Record, route *catalog.Route) time.Time {
	ended := record.FinishedAt
	if latest := record.StartedAt.Add(route.Tool.Policy.Deadline); len(record.Result) == 0 && ended.Before(latest) {
		ended = latest
	}
	return ended.Add(route.Verification.NotRunAfter)
}

// look asks the read-only tool once.
func (l *Looker) look(ctx context.Context, c Case) (seen sight) {
	patient := ctx
	defer func() {
		if p := recover(); p != nil {
			seen = blind("panic: %v", p)
		}
		seen.cancelled = seen.judged.Verdict == interpret.Inconclusive && patient.Err() != nil
	}()
	v := c.Route.Verification
	ctx, cancel := context.WithTimeout(ctx, v.Timeout)
	defer cancel()
	recording := l.Recorder.StartVerification(ctx, telemetry.VerificationInfo{
		With: v.Tool, Tool: c.Route.Tool.Name, CallID: c.Key,
	})
	defer func() { recording.End(ctx, seen.judged.Verdict.String(), seen.judged.Why) }()
	question, err := c.question()
	if err != nil {
		return sight{judged: interpret.Judgement{Why: err}}
	}
	question.Trace = &recording.Call
	asked, err := l.Now(ctx)
	if err != nil {
		return blind("the store does not tell its time: %w", err)
	}
	answer, why, err := l.Ask(ctx, question)
	if err != nil {
		return sight{judged: interpret.Judgement{Why: err}}
	}
	judged := v.Program.Judge(answer, c.About)
	judged.Why = errors.Join(judged.Why, why)
	return sight{judged: judged, asked: asked, untrusted: question.Route.Tool.Policy.Untrusted}
}

// question is the call of the read-only tool.
func (c *Case) question() (Question, error) {
	route, err := c.asked()
	if err != nil {
		return Question{}, err
	}
	text, err := c.Route.Verification.Program.Arguments(c.About)
	if err != nil {
		return Question{}, err
	}
	args, violation := route.Schema.ParseArgs(string(text))
	violations := []tool.Error{}
	if violation != nil {
		violations = append(violations, *violation)
	} else {
		args, _, violations = route.Schema.Check(args)
	}
	if len(violations) > 0 {
		return Question{}, fmt.Errorf("verify.args break the schema of %s: %s %s", route.Tool.Name, violations[0].Field, violations[0].Constraint)
	}
	canonical, err := schema.Canonical(args)
	key := c.Key
	key.ID += "/verification"
	return Question{Key: key, Client: c.Client, Route: route, Args: args, Canonical: canonical, MaxBytes: c.Snapshot.Limits.KeepOutputBytes}, err
}

// asked returns the tool that is asked, which may be one that can be asked behind
// everybody's back.
func (c *Case) asked() (*catalog.Route, error) {
	name := c.Route.Verification.Tool
	route, ok := c.Snapshot.Lookup(name)
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no tool %s at the moment", name)
	case route.Tool.Backend == catalog.BuiltIn:
		return nil, fmt.Errorf("the built-in tool %s verifies nothing", name)
	case route.Refused != "":
		return nil, fmt.Errorf("the tool %s is refused: %s", name, route.Refused)
	case route.Tool.Effect != tool.ReadOnly:
		return nil, fmt.Errorf("the tool %s is %s; only a read_only tool is asked", name, route.Tool.Effect)
	default:
		return route, nil
	}
}
