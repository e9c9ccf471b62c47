package mcp

import (
	"context"
	"errors"
	"strings"
	"sync"
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
	// life ends all of them.
	life context.Context //nolint:containedctx // the front's, not a request's

	mu   sync.Mutex
	open map[*context.CancelFunc]string // with the session
}

// bounded has no question wait for ever: not beyond its time, its session, or the front.
func (a *asking) bounded(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if strings.HasPrefix(method, "notifications/") {
			return next(ctx, method, req)
		}
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		defer context.AfterFunc(a.life, cancel)()
		if !a.enter(&cancel, req.GetSession().ID()) {
			return nil, errAsked
		}
		defer func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			delete(a.open, &cancel)
		}()
		return next(ctx, method, req)
	}
}

// enter notes a question of a session; false when there are enough.
func (a *asking) enter(cancel *context.CancelFunc, session string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) >= maxAsked {
		return false
	}
	a.open[cancel] = session
	return true
}

// full reports that no more may be asked now.
func (a *asking) full() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open) >= maxAsked
}

// end ends the questions of a session.
func (a *asking) end(session string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for cancel, of := range a.open {
		if of == session {
			(*cancel)()
		}
	}
}
