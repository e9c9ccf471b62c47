package dedupe

import (
	"context"
	"errors"
	"fmt"

	"github.com/sidecall/sidecall/failpoint"
)

// errPanic is a bug that ended a request to the store. As with any error,
// nobody knows whether the request took effect.
var errPanic = errors.New("panic")

// ask asks the store for the right to run a call. A claim that an error or a
// panic keeps from being heard is given back: nothing was sent under it.
func (d *Dedupe) ask(ctx context.Context, req Request) (admission Admission, err error) {
	err = errPanic
	defer func() {
		if err != nil {
			d.giveBack(req, err)
		}
	}()
	failpoint.Hit(failpoint.AdmissionUnsent)
	answer, failure := d.store.Admit(ctx, req)
	failpoint.Hit(failpoint.AdmissionDurable)
	admission, err = answer, failure
	return admission, err
}

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
