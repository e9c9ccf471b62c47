package output

import "github.com/sidecall/sidecall/internal/tool"

// PageResult is a part of a kept output.
type PageResult struct {
	// Content is at most the asked-for number of characters.
	Content string
	// TotalChars is the length of the kept output.
	TotalChars int64
	// NextOffset is where the next page starts; TotalChars at the end.
	NextOffset int64
	// Matches counts the lines in Content when a pattern was searched for.
	Matches int
}

func wrongArgument(field, constraint, received, hint string) *tool.Error {
	return &tool.Error{Code: tool.CodeInvalidArgs, Field: field, Constraint: constraint, Received: received, Hint: hint}
}

// quoted writes a received string as JSON, shortened to what an error may show.
func quoted(s string) string {
	const most = 200
	b := tool.AppendQuoted(nil, clean([]byte(s)))
	if countChars(b) > most {
		b = append(b[:clusterFloor(b, indexChar(b, most-1))], "…"...)
	}
	return string(b)
}
