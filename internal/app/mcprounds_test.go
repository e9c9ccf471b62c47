package app

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// desk is a server whose tool books after it has asked twice, and counts what it does.
type desk struct {
	mu   sync.Mutex
	runs map[string]int
}

func (d *desk) ran(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs[what]++
}

func (d *desk) all() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.runs)
}

// book is the tool: it asks for a name, then whether that is sure.
func (d *desk) book(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ask := func(name, state string) *mcp.CallToolResult {
		return &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{name: &mcp.ElicitParams{
			Message: name + "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
		}}}
	}
	state, responses := req.Params.RequestState, req.Params.InputResponses
	switch state {
	case "":
		d.ran("first")
		return ask("name", "named"), nil
	case "named":
		name, _ := responses["name"].(*mcp.ElicitResult).Content["name"].(string)
		d.ran("named " + name)
		return ask("sure", "sure "+name), nil
	default:
		_, name, _ := strings.Cut(state, " ")
		d.ran("booked " + name)
		return says("booked for " + name), nil
	}
}

// openDesk is a sidecar before one, which has the tool twice: of reserve the room says what its effect is.
func openDesk(t *testing.T) (*desk, *shop) {
	t.Helper()
	d := &desk{runs: map[string]int{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "book", InputSchema: anyArguments}, d.book)
	server.AddTool(&mcp.Tool{Name: "reserve", InputSchema: json.RawMessage(`{"type":"object","properties":{"room":{"type":"integer"}},"required":["room"]}`)}, d.book)
	o, _ := openMCPServer(t, server)
	s, _ := before(t, fmt.Sprintf("backends: {desk: {trust: trusted, mcp: {url: %q, allow_private: true, protocol: \"2026-07-28\"}, tools: {reserve: {effect_key: {args: [room], scope: tenant}}}}}\nprofiles: {interactive: {loop_guard: {off: true}}}", o.url))
	return d, s
}

// answered is a further round of a request.
func answered(params *mcp.CallToolParams, of *mcp.CallToolResult, name, value string) *mcp.CallToolParams {
	next := *params
	next.RequestState = of.RequestState
	next.InputResponses = mcp.InputResponseMap{name: &mcp.ElicitResult{Action: "accept", Content: map[string]any{name: value}}}
	return &next
}

// byRounds is a client that does each round itself.
func byRounds() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
	}
}

// Each round has its effect once. A round that is repeated is answered as the first time, whatever
// it answers; and after the end every earlier round is answered with it.
func TestEachRoundOfARequestRunsOnce(t *testing.T) {
	d, s := openDesk(t)
	// Each request comes over a connection of its own, as after one that was lost.
	send := func(params *mcp.CallToolParams) *mcp.CallToolResult {
		t.Helper()
		res, err := s.connect(t, "2026-07-28", byRounds()).CallTool(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first := &mcp.CallToolParams{Name: "book", Meta: mcp.Meta{"dev.sidecall/toolUseId": "toolu_1", "dev.sidecall/conversationId": "c"}}
	asked := func(params *mcp.CallToolParams, name string) *mcp.CallToolResult {
		t.Helper()
		res := send(params)
		again := send(params)
		if !res.NeedsInput() || res.InputRequests[name] == nil || again.RequestState != res.RequestState || again.InputRequests[name] == nil {
			t.Fatalf("asked %+v, and again %+v; want %s", res, again, name)
		}
		return res
	}
	one := asked(first, "name")
	second := answered(first, one, "name", "ada")
	two := asked(second, "sure")
	if other := send(answered(first, one, "name", "bob")); other.RequestState != two.RequestState {
		t.Errorf("another answer to the same round: %+v, want as for the first answer", other)
	}
	third := answered(first, two, "sure", "yes")
	for name, params := range map[string]*mcp.CallToolParams{"the last round": third, "the last round again": third} {
		if res := send(params); res.NeedsInput() || text(t, res) != "booked for ada" {
			t.Errorf("%s: %+v", name, res)
		}
	}
	for name, params := range map[string]*mcp.CallToolParams{"the first request": first, "the second": second, "another answer": answered(first, one, "name", "eve")} {
		if res := send(params); res.NeedsInput() || text(t, res) != "booked for ada" || res.Meta["dev.sidecall/replayed"] != true {
			t.Errorf("%s, after the end: %+v", name, res)
		}
	}
	if got, want := d.all(), map[string]int{"first": 1, "named ada": 1, "booked ada": 1}; !maps.Equal(got, want) {
		t.Errorf("it has run %v, want %v", got, want)
	}
}

// A request without an id goes through its rounds by the state alone.
func TestRoundsOfARequestWithoutAnID(t *testing.T) {
	d, s := openDesk(t)
	session := s.connect(t, "2026-07-28", &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "ada"}}, nil
	}})
	for range 2 {
		if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "book"}); err != nil || text(t, res) != "booked for ada" {
			t.Fatalf("%v, %v", res, err)
		}
	}
	if got, want := d.all(), map[string]int{"first": 2, "named ada": 2, "booked ada": 2}; !maps.Equal(got, want) {
		t.Errorf("it has run %v, want %v", got, want)
	}
}

