package mcp

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// askTime is how long a client has for the answer to a question, which a person may have to give. A
// session cannot end while one is open, so it is shorter than sessionIdle.
const askTime = 20 * time.Minute

// maxAsked bounds the questions that are open: each holds its request, whose client may have gone.
const maxAsked = 256

var errAsked = errors.New("too many questions wait for an answer already; nothing was sent, send the request again later")

// asking are the questions to clients with sessions that have no answer yet.
type asking struct {
	many atomic.Int64

	// life ends all of them.
	life context.Context //nolint:containedctx // the front's, not a request's
	// underWay are all requests of clients with sessions, by these: what they are asked in them ends with them.
	underWay cancels[string]
}

// bounded has no question wait for ever: not beyond its time, its session, or the front.
func (a *asking) bounded(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if strings.HasPrefix(method, "notifications/") {
			return next(ctx, method, req)
		}
		defer a.many.Add(-1)
		if a.many.Add(1) > maxAsked {
			return nil, errAsked
		}
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		defer context.AfterFunc(a.life, cancel)()
		return next(ctx, method, req)
	}
}

// full reports that no more may be asked now.
func (a *asking) full() bool { return a.many.Load() >= maxAsked }

// begun has a request of a session end with that, until over.
func (a *asking) begun(ctx context.Context, session sdk.Session) (_ context.Context, over func()) {
	own, _ := session.(*sdk.ServerSession)
	if own == nil || own.ID() == "" {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	return ctx, a.underWay.add(own.ID(), cancel)
}

// end ends what is under way in a session, whose end would wait for it: as if its client had gone away.
func (a *asking) end(session string) {
	a.underWay.cancel(func(of string) bool { return of == session })
}
