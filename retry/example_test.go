package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/retry"
)

var errBusy = errors.New("503: busy")

func ExampleDo() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	policy := retry.Policy{MaxAttempts: 3, Base: time.Millisecond, Multiplier: 2, Max: time.Second}

	// The result stays in the closure; only what it means goes to Do.
	var order string
	var err error
	report := retry.Do(ctx, policy, retry.NewBudget(retry.BudgetShare, retry.BudgetFloor), func(_ context.Context, n int) retry.Verdict {
		order, err = lookUp(n)
		return retry.Verdict{Again: errors.Is(err, errBusy)}
	})
	fmt.Println(order, err, "after", report.Attempts, "attempts:", report.Stop)
	// Output: order A-1 <nil> after 3 attempts: done
}

func lookUp(n int) (string, error) {
	if n < 3 {
		return "", errBusy
	}
	return "order A-1", nil
}

// An upstream that asks for more time than there is ends the call at once, with
// what it asked for.
func ExampleDo_retryAfter() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	policy := retry.Policy{MaxAttempts: 3, Base: time.Millisecond, Multiplier: 2, Max: time.Second}
	report := retry.Do(ctx, policy, nil, func(context.Context, int) retry.Verdict {
		return retry.Verdict{Again: true, After: 5 * time.Minute}
	})
	fmt.Println(report.Stop, report.Attempts, report.After)
	// Output: retry_after 1 5m0s
}

func ExamplePolicy_Ceiling() {
	policy := retry.Policy{MaxAttempts: 6, Base: 250 * time.Millisecond, Multiplier: 2, Max: 3 * time.Second}
	for n := 1; n < policy.MaxAttempts; n++ {
		fmt.Println(policy.Ceiling(n))
	}
	// Output:
	// 250ms
	// 500ms
	// 1s
	// 2s
	// 3s
}
