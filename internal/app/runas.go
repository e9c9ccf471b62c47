package app

import (
	"fmt"

	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/config"
)

// userOf is the user that run_as names; nil without that key. An error here says
// in time what every call of the backend would fail of.
func userOf(runAs config.Text) (*process.User, error) {
	text := runAs.Reveal()
	if text == "" {
		return nil, nil
	}
	user, err := process.LookUpUser(text)
	if err != nil && len(runAs.References()) > 0 {
		err = fmt.Errorf("what %s stands for names no user of this machine, or no group", runAs) // the words of err have a part of it
	}
	if err == nil {
		err = user.Permitted()
	}
	if err != nil {
		return nil, keyError{"run_as", err}
	}
	return user, nil
}

// keyError is an error of one key of a backend.
type keyError struct {
	key string
	error
}

// Unwrap returns the error without its place.
func (e keyError) Unwrap() error { return e.error }
