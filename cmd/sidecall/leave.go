package main

import (
	"context"
	"errors"
)

// unlessAsked loads what a command line names. That does not see that the command is to end, for it may wait
// for who writes to a pipe: it is left behind then. What is wrong with it is wrong with the command line.
func unlessAsked[T any](ctx context.Context, load func() (T, error)) (loaded T, err error) {
	done := make(chan struct{})
	var found T
	var wrong error
	go func() {
		defer close(done)
		found, wrong = load()
	}()
	select {
	case <-ctx.Done():
		return loaded, fail(exitUnavailable, errors.New("broken off"))
	case <-done:
	}
	if wrong != nil {
		return loaded, fail(exitUsage, wrong)
	}
	return found, nil
}
