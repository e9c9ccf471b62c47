package breaker_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/breaker"
)

func Example() {
	shop := breaker.New(breaker.Settings{
		Name: "shop", Failures: 2, OpenFor: time.Hour,
		OnChange: func(name string, from, to breaker.State) { fmt.Println(name, "was", from, "and is", to) },
	})
	for range 3 {
		if _, open := errors.AsType[*breaker.OpenError](order(shop)); open {
			fmt.Println("nothing was sent")
		}
	}
	// Output:
	// shop was closed and is open
	// nothing was sent
}

// order shows the pattern: the outcome is a failure until something better is
// known, so that a panic counts too.
func order(b *breaker.Breaker) error {
	done, err := b.Allow()
	if err != nil {
		return err
	}
	outcome := breaker.Failure
	defer func() { done(outcome) }()
	if err := errors.New("503"); err != nil { // what the backend answers
		return err
	}
	outcome = breaker.Success
	return nil
}
