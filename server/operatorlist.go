package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	defaultPageSize = 100
	maxPageSize     = 1000
	// maxPageBytes ends a page before it is more than clients receive.
	maxPageBytes = 1 << 20
	// maxStorePages bounds the work of one page where few calls wait.
	maxStorePages = 16
)

// ListUnknown lists the calls of which nobody knows whether they ran: those of all
// tenants, where none is named.
func (o *Operator) ListUnknown(ctx context.Context, req *sidecallv1.ListUnknownRequest) (*sidecallv1.ListUnknownResponse, error) {
	found, next, err := pageOf(ctx, o.Executor, o.Executor.Records().Unknown, req)
	if err != nil {
		return nil, err
	}
	return &sidecallv1.ListUnknownResponse{Executions: found, NextPageToken: next}, nil
}

// ListHeld lists the calls that a person has to allow first: those of all tenants, where none is
// named, or one of them.
func (o *Operator) ListHeld(ctx context.Context, req *sidecallv1.ListHeldRequest) (*sidecallv1.ListHeldResponse, error) {
	records, within := o.Executor.Records(), req.GetConversationId()
	if req.GetToolUseId() != "" {
		key, err := keyOf(ctx, req)
		if err != nil {
			return nil, err
		}
		one, err := records.HeldCall(ctx, key)
		if err != nil {
			return nil, statusOf(err)
		}
		return &sidecallv1.ListHeldResponse{Executions: []*sidecallv1.HeldExecution{one}}, nil
	}
	if req.GetTurnId() != "" {
		return nil, status.Error(codes.InvalidArgument, "turn_id: goes with tool_use_id; conversation_id alone narrows a listing")
	}
	found, next, err := pageOf(ctx, o.Executor, func(listed dedupe.Listed) *sidecallv1.HeldExecution {
		if within != "" && within != listed.Key.Conversation {
			return nil
		}
		return records.Held(listed)
	}, req)
	if err != nil {
		return nil, err
	}
	return &sidecallv1.ListHeldResponse{Executions: found, NextPageToken: next}, nil
}

// listable is a call of a listing; a nil one is not of its kind.
type listable interface {
	comparable
	proto.Message
}

// pageOf is a page of the calls that wait for a person, of one kind.
func pageOf[T listable](
	ctx context.Context, executor *call.Executor, describe func(dedupe.Listed) T, req interface {
		GetPageSize() int32
		GetPageToken() string
	},
) (found []T, next string, err error) {
	size := cmp.Or(int(req.GetPageSize()), defaultPageSize)
	if size < 1 || size > maxPageSize {
		return nil, "", status.Errorf(codes.InvalidArgument, "page_size: %d, must be 1 to %d, or 0 for %d", size, maxPageSize, defaultPageSize)
	}
	at, err := parsePageToken(req.GetPageToken())
	if err != nil {
		return nil, "", err
	}
	l := listing[T]{executor: executor, describe: describe, all: !namesTenant(ctx), tenant: tenant(ctx), most: size, bytes: maxPageBytes, at: at}
	for range maxStorePages {
		more, err := l.fill(ctx)
		if err != nil {
			return nil, "", listStatus(ctx, err)
		}
		if !more {
			break
		}
	}
	return l.found, l.at.String(), nil
}

func listStatus(ctx context.Context, err error) error {
	if errors.Is(err, dedupe.ErrInvalid) {
		return status.Error(codes.InvalidArgument, "page_token: it is none that this sidecar's store has given out; begin the listing again")
	}
	return storeStatus(ctx)
}

// listing is one page of a listing in the making.
type listing[T listable] struct {
	executor    *call.Executor
	describe    func(dedupe.Listed) T
	all         bool // tenants; else the one
	tenant      string
	most, bytes int
	found       []T
	at          pageToken
}

// pageToken is where a listing goes on: in a page of the store, after a key.
type pageToken struct {
	// From is where the store's page begins.
	From string `json:"from,omitempty"`
	// After is the last call of it that was listed, and Next where the store
	// said then that its next page begins. Where it now says otherwise, the
	// page is another one than before, and is listed from its beginning: rather
	// twice than not at all.
	After *tool.CallID `json:"after,omitempty"`
	Next  string       `json:"next,omitempty"`
	// Over: there is nothing more.
	Over bool `json:"-"`
}

// compared orders the calls of a page of the store.
func compared(p, q tool.CallID) int {
	return cmp.Or(cmp.Compare(p.Tenant, q.Tenant), cmp.Compare(p.Conversation, q.Conversation), cmp.Compare(p.Turn, q.Turn), cmp.Compare(p.ID, q.ID))
}

func (p pageToken) String() string {
	if p.Over {
		return ""
	}
	text, _ := json.Marshal(p) // strings alone cannot fail
	return base64.RawURLEncoding.EncodeToString(text)
}

func parsePageToken(token string) (pageToken, error) {
	var p pageToken
	if token == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(text, &p) != nil {
		return p, status.Error(codes.InvalidArgument, "page_token: send next_page_token of the page before, unchanged, or nothing")
	}
	return p, nil
}

// fill takes calls from one page of the store; more is false when the listing's
// page is full or nothing is left.
func (l *listing[T]) fill(ctx context.Context) (more bool, err error) {
	page, err := l.executor.Dedupe.ListOpen(ctx, l.at.From)
	if err != nil {
		return false, err
	}
	calls := slices.DeleteFunc(page.Calls, func(c dedupe.Listed) bool { return !l.all && c.Key.Tenant != l.tenant })
	slices.SortFunc(calls, func(a, b dedupe.Listed) int { return compared(a.Key, b.Key) })
	if l.at.After != nil && l.at.Next == page.Next {
		calls = slices.DeleteFunc(calls, func(c dedupe.Listed) bool { return compared(c.Key, *l.at.After) <= 0 })
	}
	for i := range calls {
		var none T
		described := l.describe(calls[i])
		if described == none {
			continue
		}
		size := proto.Size(described)
		if l.most == 0 || len(l.found) > 0 && size > l.bytes {
			return false, nil
		}
		l.found = append(l.found, described)
		l.most--
		l.bytes -= size
		l.at = pageToken{From: l.at.From, After: &calls[i].Key, Next: page.Next}
	}
	l.at = pageToken{From: page.Next, Over: page.Next == ""}
	return !l.at.Over && l.most > 0 && l.bytes > 0, nil
}
