package mcp

import (
	"context"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// askTime is how long a client has for the answer to a question, which a person may have to give. A
// session cannot end while one is open, so it is shorter than sessionIdle.
const askTime = 20 * time.Minute

// asking are the questions to clients with sessions that have no answer yet.
type asking struct {
	// life ends all of them.
	life context.Context //nolint:containedctx // the front's, not a request's
	open cancels[string] // by session
}

// bounded has no question wait for ever: not beyond its time, its session, or the front.
func (a *asking) bounded(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if strings.HasPrefix(method, "notifications/") {
			return next(ctx, method, req)
		}
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer a.open.add(req.GetSession().ID(), cancel)()
		defer context.AfterFunc(a.life, cancel)()
		return next(ctx, method, req)
	}
}

// end ends the questions of a session.
func (a *asking) end(session string) {
	a.open.cancel(func(of string) bool { return of == session })
}
