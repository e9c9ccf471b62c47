package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// forwarded are the methods that the servers behind the sidecar answer, with a result of each.
var forwarded = map[string]func() sdk.Result{
	"resources/list":           func() sdk.Result { return new(sdk.ListResourcesResult) },
	"resources/templates/list": func() sdk.Result { return new(sdk.ListResourceTemplatesResult) },
	"resources/read":           func() sdk.Result { return new(sdk.ReadResourceResult) },
	"prompts/list":             func() sdk.Result { return new(sdk.ListPromptsResult) },
	"prompts/get":              func() sdk.Result { return new(sdk.GetPromptResult) },
	"completion/complete":      func() sdk.Result { return new(sdk.CompleteResult) },
}

// servers are the MCP servers behind a profile.
type servers struct {
	options *Options
	profile string
}

// there asks whether there are any.
func (s servers) there(ctx context.Context) (bool, error) {
	_, err := s.options.Servers.Forward(ctx, &sidecallv1.ForwardRequest{Profile: s.profile})
	if status.Code(err) == codes.Unimplemented {
		return false, nil
	}
	return err == nil, err
}

// ask has them answer a request. followed is that of a subscription.
func (s servers) ask(ctx context.Context, method string, params sdk.Params, followed string) (json.RawMessage, error) {
	encoded, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	res, err := s.options.Servers.Forward(ctx, &sidecallv1.ForwardRequest{Profile: s.profile, Method: method, ParamsJson: string(encoded), FollowId: followed})
	if err != nil {
		return nil, rpcError(err)
	}
	if res.GetErrorJson() != "" {
		refused := new(jsonrpc.Error)
		if err := json.Unmarshal([]byte(res.GetErrorJson()), refused); err != nil {
			return nil, err
		}
		return nil, refused
	}
	return json.RawMessage(res.GetResultJson()), nil
}

// forward hands a request on.
func (s servers) forward(ctx context.Context, method string, req sdk.Request, result sdk.Result) (sdk.Result, error) {
	raw, err := s.ask(ctx, method, req.GetParams(), "")
	if err != nil {
		return nil, err
	}
	var load limit.Load
	load.Of(s.options.Bytes)
	defer load.Release()
	if len(raw) > smallWrite && !load.Take(requestWeight*int64(len(raw))) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: errFull.Error()}
	}
	if session, ok := req.GetSession().(*sdk.ServerSession); ok && isStateless(session) {
		raw = complete(raw)
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the server's answer is not in the shape that MCP demands: %v", err)}
	}
	if meta := result.GetMeta(); meta != nil {
		delete(meta, sdk.MetaKeyServerInfo) // this server is another
		result.SetMeta(meta)
	}
	if list, ok := result.(interface{ GetCacheScope() string }); ok && list.GetCacheScope() == "" {
		setPrivate(result)
	}
	return result, nil
}

// isStateless reports that a client speaks the revision without sessions.
func isStateless(session *sdk.ServerSession) bool {
	params := session.InitializeParams()
	return params != nil && params.ProtocolVersion >= stateless20260728
}

// complete is a result that says of which type it is, as that revision wants it. A server of
// another does not say.
func complete(result json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(result, &members) != nil || members["resultType"] != nil {
		return result
	}
	members["resultType"] = json.RawMessage(`"complete"`)
	encoded, err := json.Marshal(members)
	if err != nil {
		return result
	}
	return encoded
}

// setPrivate says of a result whose it is, where its server does not: the client's alone.
func setPrivate(result sdk.Result) {
	switch result := result.(type) {
	case *sdk.ListResourcesResult:
		result.CacheScope = private
	case *sdk.ListResourceTemplatesResult:
		result.CacheScope = private
	case *sdk.ReadResourceResult:
		result.CacheScope = private
	case *sdk.ListPromptsResult:
		result.CacheScope = private
	}
}

// private is what of a profile's answers may be kept for its client alone.
const private = "private"

// sessions20251125 is the last revision with sessions, stateless20260728 the first without.
const (
	sessions20251125  = "2025-11-25"
	stateless20260728 = "2026-07-28"
)
