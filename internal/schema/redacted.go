package schema

import "github.com/sidecall/sidecall/internal/tool"

// Redacted is args with tool.ReceivedRedacted in the place of each value that is
// never shown, for what is kept of a call or told of it. Where there is no secret it
// is args itself; args is never changed. Of a nil schema, and of one that cannot be
// compiled, every value is one.
func (s *Schema) Redacted(args map[string]any) map[string]any {
	if !s.HasSecret(args) {
		return args
	}
	return s.sensitive().redacted(args).(map[string]any)
}

// HasSecret reports whether some value in args is never shown.
func (s *Schema) HasSecret(args map[string]any) bool {
	secrets := s.sensitive()
	return args != nil && (secrets.all || secrets.within(args))
}

func (s *sensitiveness) redacted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, child := range v {
			if out[name] = tool.ReceivedRedacted; !s.has(name) {
				out[name] = s.redacted(child)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = s.redacted(child)
		}
		return out
	case string:
		if s.inside(v) {
			return tool.ReceivedRedacted
		}
	}
	return v
}
