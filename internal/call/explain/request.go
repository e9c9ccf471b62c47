package explain

import (
	"fmt"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// untilItDoes ends what a model is told of a mistake that is not its own.
const untilItDoes = "This is no mistake of the arguments: tell the user that the agent's program must be corrected."

// RequireSetting is the setting that says which ids a call must have beside its
// tool_use_id.
const RequireSetting = "identity.require"

// Missing is what was received of what was not sent.
const Missing = "(missing)"

// wantedIDs say what to send as the ids that a call may have to have.
var wantedIDs = map[string]string{
	"tool_use_id":     "send the id that the provider gave the call",
	"conversation_id": "send an id of the conversation's own, or the ids of two agents (call_0 and call_0) stand for one call",
	"turn_id":         "send something stable per assistant turn, such as its index",
	"prompt_id":       "send something stable per prompt of the user",
}

// NoID refuses a call without an id that it must have.
func NoID(field string) tool.Error {
	required := "is required"
	if field != "tool_use_id" {
		required += " by the setting " + RequireSetting
	}
	return BadRequest(field, required+": "+wantedIDs[field], Missing)
}

// TooLong refuses a field of a request that has more bytes than are taken.
func TooLong(field, value string, most int) tool.Error {
	return BadRequest(field, fmt.Sprintf("%d bytes, at most %d are taken", len(value), most), tool.Quote(value))
}

// NotUTF8 refuses a field of a request whose bytes are not UTF-8.
func NotUTF8(field, value string) tool.Error {
	return BadRequest(field, NotText(value), tool.Quote(value))
}

// NotText says of bytes that are not UTF-8 where they are not, counted from 1.
func NotText(value string) string {
	valid := 0
	for valid < len(value) {
		r, size := utf8.DecodeRuneInString(value[valid:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Sprintf("is not valid UTF-8: byte %d is 0x%02x", valid+1, value[valid])
		}
		valid += size
	}
	return "is valid UTF-8"
}

// TooManyLabels refuses a request with more labels than are taken.
func TooManyLabels(labels, most int) tool.Error {
	return BadRequest("labels", fmt.Sprintf("at most %d labels are taken", most), fmt.Sprint(labels))
}

// Negative refuses a field of a request that must not be below 0.
func Negative(field, received string) tool.Error {
	return BadRequest(field, "must not be negative", received)
}

// BadRequest refuses what the program, not the model, can correct.
func BadRequest(field, constraint, received string) tool.Error {
	return tool.Error{
		Code: tool.CodeInvalidArgs, Field: field, Constraint: constraint, Received: received,
		Hint: "Nothing was sent. " + untilItDoes,
	}
}
