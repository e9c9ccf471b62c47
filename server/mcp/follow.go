package mcp

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// follow tells sessions what changes, until ctx ends or there is no such profile any more. Once the
// face is not what a new one would be, retire is called: who comes then gets another.
func (f *face) follow(ctx context.Context, retire func()) {
	for ctx.Err() == nil {
		err := f.hear(ctx, retire)
		if status.Code(err) == codes.InvalidArgument {
			retire()
			return
		}
		if ctx.Err() == nil {
			f.options.Log.Debug("mcp: the sidecar is not followed for now", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

// hear tells sessions what the sidecar says, until it says no more: the error is why.
func (f *face) hear(ctx context.Context, retire func()) error {
	stream, err := f.options.Servers.Follow(ctx, &sidecallv1.FollowRequest{Profile: f.profile})
	if err != nil {
		return err
	}
	for {
		said, err := stream.Recv()
		if err != nil {
			return err
		}
		switch said.GetMethod() {
		case "notifications/tools/list_changed":
			err = f.look(ctx)
			if servers, wrong := hasServers(ctx, f.options, f.profile); wrong == nil && servers != f.servers {
				retire()
			}
		case "notifications/prompts/list_changed":
			f.server.AddPrompt(&sdk.Prompt{Name: nobody}, nil) // which tells sessions that there is a change
			f.server.RemovePrompts(nobody)
		case "notifications/resources/list_changed":
			f.server.AddResource(&sdk.Resource{URI: "sidecall:" + nobody, Name: nobody}, nil)
			f.server.RemoveResources("sidecall:" + nobody)
		case "notifications/resources/updated":
			params := new(sdk.ResourceUpdatedNotificationParams)
			if json.Unmarshal([]byte(said.GetParamsJson()), params) == nil {
				err = f.server.ResourceUpdated(ctx, params)
			}
		}
		f.heard(err)
	}
}

// nobody is the name of what is there for no longer than it takes to say that something has
// changed: the lists that clients get are the servers' own.
const nobody = "sidecall-changed"

// subscribe has a server tell of a resource, as long as the session lasts; unsubscribe not any more.
// A session has one subscription of a resource, and ends no other's.
func (f *face) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	f.mu.Lock()
	had := f.subscribed[req.Session][req.Params.URI]
	f.mu.Unlock()
	if had {
		return nil
	}
	if err := f.hand(ctx, "resources/subscribe", req.Params); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // it lasts as long as the session
	if f.keep(ctx, req.Session, req.Params.URI) {
		return f.hand(ctx, "resources/unsubscribe", &sdk.UnsubscribeParams{URI: req.Params.URI})
	}
	return nil
}

// keep notes what a session has subscribed to; it reports that it had already.
func (f *face) keep(ctx context.Context, session *sdk.ServerSession, uri string) (had bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of, known := f.subscribed[session]
	if !known {
		of = make(map[string]bool)
		f.subscribed[session] = of
		f.leaving.Go(func() { f.leave(ctx, session) })
	}
	had = of[uri]
	of[uri] = true
	return had
}

func (f *face) unsubscribe(ctx context.Context, req *sdk.UnsubscribeRequest) error {
	f.mu.Lock()
	had := f.subscribed[req.Session][req.Params.URI]
	delete(f.subscribed[req.Session], req.Params.URI)
	f.mu.Unlock()
	if !had {
		return nil
	}
	return f.hand(context.WithoutCancel(ctx), "resources/unsubscribe", req.Params) // its client may have gone
}

// leave ends what a session has subscribed to when it has ended.
func (f *face) leave(ctx context.Context, session *sdk.ServerSession) {
	_ = session.Wait() // however it ended
	f.mu.Lock()
	of := f.subscribed[session]
	delete(f.subscribed, session)
	f.mu.Unlock()
	for uri := range of {
		f.heard(f.hand(ctx, "resources/unsubscribe", &sdk.UnsubscribeParams{URI: uri}))
	}
}
