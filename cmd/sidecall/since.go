package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// instant reads how long ago something was, as 90m, 24h or 7d, or when.
func instant(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("%q: want how long ago, such as 90m, 24h or 7d, or an instant such as 2026-11-21T03:00:00Z", text)
	}
	return now.Add(-d), nil
}
