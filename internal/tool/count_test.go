package tool

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 errors", 1: "1 error", 2: "2 errors", -1: "-1 errors"} {
		if got := Count(n, "error"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
