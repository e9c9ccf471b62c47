package call

import (
	"context"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/receipt"
)

// maxReceipts bounds the receipts that are verified at once.
const maxReceipts = maxConversationCalls

// VerifyReceipts compares what is kept of the effects of a conversation, of the last of them
// where there is more. Its errors are Faults, or that of ctx.
func (e Records) VerifyReceipts(ctx context.Context, tenant, conversation string, noted *receipt.Noted) (report receipt.Report, head dedupe.Head, more bool, err error) {
	in := receipt.Input{Noted: noted, Records: map[receipt.Call]receipt.Record{}}
	search := dedupe.Search{Tenant: tenant, Term: ConversationTerm(tenant, conversation), Conversation: conversation, Most: recordsAtOnce}
	// The receipts are read first: what is settled meanwhile has a record, and is later than all of them.
	if in.Lines, in.Head, in.Now, err = e.receipts(ctx, tenant, conversation); err != nil {
		return report, head, false, notLookedUp(ctx, err)
	}
	for n := 0; ; n += recordsAtOnce {
		page, err := e.Dedupe.Find(ctx, search)
		if err != nil {
			return report, head, false, notLookedUp(ctx, err)
		}
		for i := range page.Calls {
			if r := &page.Calls[i].Record; r.State != dedupe.Absent {
				in.Records[receipt.Call{Turn: page.Calls[i].Key.Turn, ID: page.Calls[i].Key.ID}] = receipt.Record{
					Outcome: r.Outcome(), Finished: r.FinishedAt, Receipted: r.Receipted() && !r.FinishedAt.After(in.At),
				}
			}
		}
		if search.From = page.Next; page.Next == "" || n >= maxConversationCalls {
			more = page.Next != "" || len(in.Lines) == maxReceipts && in.Count > maxReceipts
			return receipt.Verify(in), in.Head, more, nil
		}
	}
}

// receipts reads the receipts of a conversation from the last one down, up to the first page
// of which nothing is kept.
func (e Records) receipts(ctx context.Context, tenant, conversation string) (lines []dedupe.Line, head dedupe.Head, now time.Time, err error) {
	chain, err := e.Dedupe.Receipts(ctx, tenant, conversation, 0)
	head, now = chain.Head, chain.Now
	for err == nil && len(chain.Lines) > 0 {
		lines = append(lines, chain.Lines...)
		last := chain.Lines[len(chain.Lines)-1].N
		kept := slices.ContainsFunc(chain.Lines, func(l dedupe.Line) bool { return l.Body != "" })
		if last == 1 || !kept || len(lines) >= maxReceipts {
			break
		}
		chain, err = e.Dedupe.Receipts(ctx, tenant, conversation, last-1)
	}
	return lines, head, now, err
}
