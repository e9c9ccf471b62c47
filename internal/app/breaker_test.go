package app

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

const payments = `
backends:
  shop: {http: {base_url: %q, allow_private: true}}
tools:
  pay:
    backend: shop
    http: {method: POST, path: /pay}
    verify_with: get_order
    input_schema: {type: object, properties: {order_id: {type: string}}, required: [order_id]}
  get_order:
    backend: shop
    http: {method: GET, path: "/orders/{order_id}"}
    input_schema: {type: object, properties: {order_id: {type: string}}, required: [order_id]}
`

// Five payments lose their acknowledgements, each in a conversation of its own. The look-up
// that they are told to make is answered, and so is the next payment.
func TestLostAcknowledgementsDoNotTakeTheLookUpAlong(t *testing.T) {
	for _, store := range []string{"memory: {}", fmt.Sprintf("embedded: {path: %q}", filepath.Join(t.TempDir(), "calls"))} {
		kind, _, _ := strings.Cut(store, ":")
		t.Run(kind, func(t *testing.T) {
			shop := upstream.New(upstream.NewLedger())
			shop.Script("/pay", append(upstream.CloseAfter().Times(5), upstream.JSON(`{"paid":true}`))...)
			shop.Script("/orders/A-1", upstream.JSON(`{"paid":true}`))
			served, err := upstream.Start(shop, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = served.Close() })
			socket := filepath.Join(harness.ShortDir(t), "s.sock")
			cfg := parsed(t, fmt.Sprintf("listen: [%q]\nadmin: off\nstore: {%s}\n"+payments, "unix://"+socket, store, served.URL))
			s := started(t, cfg, quiet())
			t.Cleanup(func() {
				if err := s.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			})
			client := dialled(t, socket)
			call := func(name, conversation string) *sidecallv1.ExecuteToolResponse {
				res, err := client.ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{
					ToolUseId: "toolu_" + name, ConversationId: conversation, ToolName: name, ArgumentsJson: `{"order_id":"A-1"}`,
				})
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			for n := range 5 {
				conversation := fmt.Sprint("c", n)
				lost := call("pay", conversation)
				if lost.GetError().GetCode() != "OUTCOME_UNKNOWN" || !strings.Contains(lost.GetError().GetHint(), `call get_order with {"order_id":"A-1"}`) {
					t.Errorf("payment %d: %s", n, lost.GetContent())
				}
				if found := call("get_order", conversation); found.GetIsError() {
					t.Errorf("the look-up after payment %d: %s", n, found.GetContent())
				}
			}
			if paid := call("pay", "another"); paid.GetIsError() {
				t.Errorf("the next payment: %s", paid.GetContent())
			}
		})
	}
}

// A backend that cannot be reached is cut off for all of its tools at once, by one
// breaker, and only until it can be.
func TestABackendThatCannotBeReachedIsCutOffOnce(t *testing.T) {
	socket := filepath.Join(harness.ShortDir(t), "s.sock")
	cfg := parsed(t, fmt.Sprintf("listen: [%q]\nadmin: off\nstore: {memory: {}}\n"+payments+"defaults: {retry: {max_attempts: 1}}\n",
		"unix://"+socket, "http://"+harness.FreePort(t)))
	s := started(t, cfg, quiet())
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	client := dialled(t, socket)
	var codes []string
	for n := range 6 {
		res, err := client.ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{
			ToolUseId: fmt.Sprint("toolu_", n), ConversationId: "c", ToolName: []string{"pay", "get_order"}[n%2], ArgumentsJson: fmt.Sprintf(`{"order_id":"A-%d"}`, n),
		})
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, res.GetError().GetCode())
	}
	want := strings.Repeat("DEPENDENCY_UNAVAILABLE ", 5) + "CIRCUIT_OPEN"
	if got := strings.Join(codes, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
