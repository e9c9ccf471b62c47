package storetest

import (
	"context"

	"github.com/sidecall/sidecall/dedupe"
)

// Admit asks for the right to run a call, and waits for another one's, as a
// request does that has nothing else to do meanwhile.
func Admit(ctx context.Context, d *dedupe.Dedupe, req dedupe.Request) (dedupe.Admission, *dedupe.Claim, error) {
	ticket := d.Join(req.Key)
	defer ticket.Leave()
	admission, claim, err := ticket.Admit(ctx, req)
	if err == nil && admission.Verdict.Waits() {
		return ticket.Wait(ctx)
	}
	return admission, claim, err
}
