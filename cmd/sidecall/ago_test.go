package main

import (
	"testing"
	"time"
)

func TestHowLongAgo(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "24h": day, "90m": 90 * time.Minute, "1d12h": 36 * time.Hour, "3650d": 3650 * day,
		"": 0, "week": 0, "7": 0, "d": 0, "-1h": 0, "-7d": 0, "0s": 0, "0d": 0, "1d-2h": 0, "3651d": 0, "99999999999d": 0, "7days": 0, "1h7d": 0,
		"9223372036854775807h": 0,
	} {
		var a ago
		if err := a.Set(text); (err == nil) != (want > 0) || a.Duration != want {
			t.Errorf("%q: %v, %v; want %v", text, a.Duration, err, want)
		}
	}
	for text, want := range map[string]string{"48h": "2d", "1d": "24h", "90m": "1h30m", "10m": "10m", "90s": "1m30s", "168h": "7d"} {
		var a ago
		if err := a.Set(text); err != nil || a.String() != want {
			t.Errorf("%s: %q, %v", text, a.String(), err)
		}
	}
}
