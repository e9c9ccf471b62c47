package config

import (
	"strconv"

	"github.com/sidecall/sidecall/internal/tool"
)

// shorten keeps the text of a message readable.
func shorten(s string) string { return tool.Shorten(s, 60) }

// index is a list index as a step of a path.
func index(i int) string { return strconv.Itoa(i) }

// quote quotes what a user wrote, shortened, whatever it holds.
func quote(s string) string { return strconv.Quote(shorten(s)) }
