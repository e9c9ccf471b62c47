package console

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// operator answers as it is told; what it is not told of it has none of.
type operator struct {
	sidecallv1.OperatorServiceClient

	find    func(*sidecallv1.FindExecutionsRequest) *sidecallv1.FindExecutionsResponse
	held    func(*sidecallv1.ListHeldRequest) *sidecallv1.ListHeldResponse
	unknown func(*sidecallv1.ListUnknownRequest) *sidecallv1.ListUnknownResponse
	looked  int // for held calls
	cut     int32
}

func (o *operator) FindExecutions(_ context.Context, req *sidecallv1.FindExecutionsRequest, _ ...grpc.CallOption) (*sidecallv1.FindExecutionsResponse, error) {
	return o.find(req), nil
}

func (o *operator) ListHeld(_ context.Context, req *sidecallv1.ListHeldRequest, _ ...grpc.CallOption) (*sidecallv1.ListHeldResponse, error) {
	if o.looked++; o.held == nil {
		return &sidecallv1.ListHeldResponse{}, nil
	}
	return o.held(req), nil
}

func (o *operator) ListUnknown(_ context.Context, req *sidecallv1.ListUnknownRequest, _ ...grpc.CallOption) (*sidecallv1.ListUnknownResponse, error) {
	if o.unknown == nil {
		return &sidecallv1.ListUnknownResponse{}, nil
	}
	return o.unknown(req), nil
}

func (o *operator) GetOverview(context.Context, *sidecallv1.GetOverviewRequest, ...grpc.CallOption) (*sidecallv1.GetOverviewResponse, error) {
	return &sidecallv1.GetOverviewResponse{Numbers: &sidecallv1.LoopNumbers{}, ToolsCut: o.cut}, nil
}

// serve starts a console of an operator, and returns it with its address.
func serve(t *testing.T, o *operator) (*Console, string) {
	t.Helper()
	c, err := New(Options{Operator: o, By: "ada", Address: "unix:///operator.sock"})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := c.Handler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return c, server.URL
}

// open lets a browser in that has nothing yet, and returns it.
func open(t *testing.T, c *Console, address string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	res, err := browser.Get(address + c.Entry())
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("the address that is printed leads to %d, %v", res.StatusCode, err)
	}
	return browser
}

