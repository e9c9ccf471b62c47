package refusals

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// state is what is known of the payment when it is sent again.
type state string

const (
	absent  state = "absent"
	done    state = "done"
	notRun  state = "not run"
	unknown state = "unknown"
	// left: its process was killed while it ran.
	left state = "left by a process that is gone"
	// runs: it is running. Who asks waits for its end, or finds no place to wait.
	runs        state = "running"
	runsCrowded state = "running, and too many wait"
)

var states = []state{absent, done, notRun, unknown, left, runs, runsCrowded}

func (s state) isRunning() bool { return s == runs || s == runsCrowded }

// payment is the payment of one reason and state, as it was first sent.
func payment(r *Reason, s state) *sidecallv1.ExecuteToolRequest {
	req := calltest.Request("toolu "+r.Name+", "+string(s), "charge")
	req.ConversationId = "c " + req.GetToolUseId()
	if r.Nowhere {
		req.ConversationId = ""
	}
	return req
}

// begin claims a payment, as a sidecar does whose config was another one.
func begin(t *testing.T, d *dedupe.Dedupe, req *sidecallv1.ExecuteToolRequest) *claimed {
	t.Helper()
	args, violation := schema.ParseArgs("charge", req.GetArgumentsJson())
	if violation != nil {
		t.Fatal(violation)
	}
	canonical, err := schema.Canonical(args)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticket := d.Join(keyOf(req))
	admission, claim, err := ticket.Admit(ctx, dedupe.Request{
		Tool: "charge", Effect: tool.NonIdempotent, Fingerprint: schema.Fingerprint("charge", canonical),
	})
	if err != nil || claim == nil {
		t.Fatalf("%s: %v, %v", req.GetToolUseId(), admission.Verdict, err)
	}
	return &claimed{req, ticket, claim}
}

// claimed is a payment that runs.
type claimed struct {
	req    *sidecallv1.ExecuteToolRequest
	ticket *dedupe.Ticket
	claim  *dedupe.Claim
}

// end settles it.
func (c *claimed) end(t *testing.T, s dedupe.State) {
	t.Helper()
	settlement := dedupe.Settlement{State: s, Attempts: 1}
	if s == dedupe.Done {
		var err error
		if settlement.Result, err = proto.Marshal(&sidecallv1.ExecuteToolResponse{
			ToolUseId: c.req.GetToolUseId(), Outcome: sidecallv1.Outcome_OUTCOME_OK, Content: paid, Recorded: true,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if verdict, err := c.claim.Settle(t.Context(), settlement); err != nil || verdict != dedupe.Settled {
		t.Fatalf("%s: %v, %v", c.req.GetToolUseId(), verdict, err)
	}
	c.ticket.Leave()
}

// record makes the record of a payment; those that run are made when they are asked for.
func record(t *testing.T, d *dedupe.Dedupe, r *Reason, s state) {
	t.Helper()
	final := map[state]dedupe.State{done: dedupe.Done, notRun: dedupe.NotRun, unknown: dedupe.Unknown}
	switch {
	case s == absent || s.isRunning():
	case s == left:
		begin(t, d, payment(r, s))
	case final[s] != dedupe.Absent:
		begin(t, d, payment(r, s)).end(t, final[s])
	default:
		panic(fmt.Sprintf("nobody makes a record that is %s", s))
	}
}
