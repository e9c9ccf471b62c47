package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// listed is how many calls a page lists.
const listed = 50

// homePage is the first page.
type homePage struct {
	Unknown     []*sidecallv1.UnknownExecution
	MoreUnknown bool
	Held        []*sidecallv1.HeldExecution
	MoreHeld    bool
	Numbers     *sidecallv1.LoopNumbers
	Plots       []plot
	Ailing      []*sidecallv1.ToolOverview
	ToolsCut    int32 // of which some may be too
}

// mostPages is how many pages of a listing are asked for, of which few calls may be what it lists.
const mostPages = 100

// first are the first calls of a listing; more says that there may be others.
func first[T any](ask func(token string, size int32) (some []T, next string, err error)) (found []T, more bool, err error) {
	token := ""
	for range mostPages {
		some, next, err := ask(token, int32(listed-len(found)))
		if err != nil {
			return nil, false, err
		}
		found, token = append(found, some...), next
		if token == "" || len(found) == listed {
			break
		}
	}
	return found, token != "", nil
}

func (c *Console) home(ctx context.Context, req *http.Request) (answer, error) {
	unknown, moreUnknown, err := first(func(token string, size int32) ([]*sidecallv1.UnknownExecution, string, error) {
		res, err := c.options.Operator.ListUnknown(ctx, &sidecallv1.ListUnknownRequest{PageSize: size, PageToken: token})
		return res.GetExecutions(), res.GetNextPageToken(), err
	})
	if err != nil {
		return answer{}, err
	}
	held, moreHeld, err := first(func(token string, size int32) ([]*sidecallv1.HeldExecution, string, error) {
		res, err := c.options.Operator.ListHeld(ctx, &sidecallv1.ListHeldRequest{PageSize: size, PageToken: token})
		return res.GetExecutions(), res.GetNextPageToken(), err
	})
	if err != nil {
		return answer{}, err
	}
	overview, err := c.options.Operator.GetOverview(ctx, &sidecallv1.GetOverviewRequest{})
	if err != nil {
		return answer{}, err
	}
	body := homePage{
		Held: held, MoreHeld: moreHeld, Unknown: unknown, MoreUnknown: moreUnknown,
		Numbers: overview.GetNumbers(), Plots: c.samples.plots(overview.GetNumbers()),
		ToolsCut: overview.GetToolsCut(),
	}
	for _, tool := range overview.GetTools() {
		if tool.GetBreaker() != "closed" || tool.GetRefused() != "" {
			body.Ailing = append(body.Ailing, tool)
		}
	}
	return answer{page: "home", title: "Did it run?", body: body}, nil
}

func (c *Console) tools(ctx context.Context, req *http.Request) (answer, error) {
	overview, err := c.options.Operator.GetOverview(ctx, &sidecallv1.GetOverviewRequest{})
	if err != nil {
		return answer{}, err
	}
	return answer{page: "tools", title: "Tools", body: overview}, nil
}

// foundPage is what a search has found.
type foundPage struct {
	Calls      []*sidecallv1.FoundExecution
	By         string // what it was found by
	Remembered string
	SearchKeys []string
	More       bool
}

// find searches for what stands in the box: an argument (order_id=A-77), a label
// (label:user=u-9), else an id or, where no call has it, a conversation, or else any argument. An id may
// look like an argument.
func (c *Console) find(ctx context.Context, req *http.Request) (answer, error) {
	var res *sidecallv1.FindExecutionsResponse
	var by string
	var keys []string
	ways := searches(req.FormValue("q"))
	for i := 0; i < len(ways) && len(res.GetExecutions()) == 0; i++ {
		next, err := c.first(ctx, ways[i].request)
		if i > 0 && status.Code(err) == codes.InvalidArgument {
			continue // it cannot be read so
		}
		if err != nil {
			return answer{}, err
		}
		res, by = next, ways[i].by
		if len(keys) == 0 {
			keys = res.GetSearchKeys()
		}
		if ways[i].request.GetKey() == anyKey { // of which is only told which there are
			for _, key := range res.GetSearchKeys() {
				ways = append(ways, search{"the argument " + key, &sidecallv1.FindExecutionsRequest{Key: key, Value: ways[i].request.GetValue()}})
			}
		}
	}
	if res == nil {
		return answer{to: "./"}, nil
	}
	if calls := res.GetExecutions(); len(calls) == 1 && res.GetNextPageToken() == "" {
		return answer{to: callURL(calls[0].GetTenant(), calls[0].GetConversationId(), calls[0].GetTurnId(), calls[0].GetToolUseId())}, nil
	}
	return answer{page: "found", title: "Found", body: foundPage{
		Calls: res.GetExecutions(), By: found(res, by, req.FormValue("q")), Remembered: instant(res.GetRememberedSince()), SearchKeys: keys, More: res.GetNextPageToken() != "",
	}}, nil
}

