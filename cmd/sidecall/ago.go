package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// maxAgo is how long ago something may be that is asked for.
const maxAgo = 10 * 365 * 24 * time.Hour

// ago is a flag that says how long ago: a duration, in which days may stand first.
type ago struct{ time.Duration }

// Set implements pflag.Value.
func (a *ago) Set(text string) error {
	days, rest, has := strings.Cut(text, "d")
	var whole time.Duration
	if has {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil {
			return errAgo
		}
		whole, text = time.Duration(min(n, 1<<16))*24*time.Hour, rest
	}
	var more time.Duration
	if text != "" || !has {
		var err error
		if more, err = time.ParseDuration(text); err != nil {
			return errAgo
		}
	}
	if more < 0 || whole+more <= 0 || whole+more > maxAgo {
		return errAgo
	}
	a.Duration = whole + more
	return nil
}

var errAgo = errors.New("want how long ago, as in 90m, 24h or 7d, at most 3650d")

// Type implements pflag.Value.
func (*ago) Type() string { return "duration" }

// String implements pflag.Value.
func (a *ago) String() string {
	const day = 24 * time.Hour
	switch {
	case a.Duration == 0:
		return ""
	case a.Duration >= 2*day && a.Duration%day == 0:
		return strconv.Itoa(int(a.Duration/day)) + "d"
	}
	text := a.Duration.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}