// A further round is one of the call that was asked: with other arguments it would have their effect
// without what guards it.
func TestARoundWithOtherArgumentsIsRefused(t *testing.T) {
	d, s := openDesk(t)
	session := s.connect(t, "2026-07-28", byRounds())
	first := &mcp.CallToolParams{
		Name: "book", Arguments: json.RawMessage(`{"room":1,"nights":2}`),
		Meta: mcp.Meta{"dev.sidecall/toolUseId": "toolu_1", "dev.sidecall/conversationId": "c"},
	}
	asked, err := session.CallTool(t.Context(), first)
	if err != nil || !asked.NeedsInput() {
		t.Fatalf("the first round: %v, %v", asked, err)
	}
	for _, other := range []string{`{"room":2,"nights":2}`, `{"room":1}`, `{}`, `{"room":"1","nights":2}`} {
		next := answered(first, asked, "name", "ada")
		next.Arguments = json.RawMessage(other)
		res, err := session.CallTool(t.Context(), next)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.CodeInvalidParams ||
			!strings.HasPrefix(refused.Message, "requestState: it is of a call with other arguments") {
			t.Errorf("%s: %v, %v", other, res, err)
		}
	}
	same := answered(first, asked, "name", "ada")
	same.Arguments = json.RawMessage(` {"nights":2.0, "room":1}`)
	if res, err := session.CallTool(t.Context(), same); err != nil || !res.NeedsInput() {
		t.Errorf("the same arguments, written otherwise: %v, %v", res, err)
	}
	if got, want := d.all(), map[string]int{"first": 1, "named ada": 1}; !maps.Equal(got, want) {
		t.Errorf("it has run %v, want %v", got, want)
	}
}

// The rounds of a request have one effect together, and it is guarded as any: what was done under another id is not
// done by a further round, whatever its client makes of the state.
func TestTheEffectOfARequestIsGuardedInEachRound(t *testing.T) {
	d, s := openDesk(t)
	session := s.connect(t, "2026-07-28", byRounds())
	first := func(id, room string) *mcp.CallToolParams {
		return &mcp.CallToolParams{
			Name: "reserve", Arguments: json.RawMessage(`{"room":` + room + `}`),
			Meta: mcp.Meta{"dev.sidecall/toolUseId": id, "dev.sidecall/conversationId": "c"},
		}
	}
	call := func(params *mcp.CallToolParams) *mcp.CallToolResult {
		t.Helper()
		res, err := session.CallTool(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	one := first("toolu_1", "1")
	asked := call(one)
	sure := call(answered(one, asked, "name", "ada"))
	if res := call(answered(one, sure, "sure", "yes")); text(t, res) != "booked for ada" {
		t.Fatalf("the rounds of one request: %v", res)
	}
	if res := call(first("toolu_2", "1")); !res.IsError || !strings.Contains(text(t, res), "DUPLICATE_EFFECT") {
		t.Errorf("the same effect under another id: %v", res)
	}
	// A client that forges the state of a request for another room.
	two := first("toolu_3", "2")
	state := call(two).RequestState
	forging := answered(two, &mcp.CallToolResult{RequestState: reprinted(t, state, asked.RequestState)}, "name", "eve")
	forging.Arguments = one.Arguments
	if res := call(forging); !res.IsError || !strings.Contains(text(t, res), "DUPLICATE_EFFECT") {
		t.Errorf("a forged round with the arguments of what is done: %v", res)
	}
	if got, want := d.all(), map[string]int{"first": 2, "named ada": 1, "booked ada": 1}; !maps.Equal(got, want) {
		t.Errorf("it has run %v, want %v", got, want)
	}
}

// reprinted is a state with the print of another one's arguments.
func reprinted(t *testing.T, state, other string) string {
	t.Helper()
	var read [2]map[string]any
	for i, text := range []string{state, other} {
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err == nil {
			err = json.Unmarshal(raw[8:], &read[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// In the order of the fields, which the sum is of.
	return forged(fmt.Sprintf(`{"id":%q,"asked":%q,"server":%q,"print":%q}`, read[0]["id"], read[0]["asked"], read[0]["server"], read[1]["print"]))
}

// A client of the revisions with sessions is asked while its request runs.
func TestRoundsReachAClientWithSessions(t *testing.T) {
	d, s := openDesk(t)
	res, err := s.connect(t, "2025-11-25", &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "ada"}}, nil
	}}).CallTool(t.Context(), &mcp.CallToolParams{Name: "book"})
	if err != nil || text(t, res) != "booked for ada" {
		t.Errorf("%v, %v", res, err)
	}
	res, err = s.connect(t, "2025-11-25", nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "book"})
	if err == nil || !strings.Contains(err.Error(), "does not support elicitation") {
		t.Errorf("a client that cannot be asked: %v, %v", res, err)
	}
	if got := d.all(); got["booked ada"] != 1 {
		t.Errorf("it has run %v", got)
	}
}
