//go:build !linux

package process

import "errors"

// Conceal reports that there is no way here to keep what this process has from
// others of the same user.
func Conceal() error {
	return errors.New("only Linux can keep the environment from programs of the same user")
}
