package schema

import "context"

// Nearest is what is found with all the looks of one call.
func Nearest(want string, have []string, limit int) []string {
	return checker{}.look(context.Background()).nearest(want, have, limit)
}
