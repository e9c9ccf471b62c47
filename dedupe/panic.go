package dedupe

import (
	"errors"
	"fmt"
)

// errPanic is a bug that ended a request to the store. As with any error,
// nobody knows whether the request took effect.
var errPanic = errors.New("panic")

// survive makes an error of a panic, for goroutines that have no caller to
// answer: it would end the process, and every call in it.
func survive(request func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return request()
}