func pageOf(t *testing.T, o *operator, path string) string {
	t.Helper()
	c, address := serve(t, o)
	res, err := open(t, c, address).Get(address + c.place + path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A call that stands behind the first page of what was found is no call that never was.
func TestACallBehindTheFirstPageIsFound(t *testing.T) {
	o := &operator{find: func(req *sidecallv1.FindExecutionsRequest) *sidecallv1.FindExecutionsResponse {
		if req.GetPageToken() == "" {
			return &sidecallv1.FindExecutionsResponse{NextPageToken: "2"}
		}
		return &sidecallv1.FindExecutionsResponse{Executions: []*sidecallv1.FoundExecution{
			{ConversationId: "c1", TurnId: "t1", ToolUseId: "call_0", Verdict: sidecallv1.Verdict_VERDICT_RAN, Explanation: "it ended in a result"},
		}}
	}}
	if text := pageOf(t, o, callURL("", "c1", "t1", "call_0")); !strings.Contains(text, "it ended in a result") {
		t.Errorf("the page says %s", text)
	}
}

// That an overview was cut is said on the pages that are made of it.
func TestAnOverviewThatWasCut(t *testing.T) {
	for _, path := range []string{"", "tools"} {
		if text := pageOf(t, &operator{}, path); strings.Contains(text, "by name") {
			t.Errorf("of a whole one %q says %s", path, text)
		}
		if text := pageOf(t, &operator{cut: 17}, path); !strings.Contains(text, "last 17 by name") {
			t.Errorf("%q says %s", path, text)
		}
	}
}

// That nothing is found is said when the text was read in every way, to the last page, and of whose calls.
func TestNeverSeenIsSaidOnlyAfterEveryReading(t *testing.T) {
	o := &operator{find: func(req *sidecallv1.FindExecutionsRequest) *sidecallv1.FindExecutionsResponse {
		if req.GetToolUseId() != "dG9vbHU==" {
			return &sidecallv1.FindExecutionsResponse{SearchKeys: []string{"order_id"}}
		}
		if req.GetPageToken() == "" {
			return &sidecallv1.FindExecutionsResponse{NextPageToken: "2"}
		}
		return &sidecallv1.FindExecutionsResponse{Executions: []*sidecallv1.FoundExecution{{ConversationId: "c1", ToolUseId: "dG9vbHU==", Explanation: "it ended in a result"}}}
	}}
	if text := pageOf(t, o, "find?q=dG9vbHU%3D%3D"); !strings.Contains(text, "it ended in a result") {
		t.Errorf("of an id that looks like an argument the page says %s", text)
	}
	text := pageOf(t, o, "find?q=order%3DA-77&tenant=narrow")
	for _, want := range []string{"NEVER SEEN", "<code>narrow</code>", "<code>order_id</code>", `name="tenant"`} {
		if !strings.Contains(text, want) {
			t.Errorf("without %s the page says %s", want, text)
		}
	}
	if text := pageOf(t, o, "find?q=A-77"); !strings.Contains(text, "the tenant without a name") {
		t.Errorf("the page says %s", text)
	}
}

// One call of several that were found is not all of them.
func TestWhatIsFoundIsNotTheOneOfAPage(t *testing.T) {
	o := &operator{find: func(*sidecallv1.FindExecutionsRequest) *sidecallv1.FindExecutionsResponse {
		return &sidecallv1.FindExecutionsResponse{Executions: []*sidecallv1.FoundExecution{{ConversationId: "c1", ToolUseId: "a"}}, NextPageToken: "2"}
	}}
	if text := pageOf(t, o, "find?q=order_id%3DA-77"); !strings.Contains(text, "There are more") {
		t.Errorf("the page says %s", text)
	}
}

// Where few calls wait among many, the store's first pages have none of them.
func TestTheFirstPageHasWhatWaitsBehindMuchElse(t *testing.T) {
	o := &operator{
		held: func(req *sidecallv1.ListHeldRequest) *sidecallv1.ListHeldResponse {
			if req.GetPageToken() == "" {
				return &sidecallv1.ListHeldResponse{NextPageToken: "2"}
			}
			return &sidecallv1.ListHeldResponse{Executions: []*sidecallv1.HeldExecution{{ToolUseId: "toolu_held", Execution: &sidecallv1.Execution{ToolName: "refund"}, Hold: &sidecallv1.Hold{}}}}
		},
		unknown: func(req *sidecallv1.ListUnknownRequest) *sidecallv1.ListUnknownResponse {
			if req.GetPageToken() == "" {
				return &sidecallv1.ListUnknownResponse{NextPageToken: "2"}
			}
			return &sidecallv1.ListUnknownResponse{Executions: []*sidecallv1.UnknownExecution{{ToolUseId: "toolu_lost", Execution: &sidecallv1.Execution{ToolName: "charge"}}}}
		},
	}
	text := pageOf(t, o, "")
	for _, want := range []string{"toolu_held", "toolu_lost"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s: the page says %s", want, text)
		}
	}
}

// Where not all could be looked at nobody is told that nothing waits.
func TestTheFirstPageDoesNotSayOfWhatItHasNotLookedAtThatThereIsNothing(t *testing.T) {
	o := &operator{
		held: func(*sidecallv1.ListHeldRequest) *sidecallv1.ListHeldResponse {
			return &sidecallv1.ListHeldResponse{NextPageToken: "on"}
		},
		unknown: func(*sidecallv1.ListUnknownRequest) *sidecallv1.ListUnknownResponse {
			return &sidecallv1.ListUnknownResponse{NextPageToken: "on"}
		},
	}
	text := pageOf(t, o, "")
	if strings.Contains(text, "No call does") || strings.Contains(text, "No call is") || strings.Count(text, "Not all calls") != 2 {
		t.Errorf("the page says %s", text)
	}
}

// Whoever decides sees that there is more than is shown, and what cannot be seen.
func TestWhatADecisionIsAbout(t *testing.T) {
	o := &operator{find: func(*sidecallv1.FindExecutionsRequest) *sidecallv1.FindExecutionsResponse {
		return &sidecallv1.FindExecutionsResponse{Executions: []*sidecallv1.FoundExecution{{
			ConversationId: "c1", ToolUseId: "a", Verdict: sidecallv1.Verdict_VERDICT_UNKNOWN, // of an earlier attempt
			Execution: &sidecallv1.Execution{
				ToolName: "refund", State: sidecallv1.ExecutionState_EXECUTION_STATE_HELD,
				Result: &sidecallv1.ExecuteToolResponse{Content: "not sent since", Hold: &sidecallv1.Hold{Approved: true}},
			},
			Details: &sidecallv1.CallDetails{ArgumentsJson: "{\"to\":\"\u202eecila\u200b\"", ArgumentsCut: true},
		}}}
	}}
	text := pageOf(t, o, callURL("", "c1", "", "a"))
	if strings.Contains(text, "sends it again") {
		t.Errorf("it is allowed, and runs: %s", text)
	}
	_, decision, _ := strings.Cut(text, "It will be sent with")
	if !strings.Contains(decision, "not all of it is shown") {
		t.Errorf("nothing is said of what is not shown: %s", decision)
	}
	if strings.ContainsAny(text, "\u202e\u200b") || !strings.Contains(decision, `\u202eecila\u200b`) {
		t.Errorf("what cannot be seen is not: %s", decision)
	}
}

// The page of a call that was settled has all that the model was told, and who has settled it, by
// the name that they gave first.
func TestACallThatWasSettled(t *testing.T) {
	made := &sidecallv1.Resolution{By: "root", ClaimedBy: "oncall", Reason: "it is in the ledger"}
	o := &operator{
		find: func(*sidecallv1.FindExecutionsRequest) *sidecallv1.FindExecutionsResponse {
			return &sidecallv1.FindExecutionsResponse{Executions: []*sidecallv1.FoundExecution{{
				ConversationId: "c1", ToolUseId: "a", Verdict: sidecallv1.Verdict_VERDICT_RAN,
				Execution: &sidecallv1.Execution{
					ToolName: "refund", State: sidecallv1.ExecutionState_EXECUTION_STATE_DONE, Approval: made,
					Result: &sidecallv1.ExecuteToolResponse{Content: "refund has happened", Notices: []string{"its own answer was lost"}, Resolution: made},
				},
				Details: &sidecallv1.CallDetails{ToldBefore: "nobody knows"},
			}}}
		},
	}
	text := pageOf(t, o, callURL("", "c1", "", "a"))
	if strings.Count(text, "oncall (root)") != 2 || !strings.Contains(text, "<pre>refund has happened\n\nits own answer was lost</pre>") || !strings.Contains(text, "<pre>nobody knows</pre>") {
		t.Errorf("the page says %s", text)
	}
}

// Pages that follow what changes ask together.
func TestManyPagesThatFollowAskOnce(t *testing.T) {
	o := &operator{}
	c, _ := serve(t, o)
	for range maxWatchers {
		c.state(httptest.NewRequest(http.MethodGet, "/live", http.NoBody))
	}
	if o.looked != 1 {
		t.Errorf("it was looked %d times", o.looked)
	}
}

// What is served at another port of this machine gets no cookie of these pages, and two consoles
// do not take each other's.
func TestACookieIsOfOneConsole(t *testing.T) {
	one, at := serve(t, &operator{})
	another, other := serve(t, &operator{})
	browser := open(t, one, at)
	for _, path := range []string{"", "favicon.ico", callURL("", "c1", "t1", "a")} {
		elsewhere, err := url.Parse(other + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if sent := browser.Jar.Cookies(elsewhere); len(sent) != 0 {
			t.Errorf("%s is sent %v", elsewhere, sent)
		}
	}
	if res, err := browser.Get(other + another.Entry()); err != nil || res.Body.Close() != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the second console: %v, %v", res, err)
	}
	if res, err := browser.Get(at + one.place + "tools"); err != nil || res.Body.Close() != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the first console, after the second: %v, %v", res, err)
	}
}

// A record that cannot be read is listed, and looked at, like others.
func TestARecordThatCannotBeReadIsShown(t *testing.T) {
	damage := &sidecallv1.ToolError{Code: "INTERNAL", Received: "it has 3 bytes"}
	o := &operator{
		unknown: func(*sidecallv1.ListUnknownRequest) *sidecallv1.ListUnknownResponse {
			return &sidecallv1.ListUnknownResponse{Executions: []*sidecallv1.UnknownExecution{{ConversationId: "c1", ToolUseId: "a", Error: damage, Execution: &sidecallv1.Execution{}}}}
		},
		find: func(*sidecallv1.FindExecutionsRequest) *sidecallv1.FindExecutionsResponse {
			return &sidecallv1.FindExecutionsResponse{Executions: []*sidecallv1.FoundExecution{{ConversationId: "c1", ToolUseId: "a", Verdict: sidecallv1.Verdict_VERDICT_UNKNOWN, Damage: damage}}}
		},
	}
	for path, want := range map[string]string{"": "record cannot be read", callURL("", "c1", "", "a"): "it has 3 bytes"} {
		if text := pageOf(t, o, path); !strings.Contains(text, want) {
			t.Errorf("%q says %s", path, text)
		}
	}
}
