package demo

import (
	"context"
	"fmt"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// runaway is a model that makes the same call again and again, whatever it is told. The
// program that runs the loop obeys when it is told to stop.
func runaway(ctx context.Context, s *stage) error {
	const asked = `{"order_id":"A-404"}`
	var last *sidecallv1.ExecuteToolResponse
	made := 0
	for !last.GetStop() && made < 40 {
		made++
		req := request(fmt.Sprintf("toolu_loop_%d", made), "get_order", asked)
		req.PromptId = "runaway"
		s.calls++
		res, err := s.sidecar.client.ExecuteTool(ctx, req)
		if err != nil {
			return err
		}
		if level := res.GetLoop().GetLevel(); made == 1 || level != last.GetLoop().GetLevel() {
			s.show(req.GetToolUseId(), "get_order", asked, res)
		}
		last = res
	}
	requests, _ := s.upstream("/orders/A-404")
	s.promise(requests == 3 && last.GetError().GetCode() == "LOOP_DETECTED", "the third is nudged, from the fourth on nothing is sent")
	s.promise(last.GetStop() && made == 7, "after %d of 40 calls the program is told to stop", made)
	return nil
}

// spent is a prompt with a budget of five calls whose model makes eight at once.
func spent(ctx context.Context, s *stage) error {
	batch := &sidecallv1.ExecuteToolsRequest{}
	for i := range 8 {
		req := request(fmt.Sprintf("toolu_budget_%d", i), "get_order", fmt.Sprintf(`{"order_id":"A-%d"}`, 20+i))
		req.PromptId, req.Profile = "spent", "small"
		batch.Calls = append(batch.Calls, req)
	}
	s.calls += len(batch.GetCalls())
	all, err := s.sidecar.client.ExecuteTools(ctx, batch)
	if err != nil {
		return err
	}
	worked, refused := 0, 0
	for i, res := range all.GetResults() {
		switch {
		case !res.GetIsError():
			worked++
		case res.GetError().GetCode() == "BUDGET_EXCEEDED":
			if refused++; refused == 1 {
				s.show(res.GetToolUseId(), "get_order", batch.GetCalls()[i].GetArgumentsJson(), res)
			}
		}
	}
	s.promise(worked == 5 && refused == 3, "of a batch of 8, the 5 calls that fit were made; the others were told to wrap up")
	return nil
}

// plannedAnew is a model that has lost track of what it did, and refunds once more: as a
// new call, with a new id.
func plannedAnew(ctx context.Context, s *stage) error {
	before, done := s.shop.count("/refunds")
	res, err := s.call(ctx, "toolu_refund_anew", "refund", payment)
	if err != nil {
		return err
	}
	requests, effects := s.upstream("/refunds")
	s.promise(res.GetError().GetCode() == "DUPLICATE_EFFECT" && requests == before && effects == done,
		"nothing more was sent: the model is told what was done under the id %s", res.GetEarlier().GetToolUseId())
	return nil
}
