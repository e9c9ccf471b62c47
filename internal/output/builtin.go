package output

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// ToolName is the name of the built-in tool that pages through kept outputs.
const ToolName = "read_output"

// maxHandle is the length of the longest handle, in characters: that of a recorded
// result holds the three ids of its call.
const maxHandle = 1200

// Tool is the definition of read_output. Its pages are untrusted, because what
// they show may be.
func Tool() tool.Tool {
	return tool.Tool{
		Name: ToolName,
		Description: "Reads the rest of a tool result that was cut. Give the output_ref from the notice of the cut result, " +
			"and either an offset to read on from, or a pattern to find the lines that matter.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{` +
			`"output_ref":{"type":"string","minLength":1,"maxLength":` + strconv.Itoa(maxHandle) + `,"description":"As the notice of the cut result gives it."},` +
			`"offset":{"type":"integer","minimum":0,"default":0,"description":"The character to start at."},` +
			`"limit":{"type":"integer","minimum":1,"default":` + strconv.Itoa(DefaultPage) + `,"description":"How many characters to return at most."},` +
			`"pattern":{"type":"string","maxLength":` + strconv.Itoa(MaxPattern) + `,"description":` +
			`"Return only the lines that match this regular expression (RE2), each with its offset."}},` +
			`"required":["output_ref"],"additionalProperties":false}`),
		Effect:  tool.ReadOnly,
		Backend: "sidecall",
		Policy: tool.Policy{
			AttemptTimeout: 5 * time.Second,
			Deadline:       15 * time.Second,
			Retry:          tool.Retry{MaxAttempts: 3, Base: 100 * time.Millisecond, Multiplier: 2, Max: time.Second},
			MaxOutputChars: DefaultLimit,
			OutputStrategy: Head,
			Untrusted:      true,
		},
	}
}