// first is the first page on which there is something, else the last one: that there is nothing is said of all.
func (c *Console) first(ctx context.Context, req *sidecallv1.FindExecutionsRequest) (*sidecallv1.FindExecutionsResponse, error) {
	for req.PageSize = listed; ; {
		res, err := c.options.Operator.FindExecutions(ctx, req)
		if err != nil || len(res.GetExecutions()) > 0 || res.GetNextPageToken() == "" {
			return res, err
		}
		req.PageToken = res.GetNextPageToken()
	}
}

// found is what calls were found by; of none, what was asked for.
func found(res *sidecallv1.FindExecutionsResponse, by, asked string) string {
	if len(res.GetExecutions()) == 0 {
		return asked
	}
	return by
}

// search is one way to read what was searched for.
type search struct {
	by      string
	request *sidecallv1.FindExecutionsRequest
}

func searches(text string) (ways []search) {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	rest, isLabel := strings.CutPrefix(text, "label:")
	name, value, named := strings.Cut(rest, "=")
	switch {
	case isLabel:
		ways = append(ways, search{"the label " + name, &sidecallv1.FindExecutionsRequest{Label: name, LabelValue: value}})
	case named && value != "":
		ways = append(ways, search{"the argument " + name, &sidecallv1.FindExecutionsRequest{Key: name, Value: value}})
	}
	ways = append(ways,
		search{"the id " + text, &sidecallv1.FindExecutionsRequest{ToolUseId: text}},
		search{"the conversation " + text, &sidecallv1.FindExecutionsRequest{ConversationId: text}})
	if len(ways) == 2 {
		ways = append(ways, search{text, &sidecallv1.FindExecutionsRequest{Key: anyKey, Value: text}})
	}
	return ways
}

// anyKey is an argument that no tool has: whoever searches by it is told which there are.
const anyKey = "\x00"

// callPage is one call.
type callPage struct {
	*sidecallv1.FoundExecution

	// Said is what came of what was asked for last; Answer what a verification has said.
	Said string
}

func (c *Console) call(ctx context.Context, req *http.Request) (answer, error) {
	asked := &sidecallv1.FindExecutionsRequest{ToolUseId: req.FormValue("id"), ConversationId: req.FormValue("conversation"), PageSize: 1000}
	for {
		found, err := c.options.Operator.FindExecutions(ctx, asked)
		if err != nil {
			return answer{}, err
		}
		for _, one := range found.GetExecutions() {
			if one.GetTurnId() == req.FormValue("turn") && one.GetConversationId() == asked.GetConversationId() {
				return answer{page: "call", title: one.GetExecution().GetToolName(), body: callPage{one, req.FormValue("said")}}, nil
			}
		}
		if asked.PageToken = found.GetNextPageToken(); asked.GetPageToken() == "" {
			return answer{
				page: "failed", title: "Never seen", code: http.StatusNotFound,
				body: fmt.Sprintf("No call of this id was claimed since %s. One that was refused before it was claimed, or only observed, leaves no record.", instant(found.GetRememberedSince())),
			}, nil
		}
	}
}

// conversation shows a conversation as it went.
func (c *Console) conversation(ctx context.Context, req *http.Request) (answer, error) {
	var from int32
	_, _ = fmt.Sscan(req.FormValue("from"), &from) // without it, from the beginning
	res, err := c.options.Operator.ShowConversation(ctx, &sidecallv1.ShowConversationRequest{ConversationId: req.FormValue("id"), FromEvent: from})
	if err != nil {
		return answer{}, err
	}
	return answer{page: "conversation", title: "Conversation " + req.FormValue("id"), body: conversationPage{
		ShowConversationResponse: res, ID: req.FormValue("id"), Tenant: req.FormValue("tenant"), From: from,
	}}, nil
}

