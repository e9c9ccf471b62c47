//go:build !linux

package process

import (
	"errors"
	"os"
)

func mayChangeUser() error {
	if os.Geteuid() != 0 {
		return errors.New("another user needs root")
	}
	return nil
}
