package tool

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The README's table says of every code what the table here says: its class, and
// whether the model may call again.
func TestTheTableOfTheREADME(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| ([A-Z]+) \\| .* \\| ([^|]+) \\|$")
	var told []Code
	for _, cells := range row.FindAllStringSubmatch(string(readme), -1) {
		code := Code(cells[1])
		told = append(told, code)
		if code.Class() != Class(cells[2]) {
			t.Errorf("%s: class %s, and in the README %s", code, code.Class(), cells[2])
		}
		if no := strings.HasPrefix(cells[3], "no"); no == code.Retryable() {
			t.Errorf("%s: retryable %v, and in the README %q", code, code.Retryable(), cells[3])
		}
	}
	slices.Sort(told)
	if !slices.Equal(told, Codes()) {
		t.Errorf("the README has %v\nand there are %v", told, Codes())
	}
}