// conversationPage is a page of a conversation.
type conversationPage struct {
	*sidecallv1.ShowConversationResponse

	ID, Tenant string
	From       int32
}

// First reports that an event of the page is the first error that was not recovered from.
func (p conversationPage) First(i int) bool {
	return int32(i)+p.From == p.GetFirstUnrecovered()
}

func (c *Console) decide(ctx context.Context, req *http.Request) (answer, error) {
	var err error
	text := "It is denied, for good."
	if req.FormValue("as") == "allow" {
		text = "It is allowed." // what that means, the page of the call says
		_, err = c.options.Operator.ApproveExecution(ctx, &sidecallv1.ApproveExecutionRequest{
			ConversationId: req.FormValue("conversation"), TurnId: req.FormValue("turn"), ToolUseId: req.FormValue("id"),
			DecidedBy: c.options.By, Reason: req.FormValue("reason"), Hold: req.FormValue("hold"), Fingerprint: req.FormValue("fingerprint"),
		})
	} else {
		_, err = c.options.Operator.DenyExecution(ctx, &sidecallv1.DenyExecutionRequest{
			ConversationId: req.FormValue("conversation"), TurnId: req.FormValue("turn"), ToolUseId: req.FormValue("id"),
			DecidedBy: c.options.By, Reason: req.FormValue("reason"), Hold: req.FormValue("hold"), Fingerprint: req.FormValue("fingerprint"),
		})
	}
	if err != nil {
		return answer{}, err
	}
	return said(req, text), nil
}

// callURL is the way to the page of a call, from any page.
func callURL(tenant, conversation, turn, id string) string {
	q := url.Values{"conversation": {conversation}, "turn": {turn}, "id": {id}}
	if tenant != "" {
		q.Set("tenant", tenant)
	}
	return "call?" + q.Encode()
}

// said leads back to the page of the call, which tells what came of a request.
func said(req *http.Request, text string) answer {
	at := callURL(req.FormValue("tenant"), req.FormValue("conversation"), req.FormValue("turn"), req.FormValue("id"))
	return answer{to: at + "&said=" + url.QueryEscape(text)}
}

func (c *Console) resolve(ctx context.Context, req *http.Request) (answer, error) {
	state := map[string]sidecallv1.ExecutionState{
		"done": sidecallv1.ExecutionState_EXECUTION_STATE_DONE, "not_run": sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN,
	}[req.FormValue("as")]
	var epoch int64
	_, _ = fmt.Sscan(req.FormValue("epoch"), &epoch) // without it, whichever it is at
	_, err := c.options.Operator.ResolveExecution(ctx, &sidecallv1.ResolveExecutionRequest{
		ConversationId: req.FormValue("conversation"), TurnId: req.FormValue("turn"), ToolUseId: req.FormValue("id"),
		State: state, Reason: req.FormValue("reason"), Content: req.FormValue("content"), ResolvedBy: c.options.By, Epoch: epoch,
	})
	if err != nil {
		return answer{}, err
	}
	return said(req, "It is settled as "+req.FormValue("as")+"."), nil
}

func (c *Console) verify(ctx context.Context, req *http.Request) (answer, error) {
	res, err := c.options.Operator.VerifyExecution(ctx, &sidecallv1.VerifyExecutionRequest{
		ConversationId: req.FormValue("conversation"), TurnId: req.FormValue("turn"), ToolUseId: req.FormValue("id"),
		ArgumentsJson: req.FormValue("arguments"), Settle: req.FormValue("settle") == "yes", ResolvedBy: c.options.By,
	})
	if err != nil {
		return answer{}, err
	}
	text := "The verification says: " + res.GetExplanation() + "."
	if res.GetSettled() {
		text += " It is settled so."
	}
	return said(req, text), nil
}

func instant(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format("2006-01-02 15:04:05 UTC")
}
