package tool

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of docs/codes.md says of every code what the table here says: its class, and
// whether the model may call again.
func TestTheTableOfTheDocs(t *testing.T) {
	readme, err := os.ReadFile("../../docs/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| ([A-Z]+) \\| .* \\| ([^|]+) \\|$")
	var told []Code
	for _, cells := range row.FindAllStringSubmatch(string(readme), -1) {
		code := Code(cells[1])
		told = append(told, code)
		if code.Class() != Class(cells[2]) {
			t.Errorf("%s: class %s, and in the docs %s", code, code.Class(), cells[2])
		}
		if no := strings.HasPrefix(cells[3], "no"); no == code.Retryable() {
			t.Errorf("%s: retryable %v, and in the docs %q", code, code.Retryable(), cells[3])
		}
	}
	slices.Sort(told)
	if !slices.Equal(told, Codes()) {
		t.Errorf("docs/codes.md has %v\nand there are %v", told, Codes())
	}
}
