package call

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

// shapeOf describes arguments by names and types, sorted, for the log. Values
// never appear.
func shapeOf(args map[string]any) string {
	if len(args) == 0 {
		return "{}"
	}
	var few [16]string
	names := few[:0]
	for name := range args {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.Grow(24 * min(len(names), 32))
	for i, name := range names {
		if i == 32 {
			fmt.Fprintf(&b, ",…%d more", len(names)-i)
			break
		}
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(tool.Shorten(name, 64))
		b.WriteByte(':')
		writeType(&b, args[name])
	}
	b.WriteByte('}')
	return b.String()
}

func writeType(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString("boolean")
	case string:
		b.WriteString("string")
	case []any:
		b.WriteString("array[")
		b.WriteString(strconv.Itoa(len(v)))
		b.WriteByte(']')
	case map[string]any:
		b.WriteString("object")
	default:
		b.WriteString("number")
	}
}
