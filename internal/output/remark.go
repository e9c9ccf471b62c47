package output

import (
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// A remark is what the sidecar itself says of a result beside it: that only some of
// it was done, that nothing was found. It counts within the limit. JSON stays JSON:
//
//	{"_note":"…","result":[]}
//
// and of an untrusted result it stands behind the boundary.
const (
	beforeRemark = `{"_note":`
	// remarkExtra is the most that a remark takes beside itself in quotes.
	remarkExtra = len(beforeRemark) + len(beforeResult) + len(`}`)
)

// remarked shapes a reply with the first remark that leaves room for a result.
func remarked(in Input) Shaped {
	remarks, limit := in.Remarks, in.Limit
	in.Remarks = nil
	for _, remark := range remarks {
		quoted := tool.AppendQuoted(nil, remark)
		left := limit - countChars(quoted) - remarkExtra
		if left < min(MinLimit, limit/2) {
			continue
		}
		in.Limit = left
		s := Shape(in)
		s.Content = s.with(remark, string(quoted), in.Untrusted || !isObjectOrList(s.Content))
		return s
	}
	return Shape(in)
}

// with is the content with a remark, as text or as JSON.
func (s *Shaped) with(remark, quoted string, asText bool) string {
	const cut = `{"_truncated":`
	switch {
	case s.Content == "":
		return "[" + remark + "]"
	case asText:
		return s.Content + "\n[" + remark + "]"
	case s.Truncated && len(s.Content) > len(cut) && s.Content[:len(cut)] == cut:
		return beforeRemark + quoted + "," + s.Content[1:]
	default:
		return beforeRemark + quoted + beforeResult + s.Content + "}"
	}
}

// isObjectOrList reports whether a content is JSON that a remark must leave JSON.
func isObjectOrList(content string) bool {
	return content != "" && utf8.ValidString(content) && backend.EvidentJSON([]byte(content))
}
