package harness

import (
	"strings"
	"testing"
)

// What a process says first and last is told, however much it says between, and
// wherever in it the report of a crash begins.
func TestTheFirstAndTheLastLinesAreKept(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("goroutine 7 [running]: and what it was at\n", 10_000)
	for name, c := range map[string]struct {
		log   string
		wants []string
	}{
		"nothing":                  {},
		"a few lines":              {"listening\nstopped\n", []string{"listening\nstopped\n"}},
		"many lines":               {"listening\n" + lines + "stopped\n", []string{"listening\n", "\n…\n", "stopped\n"}},
		"a crash and nothing else": {"SIGQUIT: quit\n" + lines + "exit status 2\n", []string{"SIGQUIT: quit\n", "exit status 2\n"}},
		"a crash after many lines": {
			"listening\n" + lines + "served\npanic: a bug\n" + lines + "exit status 2\n",
			[]string{"listening\n", "served\npanic: a bug\n", "exit status 2\n"},
		},
		"a race":        {lines + "WARNING: DATA RACE\n" + lines, []string{"WARNING: DATA RACE\n"}},
		"one long line": {strings.Repeat("x", 1<<20) + "end", []string{"xxx", "…", "end"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := words(c.log)
			for _, want := range c.wants {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not kept", want)
				}
			}
			if most := 2 * (firstWords + lastWords + len("…\n")); len(got) > most {
				t.Errorf("%d bytes, want at most %d", len(got), most)
			}
		})
	}
}
