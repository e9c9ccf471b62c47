package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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
		if id := said.GetFollowId(); id != "" {
			f.subscribeAgain(ctx, id)
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
	select {
	case <-f.begun:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(followWait):
		return errNotFollowed
	}
	f.mu.Lock()
	followed, had := f.followed, f.subscribed[req.Session][req.Params.URI] != ""
	f.mu.Unlock()
	if had {
		return nil
	}
	if err := f.begin(ctx, req.Params.URI, followed); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // it lasts as long as the session
	had, err := f.keep(ctx, req.Session, req.Params.URI, followed)
	if had {
		return f.end(ctx, req.Params.URI, followed)
	}
	return err
}

// errNotFollowed is of a subscription that nobody would hear of.
var errNotFollowed = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the sidecar cannot tell of changes for now; subscribe again in a few seconds"}

// begin begins a subscription of the stream by which the sidecar is followed; end ends one.
func (f *face) begin(ctx context.Context, uri, followed string) error {
	_, err := f.ask(ctx, "resources/subscribe", &sdk.SubscribeParams{URI: uri}, followed)
	return err
}

func (f *face) end(ctx context.Context, uri, followed string) error {
	_, err := f.ask(ctx, "resources/unsubscribe", &sdk.UnsubscribeParams{URI: uri}, followed)
	return err
}

// subscribeAgain begins what sessions have subscribed to anew, of another stream than the one
// before, with which it has ended.
func (f *face) subscribeAgain(ctx context.Context, followed string) {
	type subscription struct {
		session *sdk.ServerSession
		uri     string
	}
	var lost []subscription
	f.mu.Lock()
	if f.followed == "" {
		close(f.begun)
	}
	f.followed = followed
	for session, of := range f.subscribed {
		for uri, under := range of {
			if under != followed {
				lost = append(lost, subscription{session, uri})
			}
		}
	}
	f.mu.Unlock()
	for _, s := range lost {
		if err := f.begin(ctx, s.uri, followed); err != nil {
			f.heard(err)
			continue
		}
		f.mu.Lock()
		_, wanted := f.subscribed[s.session][s.uri]
		if wanted {
			f.subscribed[s.session][s.uri] = followed
		}
		f.mu.Unlock()
		if !wanted {
			f.heard(f.end(ctx, s.uri, followed))
		}
	}
}

// keep notes what a session has subscribed to; it reports that it had already. Where another stream
// has begun since, it has ended with the one before.
func (f *face) keep(ctx context.Context, session *sdk.ServerSession, uri, followed string) (had bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.followed != followed {
		return false, errNotFollowed
	}
	of, known := f.subscribed[session]
	if !known {
		of = make(map[string]string)
		f.subscribed[session] = of
		f.leaving.Go(func() { f.leave(ctx, session) })
	}
	if had = of[uri] != ""; !had {
		of[uri] = followed
	}
	return had, nil
}

func (f *face) unsubscribe(ctx context.Context, req *sdk.UnsubscribeRequest) error {
	f.mu.Lock()
	followed := f.subscribed[req.Session][req.Params.URI]
	delete(f.subscribed[req.Session], req.Params.URI)
	f.mu.Unlock()
	if followed == "" {
		return nil
	}
	return f.end(context.WithoutCancel(ctx), req.Params.URI, followed) // its client may have gone
}

// leave ends what a session has subscribed to when it has ended.
func (f *face) leave(ctx context.Context, session *sdk.ServerSession) {
	_ = session.Wait() // however it ended
	f.mu.Lock()
	of := f.subscribed[session]
	delete(f.subscribed, session)
	f.mu.Unlock()
	for uri, followed := range of {
		f.heard(f.end(ctx, uri, followed))
	}
}
